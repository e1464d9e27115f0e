"""Cost model ``full`` for a search over chips: other times, cutoffs, and bounds of many chips."""

import importlib.util
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rephaze.errors import SpecError
from rephaze.place.full import chip_layouts
from rephaze.place.full.chip_bounds import FullChipBounds
from rephaze.place.full.price import price_full_plan
from rephaze.place.full.solver import FullPlacer
from rephaze.place.full.times import recorded_times, retimed_graph
from rephaze.types.placement import SolveStatus

_spec = importlib.util.spec_from_file_location("full_cases", Path(__file__).with_name("full_cases.py"))
full_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(full_cases)

SAME = 1e-9
SEEDS = st.integers(0, 10**6)
NUM_CHIPS = 4


def one_graph(seed):
    problem = full_cases.worth_trying(seed, least=2, most=10_000) or full_cases.random_problem(seed)
    return replace(problem, graphs=problem.graphs[:1])


def chips(problem, seed):
    """Layer types, their times on each chip, and the times of all layers of each."""
    rng = np.random.default_rng(seed)
    graph = problem.graphs[0]
    recorded = recorded_times(graph)
    num_layers, num_points = recorded.replay_s_vk.shape
    type_v = rng.integers(0, 3, num_layers)
    forward = 10 ** rng.uniform(-5, -2.5, (NUM_CHIPS, 3))
    backward = forward * rng.uniform(1, 3, (NUM_CHIPS, 3))
    weight = backward * rng.uniform(0, 1, (NUM_CHIPS, 3))
    made = []
    for c in range(NUM_CHIPS):
        replay = np.sort(rng.uniform(0, 1, (num_layers, num_points)), axis=1) * forward[c][type_v][:, None]
        replay[:, 0] = 0.0
        made.append(
            recorded._replace(
                forward_s_v=forward[c][type_v],
                backward_s_v=backward[c][type_v],
                weight_backward_s_v=weight[c][type_v],
                replay_s_vk=replay,
            )
        )
    return type_v.tolist(), forward, backward, weight, made


@given(seed=SEEDS)
@settings(max_examples=150, deadline=None)
def test_no_chip_has_a_faster_plan_than_its_bound(seed):
    problem = one_graph(seed)
    layer_types, forward, backward, weight, made = chips(problem, seed)
    placer = FullPlacer(problem)
    bounds = FullChipBounds(placer, layer_types)
    loose_s, tight_s = bounds.batch_s(forward, backward), bounds.batch_s(forward, backward, weight)
    assert (loose_s <= tight_s).all()
    for c, times in enumerate(made):
        found = placer.solve(times=[times])
        best_s = found.best.batch_s if found.best else math.inf
        assert tight_s[c] <= best_s * (1 + SAME)
        assert found.best is not None or found.status is SolveStatus.INFEASIBLE


@given(seed=SEEDS, part=st.sampled_from([0.5, 0.999, 1.0, 1.001, 2.0]))
@settings(max_examples=80, deadline=None)
def test_what_is_of_no_use_need_not_be_told_apart(seed, part):
    """Below the longest batch of any use bounds are as without it, else no less than it, but for rounding."""
    problem = one_graph(seed)
    layer_types, forward, backward, weight, _ = chips(problem, seed)
    whole_s = FullChipBounds(problem, layer_types).batch_s(forward, backward, weight)
    longest_s_c = part * np.where(np.isfinite(whole_s), whole_s, 1.0)
    given_s_c = longest_s_c.copy()
    found_s = FullChipBounds(problem, layer_types).batch_s(forward, backward, weight, None, longest_s_c)
    assert (longest_s_c == given_s_c).all(), "what was given is not changed"
    is_of_use_c = whole_s < longest_s_c * (1 - SAME)
    assert (found_s[is_of_use_c] == whole_s[is_of_use_c]).all()
    assert (found_s[~is_of_use_c] >= longest_s_c[~is_of_use_c] * (1 - SAME)).all()
    assert (found_s <= whole_s * (1 + SAME)).all()


@given(seed=SEEDS)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_layouts_are_listed_as_far_as_bounds_need_them(monkeypatch, seed):
    problem = one_graph(seed)
    layer_types, forward, backward, weight, _ = chips(problem, seed)
    monkeypatch.setattr(chip_layouts, "FIRST_ITEMS", 1)
    whole = FullChipBounds(problem, layer_types)
    assert whole.num_layouts >= 0  # lists all
    wanted_s = whole.batch_s(forward, backward, weight)
    assert (FullChipBounds(problem, layer_types).batch_s(forward, backward, weight) == wanted_s).all()
    one_by_one = FullChipBounds(problem, layer_types)
    for c in reversed(range(NUM_CHIPS)):
        found_s = one_by_one.batch_s(forward[c : c + 1], backward[c : c + 1], weight[c : c + 1])
        assert found_s == wanted_s[c : c + 1]


@given(seed=SEEDS)
@settings(max_examples=100, deadline=None)
def test_other_times_are_those_of_records_that_have_them(seed):
    problem = one_graph(seed)
    placer = FullPlacer(problem)
    for times in chips(problem, seed)[-1][:2]:
        graph = retimed_graph(problem.graphs[0], times)
        changed = replace(problem, graphs=(graph,))
        found, wanted = placer.solve(times=[times]), FullPlacer(changed).solve()
        assert found.status is wanted.status
        if found.best is None:
            continue
        assert found.best.batch_s == pytest.approx(wanted.best.batch_s, rel=SAME)
        assert found.best == price_full_plan(changed, graph, found.best.plan)


@given(seed=SEEDS, below=st.floats(1e-6, 0.5), above=st.floats(1e-6, 0.5))
@settings(max_examples=100, deadline=None)
def test_below_a_cutoff_there_is_the_best_plan_or_none(seed, below, above):
    problem = one_graph(seed)
    placer = FullPlacer(problem)
    best = placer.solve().best
    if best is None:
        assert placer.solve(cutoff_s=1.0).status in (SolveStatus.INFEASIBLE, SolveStatus.CUTOFF)
        return
    cutoff_s = best.batch_s * (1 - below)
    found = placer.solve(cutoff_s=cutoff_s)
    assert (found.status, found.best, found.bound_s) == (SolveStatus.CUTOFF, None, cutoff_s)
    assert placer.solve(cutoff_s=best.batch_s * (1 + above)).best.batch_s == pytest.approx(best.batch_s, rel=SAME)


@given(seed=SEEDS, below=st.floats(1e-6, 0.5), above=st.floats(1e-6, 0.5))
@settings(max_examples=300, deadline=None)
def test_bounds_that_are_not_priced_are_those_of_the_best_plan(seed, below, above):
    problem = one_graph(seed)
    placer, times = FullPlacer(problem), [recorded_times(graph) for graph in problem.graphs]
    found = placer.solve()
    if found.best is None:
        assert placer.bound_s(math.inf, times) == math.inf
        assert not placer.is_there(math.inf, times)
        return
    best_s = found.best.batch_s
    assert placer.bound_s(math.inf, times) == pytest.approx(found.bound_s, rel=1e-8)
    assert placer.bound_s(math.inf, times) <= best_s
    assert placer.is_there(best_s * (1 + above), times)
    assert placer.bound_s(best_s * (1 + above), times) == pytest.approx(found.bound_s, rel=1e-8)
    if found.bound_s == best_s and not found.scope:
        assert not placer.is_there(best_s * (1 - below), times)
        assert placer.bound_s(best_s * (1 - below), times) == best_s * (1 - below)


def test_where_nothing_fits_the_bound_is_infinite():
    problem = one_graph(2)
    layer_types, forward, backward, _, made = chips(problem, 2)
    small = replace(problem, device_memory_bytes=1.0)
    assert np.isinf(FullChipBounds(small, layer_types).batch_s(forward, backward)).all()
    assert FullPlacer(small).solve(times=made[:1]).status is SolveStatus.INFEASIBLE
    assert FullChipBounds(small, layer_types).num_layouts == 0


def test_shapes_that_make_no_sense_are_refused():
    problem = one_graph(2)
    recorded = recorded_times(problem.graphs[0])
    with pytest.raises(SpecError, match="must name a type for each"):
        FullChipBounds(problem, [0] * (len(problem.graphs[0].layers) + 1))
    with pytest.raises(SpecError, match="one graph"):
        FullChipBounds(replace(problem, graphs=problem.graphs * 2), [0])
    with pytest.raises(SpecError, match="must have a row for each"):
        FullPlacer(problem).solve(times=[recorded._replace(forward_s_v=np.zeros(99))])
    with pytest.raises(SpecError, match="as many points of keep"):
        FullPlacer(problem).solve(times=[recorded._replace(kept_bytes_vk=recorded.kept_bytes_vk[:, :0])])
    bounds = FullChipBounds(problem, [0] * len(problem.graphs[0].layers))
    with pytest.raises(SpecError, match="one a layer type"):
        bounds.batch_s(np.zeros((2, 0)), np.zeros((2, 1)))
