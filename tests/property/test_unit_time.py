"""Unit times: no plan beats them, in closed form or mapped, on a chip or at the corner of several."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rephaze.estimate.estimator import Estimator
from rephaze.measure import model_work
from rephaze.measure.layer_bounds import layer_bounds
from rephaze.measure.unit_time import class_times_s, corner_time_batch_s, unit_time_batch_s, unit_times_s
from rephaze.measure.unit_work import PassNeeds, least_batches_s, pass_needs, unit_work
from rephaze.search.cosearch import run_search
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.settings import resolve_settings
from rephaze.types.search import SearchStatus
from rephaze.verify.run_check import verify_run
from tests.attack.short_models import model_source
from tests.kits.long_hunt import examples, seldom

pytestmark = pytest.mark.usefixtures("shared_memos")

_spec = importlib.util.spec_from_file_location("search_cases", Path(__file__).with_name("search_cases.py"))
search_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(search_cases)
small_settings = search_cases.small_settings

ROUNDING = 1 + 1e-9
SEEDS = st.integers(0, 10**6)


@pytest.fixture
def all_are_mixtures(monkeypatch):
    """Every model under cost model ``full`` is bounded as those with very many cuts are."""
    monkeypatch.setattr(model_work, "MANY_CLASSES", 0)


def estimator_of(space, designs):
    index = np.array(designs)
    chips = space.census.chips.take(index)
    return Estimator(chips, space._energy_of(index), space.settings.scenario.cluster, space.model)


def busiest_s(needs, chip):
    """What a pass needs of each thing, by the rate of all of it."""
    return max(
        needs.macs / (chip.num_macs * chip.clock_hz),
        needs.lane_ops / (chip.num_lanes * chip.clock_hz),
        needs.hbm_bytes / chip.hbm_bytes_per_s,
        needs.link_s,
    )


def test_the_least_work_of_a_unit_is_that_of_its_quickest_forms():
    """The compiled sum over all passes of a batch is what it says it is."""
    training = {"cp_degrees": [1, 2], "tp_degrees": [1, 2], "sequence_parallel": [True], "microbatches": [1, 2]}
    asked = small_settings(5, "default", ("llama",), num_choices=1, num_devices=16, training=training)
    space = SpaceEvaluator(asked)
    work, chips = space.works[0], space.census.chips
    found_uc, cluster = least_batches_s(unit_work(work), chips), asked.scenario.cluster
    num_t = np.bincount(np.array(work.layer_type_of))
    for u, unit in enumerate(work.units):
        num_microbatches = -(-asked.scenario.training.global_batch // unit.microbatch)
        held_s = 0.0
        for kind, count in enumerate(num_t.tolist()):
            for direction in range(2):
                forms = [form.passes[kind][direction].graph for form in work.all_forms(unit.cut)]
                least = [
                    min(one) for one in zip(*(pass_needs(g, unit.microbatch, cluster) for g in forms), strict=True)
                ]
                least_s = busiest_s(PassNeeds(*least), chips.chip(0))
                held_s += count * work.num_members(unit.cut, kind) * num_microbatches * least_s
        assert found_uc[u, 0] == pytest.approx(held_s / cluster.num_devices, rel=1e-8)
        assert found_uc[u, 0] > 0


@given(seed=SEEDS, model=st.sampled_from(["gpt", "llama"]))
@settings(max_examples=examples(4, 8), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_plan_of_a_unit_beats_its_time(seed, model):
    space = SpaceEvaluator(small_settings(seed, "default", (model,), num_choices=1))
    work, designs = space.works[0], range(space.census.num_designs)
    chips, estimator = space.census.chips, estimator_of(space, designs)
    closed_uc = unit_times_s(work, estimator, space.exclusion)
    mapped_uc = unit_times_s(work, estimator, space.exclusion, mapped_k=np.ones(len(work.classes), dtype=np.bool_))
    assert (closed_uc <= mapped_uc * ROUNDING).all()
    first_uc = least_batches_s(unit_work(work), chips)
    least_c = unit_time_batch_s(work, chips, space.model, space.exclusion)
    assert np.allclose(least_c, closed_uc.min(axis=0), rtol=1e-12)
    # Mapped where the limit leaves a chance: no less than in closed form, nor than what is mapped everywhere.
    limited_c = unit_time_batch_s(work, chips, space.model, space.exclusion, longest_s_c=least_c * 1.05)
    assert (least_c <= limited_c * ROUNDING).all()
    assert (limited_c <= mapped_uc.min(axis=0) * ROUNDING).all()
    everywhere_c = unit_time_batch_s(work, chips, space.model, space.exclusion, np.full(len(chips), np.inf))
    assert np.allclose(everywhere_c, mapped_uc.min(axis=0), rtol=1e-12)
    corner_c = corner_time_batch_s(work, chips, space.model, space.exclusion)
    memory = [space.memory_options(design)[-1] for design in designs]
    whole = layer_bounds(work, estimator, chips, memory, space.exclusion).batch_s_uc.min(axis=0)
    endless_c = np.full(len(chips), np.inf)
    lazy = layer_bounds(work, estimator, chips, memory, space.exclusion, longest_s_c=endless_c).batch_s_uc
    assert (lazy.min(axis=0) * ROUNDING >= whole).all()
    # Chips that take longer than is asked for keep a time that says so.
    half_c = lazy.min(axis=0) * 0.5
    short = layer_bounds(work, estimator, chips, memory, space.exclusion, longest_s_c=half_c).batch_s_uc
    assert (short.min(axis=0) * ROUNDING >= np.minimum(half_c, lazy.min(axis=0))).all()
    for design in designs:
        solver, true_s = space.solver(design), []
        for u, unit in enumerate(work.units):
            true_s.append(solver.solve(work, unit, memory[design], math.inf).bound_s)
            assert mapped_uc[u, design] <= true_s[-1] * ROUNDING
            assert first_uc[u, design] <= true_s[-1] * ROUNDING
            assert lazy[u, design] <= true_s[-1] * ROUNDING
            assert short[u, design] <= true_s[-1] * ROUNDING
        assert corner_c[design] <= min(true_s) * ROUNDING


@given(seed=SEEDS, case=st.sampled_from(["llama", "mixtral-8x7b:1"]))
@settings(max_examples=examples(3, 6), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_pass_beats_the_time_of_its_class(seed, case):
    training = {"cp_degrees": [1, 2], "tp_degrees": [1, 2], "sequence_parallel": [True], "microbatches": [1, 2]}
    asked = small_settings(seed, "default", ("llama",), num_choices=1, num_devices=16, training=training)
    if case != "llama":
        more = {"ep_degrees": [1, 2], "etp_degrees": [1, 2]}
        changes = {"training": training | more, "space": {"num_tensor_cores": [4], "num_hbm_stacks": [2]}}
        asked = resolve_settings((model_source(case),), scenario="default", changes=changes)
    space = SpaceEvaluator(asked)
    work, design = space.works[0], seed % space.census.num_designs
    solver, estimator = space.solver(design), estimator_of(space, [design])
    all_k = np.ones(len(work.classes), dtype=np.bool_)
    least_s = class_times_s(work, estimator, space.exclusion, mapped_k=all_k)[..., 0]
    pairs = list(work.class_of.items())
    for (cut, microbatch), k in pairs if case == "llama" else pairs[seed % 7 :: len(pairs) // 6]:
        for kind in range(len(work.passes(cut))):
            for direction in range(2):
                for form, own in enumerate(work.all_forms(cut)):
                    table = solver.pass_table(work, cut, microbatch, kind, direction, form)
                    cycles = solver.schedule(work, own.passes[kind][direction], table).makespan_cycles
                    needs = pass_needs(own.passes[kind][direction].graph, microbatch, asked.scenario.cluster)
                    assert busiest_s(needs, solver.chip) <= cycles / solver.chip.clock_hz * ROUNDING
                    assert least_s[k, direction, kind] <= cycles / solver.chip.clock_hz * ROUNDING


@pytest.mark.usefixtures("all_are_mixtures")
@pytest.mark.parametrize("seed", seldom([3, 17, 40], lambda seed: seed == 3))
def test_as_mixtures_pruned_equals_exhaustive(seed, monkeypatch, tmp_path):
    asked = small_settings(seed, "default", ("llama",))
    found = run_search(asked, folder=tmp_path / "run")
    checks = verify_run(tmp_path / "run", sample=1)
    assert [check.name for check in checks if not check.passed] == []
    monkeypatch.setattr(model_work, "MANY_CLASSES", 10**6)
    want = run_search(asked)
    assert found.status is want.status is SearchStatus.OPTIMAL
    assert (found.design, found.objective, found.plans) == (want.design, want.objective, want.plans)
