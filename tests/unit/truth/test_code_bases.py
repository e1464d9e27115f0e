"""What is read of machines and code bases: one source of figures, memory as it is kept."""

from dataclasses import replace

import pytest

from rephaze.hardware import calibration
from rephaze.hardware.presets import preset_chip
from rephaze.truth.machines import load_machines
from rephaze.truth.op_table import OpTable
from rephaze.truth.physics import segment_times
from rephaze.truth.predict import predict_variant
from rephaze.truth.shipped_runs import shipped_runs
from rephaze.truth.traits import traits_of
from rephaze.truth.variants import write_variants


def first(source):
    return next(run for run in shipped_runs() if run.source.startswith(source))


def predicted(run, **changes):
    table = OpTable()
    variant = write_variants(replace(run, **changes), table)[0]
    values = calibration.calibrated()
    return predict_variant(variant, segment_times(table.columns(), values), values)


@pytest.mark.parametrize(
    ("machine", "preset"), [("h100-sxm", "h100"), ("tpu-v4", "tpuv4"), ("gb200", "gb200"), ("gaudi2", "gaudi2")]
)
def test_machines_have_the_figures_of_the_presets(machine, preset):
    found, chip = load_machines()[machine], preset_chip(preset)
    assert found.flops_16 == chip.peak_flops_per_s
    assert (found.hbm_bytes_per_s, found.memory_bytes) == (chip.hbm_bytes_per_s, chip.hbm_bytes)
    assert found.flops_8 == found.flops_16 * (1 if machine == "tpu-v4" else 2)
    assert load_machines()["h100-500w"].hbm_bytes_per_s < load_machines()["h100-sxm"].hbm_bytes_per_s


def test_a_group_lies_on_as_many_axes_of_a_torus_as_it_needs():
    v5p, v5e, h100 = (load_machines()[name] for name in ("tpu-v5p", "tpu-v5e", "h100-sxm"))
    assert v5p.axes_of(8, 512) == 1
    assert v5p.axes_of(16, 512) == 2
    assert v5e.axes_of(16, 256) == 1
    assert h100.axes_of(8, 512) == 1


def test_a_policy_that_keeps_every_second_product_keeps_more_than_none_and_less_than_all():
    run = first("torchtitan 2024-12")
    plans = {mode: replace(run.plan, recompute=mode) for mode in ("none", "half", "full")}
    bytes_of = {mode: predicted(run, plan=plan).device_bytes for mode, plan in plans.items()}
    assert bytes_of["full"] < bytes_of["half"] < bytes_of["none"]


def test_memory_counts_what_the_figure_counts():
    run = first("BigScience")
    allocated, device = (predicted(run, memory_meaning=one).device_bytes for one in ("allocated", "device"))
    assert device > allocated + 3e9


def test_gradients_and_moments_have_the_bytes_their_recipes_give_them():
    machines = load_machines()
    moonlight = first("Megatron-Bridge recompute")
    found = traits_of(moonlight, machines["h100-sxm"])
    assert (found.gradient_bytes, found.state_bytes) == (2.0, 8.0)
    old = traits_of(first("Megatron-LM SC21"), machines["a100-80"])
    assert (old.gradient_bytes, old.state_bytes) == (4.0, 12.0)


def test_sums_of_gradients_hide_behind_later_chunks():
    run = next(
        one
        for one in shipped_runs()
        if one.source.startswith("MLPerf Training v3.1 NVIDIA") and (one.plan.chunks or 1) > 1
    )
    price = predicted(run)
    assert price.batch_s < price.price.batch_s + calibration.calibrated()["batch_s"] * 2
    assert price.price.time.sync_s > 0
