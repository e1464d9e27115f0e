"""Blocks side by side, replays of compiled code, and what short factors cost beside their products."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from rephaze.hardware import calibration
from rephaze.truth.layer_parts import FORWARD, INPUT, REPLAY
from rephaze.truth.machines import load_machines
from rephaze.truth.op_table import OpTable
from rephaze.truth.physics import product_times
from rephaze.truth.shipped_runs import shipped_runs
from rephaze.truth.traits import traits_of
from rephaze.truth.variants import write_variants


def first(source, **of_plan):
    return next(
        run
        for run in shipped_runs()
        if run.source.startswith(source) and all(getattr(run.plan, name) == one for name, one in of_plan.items())
    )


def written(run):
    table = OpTable()
    (variant,) = write_variants(run, table)
    return table, variant.kinds[0].segments


@pytest.fixture(scope="module")
def sequential():
    """On TPUs with tensor parallelism, all of a block computed again."""
    run = first("Pax weak scaling", recompute="full")
    assert run.plan.tp > 1
    assert not run.shape.is_parallel
    return replace(run, is_fused=True)


def products_by_pass(run):
    table, segments = written(run)
    counts = Counter(int(row[0]) for row in table.products)
    return {which: counts[segments[which]] for which in (FORWARD, REPLAY)}


def test_side_by_side_neither_last_product_is_computed_again(sequential):
    beside = replace(sequential, shape=replace(sequential.shape, is_parallel=True))
    assert products_by_pass(sequential) == {FORWARD: 4, REPLAY: 3}
    assert products_by_pass(beside) == {FORWARD: 4, REPLAY: 2}


def test_maxtexts_own_models_have_their_parts_side_by_side():
    for source in ("MaxText v4", "MaxText v5e", "MaxText v5p"):
        assert first(source).shape.is_parallel, source
    # Models that it only runs are as their makers built them.
    assert not first("tpu-recipes").shape.is_parallel
    assert not first("DGX Cloud benchmarking 24.11.1 MaxText").shape.is_parallel


def gathered_bytes(run, which):
    table, segments = written(run)
    return sum(row[1] for row in table.sends if row[0] == segments[which])


def test_what_a_compiled_replay_gathers_serves_the_weights_gradient_too(sequential):
    kept = replace(sequential, plan=replace(sequential.plan, recompute="none"))
    # One all-gather for attention and one for the feed-forward part.
    both = gathered_bytes(kept, FORWARD) / 2
    assert gathered_bytes(kept, INPUT) == pytest.approx(gathered_bytes(kept, FORWARD) + both)
    assert gathered_bytes(sequential, INPUT) == pytest.approx(gathered_bytes(kept, INPUT) - both)


def test_compiled_code_scales_weights_to_short_factors_in_every_pass():
    run = first("tpu-recipes Trillium")
    moved = {}
    for bits in (8, 16):
        for name, chip in (("tpu", run.chip), ("gpu", "H100-80GB-SXM")):
            table, segments = written(replace(run, bits=bits, chip=chip))
            moved[name, bits] = sum(row[1] for row in table.moves if row[0] == segments[FORWARD])
    shape = run.shape
    attention = shape.hidden * shape.head_dim * (2 * shape.heads + 2 * shape.kv_heads)
    weights = attention + 3 * shape.hidden * shape.ffn
    more = {name: moved[name, 8] - moved[name, 16] for name in ("tpu", "gpu")}
    assert more["tpu"] - more["gpu"] == pytest.approx(5 * weights)


def test_a_replay_makes_short_factors_again():
    full = first("torchtitan 2024-12", recompute="full")
    assert full.bits == 8
    moved = {}
    for bits in (8, 16):
        table, segments = written(replace(full, bits=bits))
        moved[bits] = sum(row[1] for row in table.moves if row[0] == segments[REPLAY])
    assert moved[8] > moved[16]


def test_short_factors_gain_less_where_a_reduction_is_short():
    """A pipeline's stages hold bytes: of shorter factors more steps pass before cores are busy."""
    values = calibration.calibrated()
    table, machine = OpTable(), load_machines()["h100-sxm"]
    segment = table.segment(machine, 1, 0, is_eager=False, is_waiting=False)
    for k in (1024, 32_768):
        for bits in (16, 8):
            table.products.append((segment, 8192, 8192, k, 1, bits, False))
    seconds = product_times(table.columns(), values)
    gains = seconds[0::2] / seconds[1::2]
    assert gains[0] < 0.95 * gains[1]
    assert gains[1] < 2 * values["precision_gain"]
    assert np.all(gains > 1)


def test_compiled_code_on_tpus_sums_gradients_at_16_bits():
    assert traits_of(first("tpu-recipes"), load_machines()["tpu-v6e"]).gradient_bytes == 2.0
