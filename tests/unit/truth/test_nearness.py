"""What measured runs near a plan say."""

from dataclasses import replace

import pytest

from rephaze.hardware.derating import family_of
from rephaze.truth.nearness import PlanFeatures, expected_error, group_spread, stability

PLAN = PlanFeatures(tp=8, pp=8, cp=1, ep=1, shards_weights=False, num_params=175e9, num_devices=512)


def test_megatron_on_h100_has_near_runs_and_an_abacus_none():
    near = expected_error("hopper", PLAN)
    assert near is not None
    assert near.num_rows >= 4
    assert (
        1.0
        < near.measured_over_ideal_low_ratio
        <= near.measured_over_ideal_ratio
        <= near.measured_over_ideal_high_ratio
    )
    assert "MLPerf" in " ".join(near.sources)
    assert expected_error(None, PLAN) is None
    assert expected_error("hopper", replace(PLAN, num_params=1e3, num_devices=1_000_000)) is None


def test_families():
    assert family_of("gb200", is_known=True) == "blackwell"
    assert family_of("tpuv5e", is_known=True) == "tpu-128"
    assert family_of("trainium2", is_known=True) is None
    assert family_of("best of a search", is_known=False) == "tpu-256"


def test_a_far_slower_rival_does_not_shake_a_choice_and_an_equal_one_does():
    other = replace(PLAN, pp=1, shards_weights=True)
    assert stability([1.0, 3.0], [PLAN, other]).near_best_share == pytest.approx(1.0, abs=1e-3)
    assert 0.4 < stability([1.0, 1.0], [PLAN, other]).near_best_share < 0.8
    assert stability([1.0], [PLAN]).near_best_share == 1.0
    assert 0.02 < group_spread() < 0.15
