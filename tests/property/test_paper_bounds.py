"""Every sieve of a search under scenario ``paper`` for itself, on random designs: never below what is true.

There no bandwidth is shared: GEMMs on one core each run side by side, each at the chip's full word rates. The
designs have many small cores as well as few large ones, and models whose layers are wide.
"""

import importlib.util
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rephaze.search.cosearch import run_search
from rephaze.search.device_time import device_time_batch_s
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.settings import resolve_settings
from rephaze.search.unshared_time import UnsharedTime
from rephaze.types.schedule import Exclusion
from rephaze.types.search import Aggregate, Objective
from tests.kits.long_hunt import examples
from tests.kits.mapped_stages import mapped_stages

pytestmark = pytest.mark.usefixtures("shared_memos")

_spec = importlib.util.spec_from_file_location("search_cases", Path(__file__).with_name("search_cases.py"))
search_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(search_cases)

ROUNDING = 1 + 1e-9
NUM_UNITS = 3
seeds = st.integers(0, 10**6)
CORES = {
    "num_tensor_cores": (1, 4, 16, 64, 256),
    "tensor_width": (8, 16, 64, 256),
    "tensor_depth": (8, 16, 64, 256),
    "num_vector_cores": (1, 4, 64, 512),
    "global_buffer_mib": (1, 2, 8, 32),
}


def random_settings(seed, models, num_values, **search):
    """A random space of real core shapes, whatever their area."""
    rng = random.Random(seed)
    varied = set(rng.sample(sorted(CORES), 2))
    space = {name: sorted(rng.sample(CORES[name], num_values if name in varied else 1)) for name in CORES}
    changes = {
        "space": space | {"area_floor_fraction": 0.0, "area_limit_um2": 1.0e11},
        "training": {
            "global_batch": rng.choice((64, 100, 4096)),
            "microbatches": sorted(rng.sample((1, 2, 4, 16), 2)),
        },
        "search": search,
    }
    return resolve_settings(models, scenario="paper", changes=changes)


def check_sieves(asked):
    """Of every design: each bound of the most promising units against their exact batch times."""
    space = SpaceEvaluator(asked)
    designs = range(space.census.num_designs)
    bounds = space.unit_bounds(designs)
    for work, own in zip(space.works, bounds, strict=True):
        device_s = device_time_batch_s(work, space.census.chips, space.model, space.exclusion)
        for design in designs:
            solver, memory = space.solver(design), space.memory_options(design)[-1]
            for u in np.argsort(own.batch_s_uc[:, design])[:NUM_UNITS]:
                unit = work.units[u]
                best_s = solver.solve(work, unit, memory, math.inf).batch_s
                mapped_s, placed_s = mapped_stages(solver, work, unit, memory, own.chip(design))
                found = {
                    "device time": float(device_s[design]),
                    "layer bounds": float(own.batch_s_uc[u, design]),
                    "mapped operators": mapped_s,
                    "plans on mapped operators": placed_s,
                }
                above = {name: bound_s for name, bound_s in found.items() if bound_s > best_s * ROUNDING}
                assert not above, f"{best_s} s on {space.census.chips.chip(design)} with {unit}: {above}"


@given(seed=seeds, name=st.sampled_from(["bert-large", "vit-large", "opt-350m"]))
@settings(
    max_examples=examples(2, 5), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
def test_no_sieve_is_below_the_truth(seed, name):
    check_sieves(random_settings(seed, (name,), 1))


def tiny_settings(seed, name, **search):
    """A tiny model on one chip of any of the core shapes."""
    rng = random.Random(seed)
    space = {key: [rng.choice(values)] for key, values in CORES.items()} | {"area_limit_um2": 1.0e11}
    asked = search_cases.small_settings(seed, "paper", (name,), space=space, **search)
    assert SpaceEvaluator(asked).census.num_designs == 1
    return asked


@given(seed=seeds, name=st.sampled_from(["gpt", "llama"]))
@settings(max_examples=examples(8, 15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nor_on_tiny_models(seed, name):
    check_sieves(tiny_settings(seed, name))


@given(seed=seeds, rule=st.sampled_from(list(Exclusion)), name=st.sampled_from(["gpt", "llama"]))
@settings(max_examples=examples(8, 15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_pass_is_faster_than_the_time_of_a_sample_says(seed, rule, name):
    evaluator = SpaceEvaluator(tiny_settings(seed, name))
    evaluator.exclusion = rule
    work, chips = evaluator.works[0], evaluator.census.chips
    solver = evaluator.solver(0)
    unshared = UnsharedTime(chips, evaluator.model, work.scenario.cluster, work.microbatches, rule)
    for cut, microbatch in work.pairs:
        for kind, both in enumerate(work.passes(cut)):
            for direction, one_pass in enumerate(both):
                cycles = solver.pass_times(work, cut, microbatch, kind, direction).bound_cycles
                least_s = float(unshared.pass_s(one_pass)[0]) * microbatch
                assert least_s <= cycles / float(chips.clock_hz[0]) * ROUNDING


@given(
    seed=seeds,
    models=st.sampled_from([("bert-large",), ("vit-large",), ("bert-large", "vit-large")]),
    objective=st.sampled_from(list(Objective)),
    aggregate=st.sampled_from(list(Aggregate)),
)
@settings(
    max_examples=examples(2, 4), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
def test_the_pruned_search_is_the_exhaustive_one(seed, models, objective, aggregate):
    asked = random_settings(seed, models, 3, objective=objective, aggregate=aggregate)
    check_same(asked)


def check_same(asked):
    found, want = run_search(asked, count_within=0.05), run_search(replace(asked, exhaustive=True))
    assert (found.status, found.design, found.objective, found.bound) == (
        want.status, want.design, want.objective, want.bound,
    )  # fmt: skip
    assert found.plans == want.plans
    assert found.certificate.num_within == want.certificate.num_within


def test_many_small_cores_side_by_side():
    # Here one chip-wide word rate for all GEMMs would drop the best design: it has 128 cores, most of them idle
    # whenever a single operator runs.
    space = {
        "num_tensor_cores": [128], "tensor_width": [16, 32], "tensor_depth": [64, 128],
        "num_vector_cores": [64, 512], "global_buffer_mib": [2, 8, 32], "area_floor_fraction": 0.0,
    }  # fmt: skip
    asked = resolve_settings(("opt-350m",), scenario="paper", changes={"space": space})
    check_same(asked)
    assert run_search(asked).objective == pytest.approx(1347.914286, rel=1e-8)
