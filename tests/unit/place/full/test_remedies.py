"""What would make a given plan fit."""

import pytest

from rephaze.place.full.price import price_full_plan
from rephaze.place.full.remedies import suggest_full_remedies
from rephaze.types.full import Sharding
from tests.kits.full_line import line, plan_of, problem_of


def remedies(graph, plan, **given):
    problem = problem_of(graph, **given)
    return suggest_full_remedies(problem, graph, price_full_plan(problem, graph, plan))


def test_a_plan_that_fits_needs_nothing():
    graph = line()
    assert remedies(graph, plan_of(graph, 4)) == []


def test_the_devices_that_lack_memory_are_named_and_keep_less():
    # Four stages of one layer: 4, 3, 2, 1 GB kept of the microbatches in flight.
    graph = line()
    told = remedies(graph, plan_of(graph, 4), memory_bytes=2.5e9)
    assert told[0].startswith("device 0 of a pipeline is 1.397 GiB over: 3.725 of 2.328 GiB (kept 3.73)")
    assert told[1].startswith("device 1 ")
    # With 0.5 s of replay in the first two: 3 + 3 + 3.5 + 3.5 + 7 * 3.5 s.
    assert "keep 1 on device 0, 1 would fit, at 37.5 s a batch" in told
    assert "a device memory of 3.725 GiB would do as it is" in told
    assert any("layers moved between stages fit" in one for one in told)


def test_sharding_more_is_proposed_where_it_helps():
    # Adam in bf16: 4e9 bytes of weights with as much of gradients and twice of state.
    graph = line(1, param_bytes=4e9)
    plan = plan_of(graph, 1, dp=2, sharding=Sharding.NONE)
    told = remedies(graph, plan, memory_bytes=14e9)
    assert any(one.startswith("sharding optimizer over 2 would fit") for one in told)


def test_where_one_change_is_not_enough_both_are_tried():
    # The first of two devices holds 1 GB of weights, as much of gradients, twice of state and 2 GB kept: 6 GB.
    # Keeping less leaves 5.25, half of the state 5, both 4.25.
    graph = line(2, param_bytes=1e9)
    plan = plan_of(graph, 2, dp=2)
    assert price_full_plan(problem_of(graph), graph, plan).devices[0].total_bytes == pytest.approx(6e9)
    told = remedies(graph, plan, memory_bytes=4.5e9)
    (both,) = [one for one in told if one.startswith(("keep", "sharding"))]
    assert both.startswith("sharding optimizer over 2 with keep 1 everywhere would fit")
