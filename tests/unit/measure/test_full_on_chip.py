"""The placement problem of a model on a chip under cost model full, also when time does not suffice."""

from dataclasses import replace

import pytest

from rephaze import place_model
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.scenarios import load_scenario
from rephaze.measure.best_plan import UnitSearch
from rephaze.measure.full_on_chip import full_placement_on_chip

FULL = load_scenario("default")
SMALL = replace(
    FULL,
    cluster=replace(FULL.cluster, num_devices=8),
    training=replace(
        FULL.training, global_batch=16, microbatches=(1, 2), tp_degrees=(1, 2), cp_degrees=(1,), ep_degrees=(1,)
    ),
)
TPUV4 = preset_chip("tpuv4")


@pytest.fixture(scope="module")
def proven():
    return place_model("opt-350m", TPUV4, scenario=SMALL)


def test_with_time_enough_nothing_is_open(proven):
    found = full_placement_on_chip("opt-350m", TPUV4, SMALL)
    assert (found.num_open, found.is_unproven) == (0, False)
    assert found.bound_s == pytest.approx(proven.price.batch_s)
    assert proven.status == "optimal"


def test_when_time_is_up_the_best_so_far_has_a_true_bound(proven, monkeypatch):
    # The first plan found is the worst there is: all other units are still open.
    whole = UnitSearch.refine

    def worst_first(self):
        if self.best is None:
            self.stage_u[:] = 3
            keep = self.upper_u.copy()
            self.upper_u[:] = -keep
            self.upper_u[self.upper_u.argmax()] = 1e300
            solved = whole(self)
            self.upper_u[:] = keep
            return solved
        return whole(self)

    monkeypatch.setattr(UnitSearch, "refine", worst_first)
    found = place_model("opt-350m", TPUV4, scenario=SMALL, time_limit_s=0.0)
    assert found.status == "feasible"
    assert "time was up" in found.reason
    assert found.bound_s <= proven.price.batch_s < found.price.batch_s


def test_a_plan_is_looked_for_however_long_it_takes():
    found = place_model("opt-350m", TPUV4, scenario=SMALL, time_limit_s=0.0)
    assert found.price is not None
    assert found.bound_s <= found.price.batch_s


def test_what_a_quick_search_found_changes_no_answer(proven, monkeypatch):
    monkeypatch.setattr(UnitSearch, "take_over", lambda _self, _other: None)
    alone = place_model("opt-350m", TPUV4, scenario=SMALL)
    assert (alone.status, alone.price.plan) == (proven.status, proven.price.plan)
    assert alone.price.batch_s == proven.price.batch_s
