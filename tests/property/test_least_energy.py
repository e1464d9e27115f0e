"""The least energy of a sample against the energy of mapped operators at every degree and microbatch size."""

import importlib.util
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rephaze.measure.least_energy import least_energy_per_sample_j
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.settings import resolve_settings
from rephaze.types.search import Objective
from tests.kits.long_hunt import examples

_spec = importlib.util.spec_from_file_location("search_cases", Path(__file__).with_name("search_cases.py"))
search_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(search_cases)

ROUNDING = 1 + 1e-9


def least_over_modes_j(space, work, cut, microbatch):
    """Energy a sample of all layers, every operator in the mode of less energy: no schedule has less."""
    graph, solver = work.graph(cut), space.solver(0)
    total = 0.0
    for kind, layer in enumerate(graph.layer_types):
        members = cut.tp if layer.is_sharded else 1
        for direction in (0, 1):
            table = solver.pass_table(work, cut, microbatch, kind, direction)
            total += graph.layer_type_of.count(kind) * members * float(table.energy_j_om.min(axis=1).sum())
    return total / microbatch


def check(asked):
    space = SpaceEvaluator(asked)
    work = space.works[0]
    bound_j = float(least_energy_per_sample_j(work, space.census.chips, space.energy, space.model)[0])
    exact_j = min(least_over_modes_j(space, work, cut, microbatch) for cut, microbatch in work.pairs)
    assert 0 < bound_j <= exact_j * ROUNDING
    return bound_j / exact_j


@given(
    seed=st.integers(0, 10**6),
    scenario=st.sampled_from(["coarse", "paper"]),
    name=st.sampled_from(["gpt", "llama"]),
)
@settings(max_examples=examples(8, 15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_tiny_models(seed, scenario, name):
    rng = random.Random(seed)
    space = {"num_tensor_cores": [rng.choice((1, 8, 64))], "global_buffer_mib": [rng.choice((1, 8, 64))]}
    asked = search_cases.small_settings(
        seed,
        scenario,
        (name,),
        num_choices=0,
        space=space | {"area_limit_um2": 1e11},
        objective=Objective.PER_WATT,
    )
    check(asked)


@pytest.mark.parametrize("scenario", ["coarse", "paper"])
def test_long_rows_of_vector_work_cost_the_paper_no_memory_traffic(scenario):
    # Eager attention over 2,048 tokens: most bytes are vector operators', which the paper charges for lanes only.
    space = {
        "num_tensor_cores": [8], "tensor_width": [128], "tensor_depth": [128], "num_vector_cores": [2],
        "global_buffer_mib": [32], "area_floor_fraction": 0.0,
    }  # fmt: skip
    if scenario == "coarse":
        space |= {"vector_lanes": [2048], "num_hbm_stacks": [4]}
    changes = {
        "space": space,
        "training": {"tp_degrees": [1, 2], "microbatches": [1, 4]},
        "search": {"objective": Objective.PER_WATT},
    }
    assert check(resolve_settings(("opt-350m",), scenario=scenario, changes=changes)) > 0.1
