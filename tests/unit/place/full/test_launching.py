"""Which rules of a family a plan breaks, against all plans of every family."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from rephaze.place.full.launching import broken_rules
from rephaze.types.full import DeviceOrder, PlanFamily, Sharding
from tests.kits.full_line import line, plan_of, problem_of

_path = Path(__file__).parents[3] / "property" / "full_cases.py"
_spec = importlib.util.spec_from_file_location("full_cases", _path)
full_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(full_cases)


def of_family(problem, family):
    return replace(problem, options=replace(problem.options, family=family))


def test_a_plan_breaks_no_rule_of_a_family_exactly_if_it_belongs_to_it():
    seen = dict.fromkeys(PlanFamily, 0)
    for problem in full_cases.tried_problems(7_000, 60):
        every = list(full_cases.all_plans(of_family(problem, PlanFamily.ANY)))
        for family in PlanFamily:
            own = {plan for _, plan in full_cases.all_plans(of_family(problem, family))}
            kept = {plan for graph, plan in every if not broken_rules(problem, family, graph, plan)}
            assert kept == own, (family, problem)
            seen[family] += 0 < len(own) < len(every)
    assert all(count for family, count in seen.items() if family is not PlanFamily.ANY)


@pytest.mark.parametrize(
    ("family", "said"),
    [
        (PlanFamily.ANY, []),
        (PlanFamily.EXACT, ["3.5 microbatches a replica"]),
        (
            PlanFamily.MEGATRON,
            ["4 of 8 devices", "3.5 microbatches a replica", "order dp-outer", "sharding weights"],
        ),
        (PlanFamily.TORCHTITAN, ["4 of 8 devices", "3.5 microbatches a replica", "order dp-outer"]),
    ],
)
def test_each_rule_is_told_with_its_numbers(family, said):
    graph = line()
    plan = plan_of(graph, 2, dp=2, sharding=Sharding.WEIGHTS, shard_group=2, order=DeviceOrder.DP_OUTER)
    assert broken_rules(problem_of(graph, global_batch=7), family, graph, plan) == said
