"""Searches by boxes against exhaustive ones: answers, covers, bounds of every rung, interruptions, counts.

Spaces have fine steps, array sides of every kind, and limits that cut through them.
"""

import gzip
import itertools
import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rephaze.hardware.constraints import parse_constraint
from rephaze.hardware.grid import FIELDS, Boxes, DesignGrid
from rephaze.measure import model_work
from rephaze.measure.best_plan import STAGE_NAMES, Stage
from rephaze.measure.model_work import ModelWork
from rephaze.measure.pass_solver import Memos
from rephaze.measure.pass_times import LayerSeconds
from rephaze.measure.units import Memory
from rephaze.search import evaluator as evaluator_module
from rephaze.search.box_bounds import ALL_RUNGS, BEST_UNITS, DEVICE_ONLY, BoxBounding, Reach, corner_valuation
from rephaze.search.box_evaluator import BoxEvaluator
from rephaze.search.corner_plans import CornerPlans, Rung
from rephaze.search.cosearch import run_search
from rephaze.types.boxes import SOLVED, Goal, OpenBox
from rephaze.types.search import Aggregate, Objective, SearchStatus
from rephaze.types.stopping import UNSTOPPED
from rephaze.verify.run_check import verify_run
from tests.attack.slow import SlowEvaluator
from tests.kits.long_hunt import seldom
from tests.property.box_cases import (
    as_list,
    box_settings,
    in_box,
    position_of,
    positions,
    recorded,
    slow_start,
    times_covered,
    true_values,
    with_space,
)

SLACK = 1 + 1e-9
WITHIN = {"0.1 %": 0.001, "1 %": 0.01, "5 %": 0.05}
CASES = [
    ("coarse", models, objective, aggregate)
    for objective, (models, aggregate) in itertools.product(
        Objective,
        (
            (("gpt",), Aggregate.MEAN),
            (("gpt", "llama"), Aggregate.MEAN),
            (("gpt", "llama"), Aggregate.GEOMEAN),
            (("gpt", "llama"), Aggregate.WORST),
        ),
    )
] + [("default", ("gpt",), objective, Aggregate.MEAN) for objective in Objective]

EVERY_TIME = {0, 5, 10, 15, 18}
"""Of the cases, by place: every objective, every aggregate, both cost models."""


def drawn(seed, scenario="coarse", models=("gpt",), most_points=24, **search):
    """Settings of the first seed at or after this one with some designs."""
    for at in itertools.count(1000 * seed):
        found = box_settings(at, scenario, models, most_points=most_points, **search)
        grid = DesignGrid(found.scenario.space)
        if 4 <= grid.is_design(positions((0,) * 7, [size - 1 for size in grid.shape])).sum() <= 30:
            return found
    raise AssertionError


def same_chip(one, other):
    return all(getattr(one, field) == getattr(other, field) for field in FIELDS)


def check_cover(grid, found):
    count = times_covered(grid, [*found.closed, *found.still_open])
    assert count.min() == count.max() == 1


def check_bounds(found, values):
    """No design above its box's bound, none in a box that a limit closes."""
    for box in found.closed:
        inside = in_box(values, box)
        assert max(inside, default=0.0) <= box.bound * SLACK, box
        if box.closed_by in ("area limit", "area floor", "power limit", "constraints"):
            assert not inside, box


def check_counts(result, values, grid):
    certificate = result.certificate
    parts = [certificate.num_solved_exactly, certificate.num_infeasible, certificate.num_open or 0]
    assert sum(parts) + sum(certificate.num_dropped_by_bound.values()) == grid.num_points
    for name, part in WITHIN.items():
        true = sum(value >= result.objective * (1 - part) for value in values.values())
        least, most = certificate.num_within[name]
        assert least <= true <= most, name


@pytest.mark.usefixtures("shared_memos")
@pytest.mark.parametrize(
    ("scenario", "models", "objective", "aggregate"), seldom(CASES, lambda case: CASES.index(case) in EVERY_TIME)
)
def test_the_answer_is_that_of_an_exhaustive_search(scenario, models, objective, aggregate, tmp_path):
    seed = CASES.index((scenario, models, objective, aggregate))
    weights = [random.Random(seed).choice((0.25, 1.0, 3.0)) for _ in models]
    points = 12 if scenario == "default" else 24
    settings = drawn(
        seed, scenario, models, points, objective=str(objective), aggregate=str(aggregate), weights=weights
    )
    want = run_search(as_list(settings))
    values, grid = true_values(settings), DesignGrid(settings.scenario.space)
    for name, began in (("fast", False), ("slow", True)):
        if began:
            with slow_start():
                found = recorded(settings, tmp_path / name)
        else:
            found = recorded(settings, tmp_path / name)
        result = found.result
        assert (result.status, result.objective) == (want.status, want.objective)
        assert result.status is SearchStatus.INFEASIBLE or same_chip(result.chip, want.chip)
        assert result.plans == want.plans
        check_cover(grid, found)
        check_bounds(found, values)
        if result.chip is not None:
            assert values[position_of(grid, result.chip)] == result.objective
            check_counts(result, values, grid)
        assert not found.still_open
        for design, item in found.evaluations.items():
            true = values[grid.position_of(design)]  # solved, so a design
            assert max(item.objective, 0.0) == true if item.is_exact else true <= item.bound * SLACK


@pytest.mark.usefixtures("shared_memos")
@pytest.mark.parametrize("seed", seldom([110, 111, 112], lambda seed: seed == 110))
def test_a_model_of_many_classes_has_the_answer_of_an_exhaustive_search(seed, tmp_path, monkeypatch):
    """Mixtures are looked at by their best units, below margins first; here a small model is taken for one."""
    settings = drawn(seed, "default", most_points=16)
    want, values = run_search(as_list(settings)), true_values(settings)
    monkeypatch.setattr(model_work, "MANY_CLASSES", 0)
    assert BoxEvaluator(settings).is_much
    with slow_start():
        found = recorded(settings, tmp_path / "run")
    assert (found.result.status, found.result.objective) == (want.status, want.objective)
    assert found.result.plans == want.plans
    check_cover(DesignGrid(settings.scenario.space), found)
    check_bounds(found, values)
    assert not found.still_open


@pytest.mark.usefixtures("shared_memos")
@pytest.mark.parametrize("seed", seldom([110, 112], lambda seed: seed == 110))
def test_what_falls_below_a_margin_stays_open_with_what_was_found_of_it(seed, monkeypatch):
    settings = drawn(seed, "default", most_points=16)
    values = true_values(settings)
    best = max(values.values())
    monkeypatch.setattr(model_work, "MANY_CLASSES", 0)
    evaluator = BoxEvaluator(settings)
    least, threshold = best * (1 - 1e-9), best * 1.5
    goal = Goal(threshold=threshold, objective=best, area_um2=1e30, cutoff=threshold, later_threshold=least)
    roots = evaluator.grid.roots()
    boxes = [
        OpenBox(first=tuple(first), last=tuple(last), upper=np.inf, bounded_by="", times=())
        for first, last in zip(roots.first_bf.tolist(), roots.last_bf.tolist(), strict=True)
    ]
    kept = []
    while boxes:
        ((found),) = evaluator.expand([boxes.pop()], goal)
        boxes += [box for box in found.open if box.upper > threshold and not box.is_ready]
        kept += [box for box in found.open if box.upper <= threshold]
        for box in found.closed:
            inside = [value for at, value in values.items() if _holds(box, at)]
            assert box.bound < threshold
            assert max(inside, default=0.0) <= box.bound * SLACK
    assert kept
    for box in kept:
        assert box.upper >= least
        assert box.times, "found once, and not to be found again"
        assert max([value for at, value in values.items() if _holds(box, at)], default=0.0) <= box.upper * SLACK


def _holds(box, at):
    return all(low <= one <= high for low, one, high in zip(box.first, at, box.last, strict=True))


@pytest.mark.parametrize(
    ("seed", "scenario"), seldom([(50, "coarse"), (51, "coarse"), (52, "default")], lambda case: case[0] != 51)
)
def test_no_design_solved_slowly_is_above_the_bound_of_its_box(seed, scenario, tmp_path):
    settings = drawn(seed, scenario, most_points=16)
    with slow_start():
        found = recorded(settings, tmp_path / "run")
    slow, grid = SlowEvaluator(as_list(settings)), DesignGrid(settings.scenario.space)
    values = {
        position_of(grid, slow.census.chips.chip(design)): slow.worth(design).value
        for design in range(slow.census.num_designs)
    }
    check_bounds(found, values)
    assert max(values.values()) <= found.result.objective * SLACK
    assert len({box.closed_by for box in found.closed}) > 1, "too few kinds of boxes to tell anything"


@pytest.mark.usefixtures("shared_memos")
@pytest.mark.parametrize(
    ("seed", "objective"),
    seldom(
        list(itertools.product((60, 61), Objective)),
        # Every objective once, one model and two by turns.
        lambda case: case[0] % 2 == list(Objective).index(case[1]) % 2,
    ),
)
def test_every_rung_at_corners_is_above_every_design_inside(seed, objective):
    settings = drawn(seed, objective=str(objective), models=("gpt", "llama") if seed % 2 else ("gpt",))
    evaluator, values = BoxEvaluator(settings), true_values(settings)
    rng, grid = random.Random(seed), DesignGrid(settings.scenario.space)
    # Everything reaches it: no unit is left out, every rung is asked for.
    goal = Goal(threshold=1e-12, objective=1e-12, area_um2=1e30, cutoff=1e-12)
    num_inside = 0
    for first, last in random_boxes(rng, grid, 12):
        box = OpenBox(first=first, last=last, upper=np.inf, bounded_by="", times=())
        truth = max(in_box(values, box), default=0.0)
        num_inside += truth > 0
        before = np.inf
        for reach in (DEVICE_ONLY, Reach(layers=np.inf, mapped=0.0), ALL_RUNGS):
            ends = Boxes(np.array([first]), np.array([last]))
            bounding = BoxBounding(evaluator, grid, ends, [()], goal, UNSTOPPED)
            bounds = bounding.run(reach)
            assert truth <= bounds.upper_b[0] * SLACK, reach
            assert bounds.upper_b[0] <= before * SLACK
            before = bounds.upper_b[0]
        if before <= 0:
            continue
        box = replace(box, upper=float(before), times=bounds.times[0])
        large = tuple(bounds.large_bf[0].tolist())
        plans = CornerPlans(evaluator, grid, first, large, bounding.layers(0), UNSTOPPED)
        for rung in plans.rungs:
            box = plans.bounded(box, rung, goal).box
            assert truth <= (box.upper if box else goal.threshold) * SLACK, rung
            if box is None:
                break
    assert num_inside > 3


@pytest.mark.usefixtures("shared_memos")
@pytest.mark.parametrize("seed", seldom([66, 70], lambda seed: seed == 66))
def test_of_several_models_plans_tell_how_good_each_may_be(seed):
    """What one model cannot close by itself, all together may: the least of its units must rise with each rung."""
    evaluator = BoxEvaluator(drawn(seed, "default", ("gpt", "llama"), most_points=6))
    grid, goal = evaluator.grid, Goal(threshold=1e-12, objective=1e-12, area_um2=1e30, cutoff=1e-12)
    num_raised = 0
    for at in [at for at in np.ndindex(grid.shape) if grid.is_design(np.array([at]))[0]][:3]:
        ends = Boxes(np.array([at]), np.array([at]))
        bounding = BoxBounding(evaluator, grid, ends, [()], goal, UNSTOPPED)
        bounds = bounding.run(BEST_UNITS)
        if bounds.upper_b[0] < goal.threshold:  # no plan of one of them fits
            continue
        layers = bounding.layers(0)
        box = OpenBox(first=at, last=at, upper=float(bounds.upper_b[0]), bounded_by="", times=bounds.times[0])
        plans = CornerPlans(evaluator, grid, at, at, layers, UNSTOPPED)
        placed = plans.bounded(box, Rung.PLACED, goal).box
        for m, work in enumerate(evaluator.works):
            known_s = dict(zip(box.times[m].unit_u, box.times[m].batch_s_u, strict=True))
            finer = plans.solver.finer_bounds(work, plans.memory, layers[m])
            least_s = np.inf
            for u, first_s in known_s.items():
                k = work.class_of[work.units[u].cut, work.units[u].microbatch]
                finer.set_passes(k, np.array([0]), is_mapped=True)
                own = finer.bounds
                passes = LayerSeconds(own.forward_s_kct[k, 0], own.backward_s_kct[k, 0], own.input_s_kct[k, 0])
                placed_s = plans.solver.placed_bound_s(work, work.units[u], plans.memory, passes)
                least_s = min(least_s, max(first_s, placed_s))
            assert placed.times[m].least_s == pytest.approx(least_s, rel=1e-9)
            num_raised += least_s > min(known_s.values()) * (1 + 1e-6)
    assert num_raised, "plans told nothing: the test shows nothing"


@pytest.mark.usefixtures("shared_memos")
@pytest.mark.parametrize("seed", seldom([102, 105], lambda seed: seed == 105))
def test_a_run_of_several_models_is_verified_box_by_box(seed, tmp_path):
    with slow_start():
        found = recorded(drawn(seed, "default", ("gpt", "llama")), tmp_path / "run")
    assert STAGE_NAMES[Stage.HURRIED] in {box.closed_by for box in found.closed}, "no plan closes a box"
    assert not [check for check in verify_run(tmp_path / "run", sample=100) if not check.passed]


@pytest.mark.usefixtures("shared_memos")
@pytest.mark.parametrize("scenario", ["coarse", "default"])
def test_models_that_differ_in_name_alone_are_looked_at_once(scenario, tmp_path, monkeypatch):
    settings = drawn(90, scenario, ("gpt", "llama"))
    graph = json.loads(gzip.decompress(Path(settings.models[0]).read_bytes()))
    twin = tmp_path / "twin.json"
    twin.write_text(json.dumps(graph | {"name": "twin"}))
    settings = replace(settings, models=(*settings.models, str(twin)), weights=(1.0, 0.5, 2.0))
    first, other, same = BoxEvaluator(settings).works
    assert (first.same_as, other.same_as, same.same_as) == (first.name, other.name, first.name) != same.name
    with slow_start():
        shared = recorded(settings, tmp_path / "shared")
        monkeypatch.setattr(evaluator_module, "model_works", _works_of_their_own)
        apart = recorded(settings, tmp_path / "apart")
    values = true_values(settings)
    assert shared.result.status is SearchStatus.OPTIMAL
    assert (shared.result.objective, shared.result.plans) == (apart.result.objective, apart.result.plans)
    assert [plan.model for plan in shared.result.plans] == list(settings.models)
    check_cover(DesignGrid(settings.scenario.space), shared)
    check_bounds(shared, values)
    assert not [check for check in verify_run(tmp_path / "shared", sample=100) if not check.passed]


def _works_of_their_own(names, scenario, stop, others):
    return [ModelWork(name, scenario, stop, alike=other) for name, other in zip(names, others, strict=True)]


def random_boxes(rng, grid, num):
    roots = grid.roots()
    for _ in range(num):
        at = rng.randrange(len(roots.first_bf))
        pairs = [
            sorted((rng.randint(low, high), rng.randint(low, high)))
            for low, high in zip(roots.first_bf[at].tolist(), roots.last_bf[at].tolist(), strict=True)
        ]
        yield tuple(low for low, _ in pairs), tuple(high for _, high in pairs)


@pytest.mark.usefixtures("shared_memos")
@pytest.mark.parametrize("seed", seldom([70, 71], lambda seed: seed == 70))
def test_units_left_out_still_count_in_the_bounds_of_smaller_boxes(seed):
    """A unit too slow for the goal is not looked at again; it may be the best of what no longer reaches it."""
    settings = drawn(seed, training={"microbatches": [1, 2, 4, 8], "tp_degrees": [1, 2], "global_batch": 64})
    evaluator, values = BoxEvaluator(settings), true_values(settings)
    grid = DesignGrid(settings.scenario.space)
    best = max(values.values())
    for part in (0.7, 1.0):
        goal = Goal(threshold=best * part, objective=best * part, area_um2=1e30, cutoff=best * part)
        for position, value in values.items():
            around = OpenBox(first=position, last=position, upper=np.inf, bounded_by="", times=())
            ends = Boxes(np.array([position]), np.array([position]))
            bounds = BoxBounding(evaluator, grid, ends, [()], goal, UNSTOPPED).run(ALL_RUNGS)
            if bounds.upper_b[0] < goal.threshold:
                continue
            # As if the one unit that is left turned out to have no plan in a part of the box.
            hopeless = tuple(replace(own, batch_s_u=(np.inf,) * len(own.unit_u)) for own in bounds.times[0])
            again = BoxBounding(evaluator, grid, ends, [hopeless], goal, UNSTOPPED).run(ALL_RUNGS)
            left_out = [u for u in range(len(evaluator.works[0].units)) if u not in bounds.times[0][0].unit_u]
            truth = unit_value(evaluator, around, left_out)
            assert truth <= again.upper_b[0] * SLACK
            assert truth <= value * SLACK


def unit_value(evaluator, box, units):
    """What the best of some units is worth on the one design of a box."""
    chips = evaluator.grid.chips(np.array([box.first]))
    chip, (work,) = chips.chip(0), evaluator.works
    worth = corner_valuation(evaluator, chips).worth(0, chip.hbm_bytes)
    solver, memory = evaluator.chip_solver(chip), Memory(chip.hbm_bytes, chip.hbm_bytes_per_s)
    answers = [solver.solve(work, work.units[u], memory, np.inf) for u in units]
    return max((worth.of_plan(one.batch_s, one.energy_per_sample_j) for one in answers), default=0.0)


@pytest.mark.parametrize("seed", seldom([80, 81], lambda seed: seed == 80))
def test_stopped_at_any_look_and_taken_up_again(seed, tmp_path, monkeypatch):
    # What others mapped and scheduled leaves nothing to be stopped in.
    monkeypatch.setattr(evaluator_module, "Memos", Memos)
    settings, num_looks = drawn(seed), itertools.count()
    with slow_start():
        want = run_search(settings, should_stop=lambda: bool(next(num_looks)) and False)
        grid, most = DesignGrid(settings.scenario.space), next(num_looks)
        stops = sorted(random.Random(seed).sample(range(2, most), min(8, most - 2)))
        num_cut = 0
        for stop in stops:
            looks = itertools.count()
            folder = tmp_path / str(stop)
            found = recorded(settings, folder, should_stop=lambda looks=looks, stop=stop: next(looks) >= stop)
            num_cut += bool(found.still_open)
            if found.closed or found.still_open:
                check_cover(grid, found)
            assert found.result.status is not SearchStatus.OPTIMAL or not found.still_open
            assert found.result.bound >= want.objective / SLACK
            again = recorded(settings, folder, resume=True)
            check_cover(grid, again)
            for field in ("status", "objective", "design", "plans"):
                assert getattr(again.result, field) == getattr(want, field), field
    assert num_cut, "nothing was cut: the test shows nothing"


def test_two_workers_find_the_same(tmp_path):
    settings = drawn(90)
    one = recorded(settings, tmp_path / "one")
    two = recorded(settings, tmp_path / "two", num_workers=2)
    assert replace(one.result, search_s=0.0) == replace(two.result, search_s=0.0)
    assert one.closed == two.closed


@pytest.mark.usefixtures("shared_memos")
@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("seed", seldom([92, 93], lambda seed: seed == 92))
def test_what_lies_near_the_best_is_counted_exactly(seed, resumed, tmp_path):
    settings = drawn(seed)
    settings = with_space(settings, replace(settings.scenario.space, hbm_bytes_options=()))
    values = true_values(settings)
    with slow_start():
        if resumed:
            first = recorded(settings, tmp_path / "run")
            assert any(box.closed_by != SOLVED for box in first.closed)
        found = recorded(settings, tmp_path / "run", resume=resumed, count_within=0.05)
    check_cover(DesignGrid(settings.scenario.space), found)
    for name, part in WITHIN.items():
        true = sum(value >= found.result.objective * (1 - part) for value in values.values())
        assert found.result.certificate.num_within[name] == (true, true)


def test_a_space_without_designs_names_the_limit_that_closes_most():
    base = drawn(95)
    one = {field: (getattr(base.scenario.space, field) or (128,))[:1] for field in FIELDS}
    limits = {"area_floor_um2": 0.0, "power_limit_w": np.inf, "constraints": (), "hbm_bytes_options": ()}
    free = replace(base.scenario.space, **(one | limits | {"tensor_width": (32, 64, 100), "area_limit_um2": 1e12}))
    widest = int(DesignGrid(free).values[1].tolist().index(100))
    below_um2 = float(DesignGrid(free).area_um2(np.array([(0, widest, 0, 0, 0, 0, 0)]))[0]) * 0.999
    none_wide = (parse_constraint("tensor_width > 100"),)
    not_narrow = (parse_constraint("tensor_width > 64"),)
    for space, said in (
        (replace(free, constraints=none_wide), "all break its constraints"),
        (replace(free, area_limit_um2=1e6), "all break its area limit"),
        (replace(free, power_limit_w=1e-3), "all break its power limit"),
        (
            replace(free, constraints=not_narrow, area_limit_um2=below_um2),
            "its constraints closes most of the grid, 67%",
        ),
    ):
        found = run_search(with_space(base, space))
        assert found.status is SearchStatus.INFEASIBLE
        assert found.reason == f"no design keeps to the limits of the space: {said}"
    too_little = replace(free, hbm_bytes_options=(2**20,))
    assert "no plan" in run_search(with_space(base, too_little)).reason
