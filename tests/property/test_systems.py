"""Searches with systems against exhaustive ones: answers, covers, bounds, budgets, what binds."""

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest

from rephaze.hardware.cluster_bill import cluster_bill
from rephaze.hardware.grid import BUDGETS, LIMITS
from rephaze.hardware.system import resolved_system, system_chip
from rephaze.hardware.system_chips import same_system
from rephaze.search.cosearch import run_search
from rephaze.search.provenance import versions_of
from rephaze.search.systems import grid_of, system_settings
from rephaze.store.run_store import RunStore
from rephaze.types.boxes import SOLVED
from rephaze.types.chip import chip_table
from rephaze.types.search import Aggregate, Objective, SearchStatus
from rephaze.types.space import FIELDS
from rephaze.verify.run_check import verify_run
from tests.attack.slow import SlowEvaluator
from tests.kits.long_hunt import seldom
from tests.property.box_cases import as_list, in_box, recorded, slow_start, times_covered
from tests.property.system_cases import system_case, true_system_values

SLACK = 1 + 1e-9
CASES = [
    ("coarse", models, objective, aggregate)
    for objective, (models, aggregate) in itertools.product(
        Objective, ((("gpt",), Aggregate.MEAN), (("gpt", "llama"), Aggregate.GEOMEAN))
    )
] + [("default", ("gpt",), objective, Aggregate.MEAN) for objective in Objective]

EVERY_TIME = {0, 3, 4, 7, 8, 11}
"""Of the cases, by place: every objective, both aggregates, both cost models."""


def drawn(seed, scenario="coarse", models=("gpt",), **search):
    """The first case at or after a seed with a few designs."""
    for at in itertools.count(1000 * seed):
        found = system_case(at, scenario, models, **search)
        grid = grid_of(found)
        every = np.stack(np.unravel_index(np.arange(grid.num_points), grid.shape), axis=1).astype(np.int64)
        if found.has_systems and 3 <= grid.is_design(every).sum() <= 30 and found.systems.num_choices > 1:
            return found
    raise AssertionError


@pytest.mark.usefixtures("shared_memos")
@pytest.mark.parametrize(
    ("scenario", "models", "objective", "aggregate"), seldom(CASES, lambda case: CASES.index(case) in EVERY_TIME)
)
def test_the_answer_is_that_of_an_exhaustive_search(scenario, models, objective, aggregate, tmp_path):
    seed = CASES.index((scenario, models, objective, aggregate))
    points = 4 if scenario == "default" else 8
    settings = drawn(
        seed, scenario, models, most_points=points, objective=str(objective), aggregate=str(aggregate)
    )
    values, grid = true_system_values(settings), grid_of(settings)
    best = max(values.values(), default=0.0)
    for name, is_slow in (("fast", False), ("slow", True)):
        if is_slow:
            with slow_start():
                found = recorded(settings, tmp_path / name)
        else:
            found = recorded(settings, tmp_path / name)
        result = found.result
        assert result.objective == best
        assert result.status is (SearchStatus.OPTIMAL if best > 0 else SearchStatus.INFEASIBLE)
        count = times_covered(grid, [*found.closed, *found.still_open])
        assert count.min() == count.max() == 1
        assert not found.still_open
        for box in found.closed:
            inside = in_box(values, box)
            assert box.first[0] == box.last[0]
            assert max(inside, default=0.0) <= box.bound * SLACK, box
            assert not (inside and box.closed_by in LIMITS), box
        if best > 0:
            assert values[grid.position_of(result.design)] == best
            _check_system(settings, result)
        certificate = result.certificate
        parts = [certificate.num_solved_exactly, certificate.num_infeasible, certificate.num_open]
        assert sum(parts) + sum(certificate.num_dropped_by_bound.values()) == grid.num_points


def _check_system(settings, result):
    """The answer's system is one of those asked for, and its bill is kept to and what ``rephaze bill`` says."""
    choice = settings.systems.choices()[result.design // grid_of(settings).grids[0].num_points]
    system = result.system
    for field in fields(choice):
        wanted = getattr(choice, field.name)
        name = "num_node_chips" if field.name == "node_size" else field.name
        assert wanted is None or getattr(system, name) == wanted
    scenario = settings.scenario
    # A chip that the template makes runs at the nominal clock until a system changes it.
    assert system_chip(result.chip, choice) == result.chip
    columns = same_system(resolved_system(scenario, choice), 1)
    bill = cluster_bill(chip_table([result.chip]), columns, scenario.space.template.clock_hz)
    assert system.silicon_mm2 == bill.silicon_mm2_c[0] <= settings.budget.silicon_mm2
    assert system.power_w == bill.power_w_c[0] <= settings.budget.power_w
    assert system.cost_usd == bill.usd_c[0] <= settings.budget.cost_usd
    assert all(plan.num_devices <= system.num_chips for plan in result.plans)


@pytest.mark.parametrize(
    ("seed", "objective"), seldom(list(zip(range(40, 44), Objective, strict=True)), lambda case: case[0] % 2)
)
def test_no_design_solved_slowly_is_above_the_bound_of_its_box(seed, objective, tmp_path):
    settings = drawn(seed, most_systems=4, objective=str(objective))
    with slow_start():
        found = recorded(settings, tmp_path / "run")
    for number, own in enumerate(system_settings(settings)):
        slow = SlowEvaluator(as_list(own))
        grid = grid_of(settings).grids[number]
        for design in range(slow.census.num_designs):
            chip = slow.census.chips.chip(design)
            position = (
                number,
                *(
                    grid.values[f].tolist().index(getattr(chip, name)) if len(grid.values[f]) > 1 else 0
                    for f, name in enumerate(FIELDS)
                ),
            )
            value = slow.worth(design).value
            assert value <= found.result.objective * SLACK
            (box,) = [one for one in found.closed if in_box({position: value}, one)]
            assert value <= box.bound * SLACK


def test_a_run_verifies_and_a_changed_one_does_not(tmp_path):
    settings = drawn(7, most_points=6)
    with slow_start():
        found = recorded(settings, tmp_path / "run")
    assert found.result.system is not None
    assert {box.closed_by for box in found.closed} - {SOLVED}
    checks = {check.name: check for check in verify_run(tmp_path / "run", sample=2)}
    assert all(check.passed for check in checks.values()), checks
    assert {"system", "systems", "cover"} <= set(checks)
    better = replace(found.result.system, num_chips=found.result.system.num_chips + 1)
    with RunStore.resume(tmp_path / "run", settings, versions_of(settings)) as store:
        store.record_result(replace(found.result, system=better))
    (system,) = (check for check in verify_run(tmp_path / "run", sample=0) if check.name == "system")
    assert not system.passed
    assert "num_chips" in str(system)


def test_resumed_and_in_pieces_the_answer_is_the_same(tmp_path):
    settings = drawn(5)
    whole = run_search(settings)
    looks = itertools.count()
    recorded(settings, tmp_path / "run", should_stop=lambda: next(looks) > 12)
    found = recorded(settings, tmp_path / "run", resume=True)
    assert (found.result.objective, found.result.chip, found.result.system) == (
        whole.objective,
        whole.chip,
        whole.system,
    )


def test_a_larger_budget_is_never_worse_and_an_empty_one_names_the_limit():
    settings = next(one for one in (drawn(seed) for seed in range(60, 90)) if one.budget.is_limited)
    result = run_search(settings)
    doubled = {field.name: 2 * getattr(settings.budget, field.name) for field in fields(settings.budget)}
    more = run_search(replace(settings, budget=replace(settings.budget, **doubled)))
    assert more.objective >= result.objective
    nothing = run_search(replace(settings, budget=replace(settings.budget, power_w=1.0)))
    assert nothing.status is SearchStatus.INFEASIBLE
    named = [limit for limit in (*BUDGETS.values(), *LIMITS) if f"its {limit}" in nothing.reason]
    assert named, nothing.reason
