"""The winner's plan under cost model ``full`` derived again: passes in every form, what is kept, the price."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.measure.cut_forms import CutForm
from rephaze.measure.full_times import KeepList, TypeTimes
from rephaze.measure.keep_points import pareto_points
from rephaze.measure.model_work import ModelWork
from rephaze.measure.units import Memory, Unit
from rephaze.place.full.legality import check_plan
from rephaze.place.full.price import price_full_plan
from rephaze.place.full.replay import replay_full_plan
from rephaze.place.full.times import retimed_graph
from rephaze.types.cut import GraphCut
from rephaze.types.full import FullGraph, FullPlan, FullPrice, FullProblem
from rephaze.types.placement import Recompute, RecomputePolicy
from rephaze.types.search import ModelPlan
from rephaze.verify.findings import Wrong, differs
from rephaze.verify.rederive import DerivedPass, WinnerCheck

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class DerivedPlan:
    """A recorded plan with everything it rests on derived again."""

    passes: tuple[DerivedPass, ...]
    """Of every layer type in every form of a cut sequence."""
    problem: FullProblem
    plan: FullPlan
    price: FullPrice
    energy_per_sample_j: float


def derive_full_plan(check: WinnerCheck, work: ModelWork, plan: ModelPlan, idle_w: float) -> DerivedPlan:
    """The plan of one model on the winner, derived from the settings, the chip and the decisions alone."""
    cut = work.cut_of(plan)
    assert cut is not None
    unit = Unit(cut, plan.microbatch, RecomputePolicy.AUTO)
    every: list[DerivedPass] = []
    chosen: list[tuple[CutForm, list[DerivedPass]]] = []
    for kind in range(len(work.passes(cut))):
        forms = []
        for form in work.forms(cut) if cut.cp > 1 else (work.first_form(cut),):
            passes = [
                check.derived(work, _label(work, cut, kind, at), one.graph, plan.microbatch)
                for at, one in enumerate(form.passes[kind])
            ]
            every.extend(passes)
            forms.append((form, passes))
        chosen.append(min(forms, key=lambda one: one[1][0].seconds + one[1][1].seconds))
    lists = tuple(_keep_list(check, work, unit, kind, *one) for kind, one in enumerate(chosen))
    forward_s_t, backward_s_t = (np.array([passes[at].seconds for _, passes in chosen]) for at in (0, 1))
    part_s_t = np.array([passes[2].seconds if len(passes) > 2 else 0.0 for _, passes in chosen])
    times = TypeTimes(
        forward_s_t=forward_s_t,
        backward_s_t=backward_s_t,
        weight_backward_s_t=np.maximum(backward_s_t - np.minimum(part_s_t, backward_s_t), 0.0),
        lists=lists,
    )
    problem = work.full_problem((unit,), Memory(plan.hbm_bytes, check.chip.hbm_bytes_per_s))
    graph = retimed_graph(problem.graphs[0], times.by_layer(work.layer_type_of))
    problem = problem.with_graphs((graph,))
    decision = plan.full_plan
    check_plan(problem, graph, decision)
    price = price_full_plan(problem, graph, decision)
    return DerivedPlan(
        passes=tuple(every),
        problem=problem,
        plan=decision,
        price=price,
        energy_per_sample_j=_energy_j(work, unit, decision, chosen, lists, idle_w * price.batch_s),
    )


def wrong_full_plan(work: ModelWork, plan: ModelPlan, found: DerivedPlan, notes: list[str]) -> Wrong:
    """What of the record does not come out again."""
    price, graph = found.price, found.problem.graphs[0]
    if not price.fits:
        yield "does not fit the memory or the devices"
    if differs(price.batch_s, plan.batch_s):
        yield f"batch_s {plan.batch_s:.9g} recorded, {price.batch_s:.9g} by the evaluator"
    if differs(work.scenario.training.global_batch / plan.batch_s, plan.samples_per_s):
        yield f"samples_per_s {plan.samples_per_s:.9g} is not the batch over batch_s"
    if plan.pp * plan.chunks != len(plan.stages):
        yield f"pp {plan.pp} of {plan.chunks} chunks, but {len(plan.stages)} stages"
        return
    yield from _wrong_stages(graph, plan, price)
    if differs(found.energy_per_sample_j, plan.energy_per_sample_j):
        yield f"{plan.energy_per_sample_j:.9g} J a sample recorded, {found.energy_per_sample_j:.9g} J derived"
    replay = replay_full_plan(found.problem, graph, price)
    notes.append(f"event replay {replay.batch_s / plan.batch_s - 1:+.2%}")


def _wrong_stages(graph: FullGraph, plan: ModelPlan, price: FullPrice) -> Wrong:
    for at, stage in enumerate(plan.stages):
        names = (graph.layers[stage.layers[0]].name, graph.layers[stage.layers[-1]].name)
        if (stage.first_layer, stage.last_layer) != names or stage.num_layers != len(stage.layers):
            yield f"stage {at} is not {stage.num_layers} layers from {stage.first_layer} to {stage.last_layer}"
        if differs(stage.load_s, price.stage_load_s[at]):
            yield f"stage {at} takes {price.stage_load_s[at]:.9g} s, not {stage.load_s:.9g}"
        held = price.devices[at % plan.pp].total_bytes
        if differs(stage.memory_bytes, held):
            yield f"stage {at} holds {held:.9g} B, not {stage.memory_bytes:.9g}"


def _label(work: ModelWork, cut: GraphCut, kind: int, direction: int) -> str:
    return f"{work.graph(cut).layer_types[kind].name} {('forward', 'backward', 'input part')[direction]}"


def _keep_list(
    check: WinnerCheck, work: ModelWork, unit: Unit, kind: int, form: CutForm, passes: list[DerivedPass]
) -> KeepList:
    """What a layer type replays at each position, from operators timed afresh."""
    budget_k = work.keep_budgets(unit, kind)
    if Recompute.BLOCK not in work.scenario.training.recompute:
        return KeepList(budget_k[:1], np.zeros(1), np.zeros(1))
    sets = form.keep_sets(kind)
    seconds, energy_j = check.op_figures(work, form.passes[kind][0].graph, unit.microbatch)
    if sets.tails.ops:
        tail_s, tail_j = check.op_figures(work, sets.tails, unit.microbatch)
        seconds, energy_j = np.concatenate([seconds, tail_s]), np.concatenate([energy_j, tail_j])
    kept, replay_s, choice_kd = pareto_points(sets, seconds, passes[0].seconds, unit.microbatch, max_points=0)
    at_k = [next((at for at, size in enumerate(kept) if size <= budget), len(kept) - 1) for budget in budget_k]
    spent = [math.fsum(energy_j[n] for n in sets.replayed_ops(choice_kd[at].tolist())) for at in at_k]
    return KeepList(budget_k, np.array([replay_s[at] for at in at_k]), np.array(spent))


def _energy_j(
    work: ModelWork,
    unit: Unit,
    plan: FullPlan,
    chosen: list[tuple[CutForm, list[DerivedPass]]],
    lists: tuple[KeepList, ...],
    idle_j: float,
) -> float:
    scenario = work.scenario
    parts = []
    for stage in plan.stages:
        for layer in stage.layers:
            kind = work.layer_type_of[layer]
            forward, backward, *_ = chosen[kind][1]
            parts.append(forward.energy_j + backward.energy_j + float(lists[kind].replay_j_k[stage.keep]))
    devices = unit.cut.tp * unit.cut.cp
    idle_per_sample_j = idle_j * scenario.cluster.num_devices / scenario.training.global_batch
    return math.fsum(parts) * devices / unit.microbatch + idle_per_sample_j
