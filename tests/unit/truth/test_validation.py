"""Predictions of runs: they follow the plan, the constants, and say what they cannot do."""

from dataclasses import replace

import pytest

from rephaze.hardware import calibration as constants
from rephaze.truth.ranking import kendall_tau
from rephaze.truth.shipped_runs import shipped_runs
from rephaze.truth.validation import validate_runs
from rephaze.truth.variants import cut_blocks, cut_by_work


def seconds(run, values=None):
    (row,) = validate_runs([run], values or constants.calibrated(), "test").rows
    assert row.predicted_s is not None, row.reason
    return row.predicted_s


def first(model):
    return next(run for run in shipped_runs() if run.model.startswith(model))


def test_at_most_thirty_constants_all_within_their_bounds():
    found = constants.load_constants()
    assert len(found) <= 30
    for constant in found.values():
        assert constant.low <= constant.value <= constant.high, constant
        assert constant.low <= constant.start <= constant.high, constant
        assert constant.meaning
        assert constant.unit


def test_an_ideal_machine_is_faster_than_a_calibrated_one():
    runs = shipped_runs()[::40]
    ideal = validate_runs(runs, constants.ideal(), "ideal").rows
    for mine, bare in zip(validate_runs(runs, constants.calibrated(), "x").rows, ideal, strict=True):
        assert bare.predicted_s < mine.predicted_s


def test_twice_the_batch_takes_nearly_twice_as_long():
    run = first("GPT-174.6B")
    once, twice = seconds(run), seconds(replace(run, global_batch=2 * run.global_batch))
    assert 1.8 < twice / once < 2.0


def test_replaying_everything_costs_about_a_forward_pass():
    run = first("MPT-7b")
    full = replace(run, plan=replace(run.plan, recompute="full"))
    none = replace(run, plan=replace(run.plan, recompute="none"))
    assert 1.2 < seconds(full) / seconds(none) < 1.45


def test_slower_links_and_products_never_make_a_run_faster():
    values = constants.calibrated()
    for run in shipped_runs()[::60]:
        for name in ("link_rate", "network_rate", "memory_rate"):
            assert seconds(run, values | {name: values[name] / 2}) >= seconds(run, values)


def test_an_unknown_chip_is_a_reason():
    (row,) = validate_runs([replace(first("MPT-7b"), chip="Abacus 3")], constants.calibrated(), "x").rows
    assert row.predicted_s is None
    assert row.reason == "no data of chip Abacus 3"


def test_shipped_runs_are_read_as_they_are_written():
    assert len(shipped_runs()) > 500
    mixture = next(run for run in shipped_runs() if run.model == "DeepSeek-V3-671B")
    assert mixture.shape.experts.num_experts == 256
    assert mixture.shape.latent.kv_rank == 512
    assert all(run.score == "yes" and run.measured_s > 0 for run in shipped_runs())


def test_blocks_are_cut_as_frameworks_cut_them():
    assert [len(stage) for stage in cut_blocks(126, 64)] == [1, *[2] * 62, 1]
    assert [len(stage) for stage in cut_blocks(10, 4)] == [2, 3, 3, 2]
    sweep = next(run for run in shipped_runs() if run.is_sweep and run.model == "1B")
    # The head weighs as much as four blocks of this model: the last stage has nothing else.
    assert [len(stage) for stage in cut_by_work(sweep.shape, 4)] == [6, 5, 5, 0]


def test_kendalls_tau():
    assert kendall_tau([1.0, 2.0, 3.0], [10.0, 20.0, 30.0]) == 1.0
    assert kendall_tau([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == -1.0
    assert kendall_tau([1.0, 1.001, 2.0], [2.0, 1.0, 3.0]) == pytest.approx(1.0), "a tie counts for nothing"
