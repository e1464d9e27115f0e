"""The winner of a run derived again: operators, schedules, plan, energy of one model."""

from __future__ import annotations

from rephaze.errors import RephazeError
from rephaze.measure.model_work import ModelWork
from rephaze.measure.recorded_plan import recorded_plan
from rephaze.place.price import price_plan
from rephaze.place.simulate import formula_gap_s, replayed_batch_s
from rephaze.search.evaluator import Preparation
from rephaze.types.search import ModelPlan, SearchResult
from rephaze.types.verification import Check
from rephaze.verify.findings import TOLERANCE, Wrong, checked, differs
from rephaze.verify.full_winner import derive_full_plan, wrong_full_plan
from rephaze.verify.rederive import DerivedPass, WinnerCheck, plan_energy_j, timed_problem


def check_winner(evaluator: Preparation, result: SearchResult, work: ModelWork, plan: ModelPlan) -> list[Check]:
    """Operators, schedules and plan of one model on the winner."""
    assert result.chip is not None
    if work.cut_of(plan) is None or plan.microbatch not in work.scenario.training.microbatches:
        said = f"tp {plan.tp}, microbatch {plan.microbatch} are not among the scenario's"
        return [checked(f"{work.name}: plan", len(plan.stages), iter([said]), "")]
    solver = evaluator.chip_solver(result.chip)
    check = WinnerCheck(result.chip, solver.energy, evaluator.model, evaluator.exclusion)
    if work.is_full:
        return _check_full_winner(check, work, plan, float(solver.energy.idle_w_c[0]))
    passes = check.passes(work, plan)
    each = [one for both in passes for one in both]
    problem = timed_problem(work, plan, result.chip.hbm_bytes_per_s, passes)
    notes: list[str] = []

    def wrong_plan() -> Wrong:
        decision = recorded_plan(problem, plan)
        priced = price_plan(problem, decision)
        names = [layer.name for layer in problem.graphs[0].layers]
        if not priced.fits:
            yield "does not fit the memory or the devices"
        if differs(priced.batch_s, plan.batch_s):
            yield f"batch_s {plan.batch_s:.9g} recorded, {priced.batch_s:.9g} by the evaluator"
        if differs(work.scenario.training.global_batch / plan.batch_s, plan.samples_per_s):
            yield f"samples_per_s {plan.samples_per_s:.9g} is not the batch over batch_s"
        if plan.pp != len(plan.stages):
            yield f"pp {plan.pp}, but {len(plan.stages)} stages"
        for at, (stage, cost) in enumerate(zip(plan.stages, priced.stages, strict=True)):
            layers = decision.stages[at].layers
            if (stage.first_layer, stage.last_layer) != (names[layers[0]], names[layers[-1]]):
                yield f"stage {at} is not {stage.first_layer} to {stage.last_layer}"
            if differs(stage.load_s, cost.load_s):
                yield f"stage {at} takes {cost.load_s:.9g} s, not {stage.load_s:.9g}"
            if differs(stage.memory_bytes, cost.memory.total_bytes):
                yield f"stage {at} holds {cost.memory.total_bytes:.9g} B, not {stage.memory_bytes:.9g}"
        energy_j = plan_energy_j(work, plan, passes, float(solver.energy.idle_w_c[0]))
        if differs(energy_j, plan.energy_per_sample_j):
            yield f"{plan.energy_per_sample_j:.9g} J a sample recorded, {energy_j:.9g} J derived"
        replay_s = replayed_batch_s(problem, decision)
        if replay_s is None:
            notes.append("no replay under this cost model")
            return
        gap_s = formula_gap_s(priced)
        notes.append(f"1F1B replay {replay_s / plan.batch_s - 1:+.2%} (may differ {gap_s / plan.batch_s:.2%})")
        if abs(replay_s - plan.batch_s) > gap_s + TOLERANCE * plan.batch_s:
            yield f"replayed in {replay_s:.9g} s, further than {gap_s:.3g} s from {plan.batch_s:.9g} s"

    found = _check_passes(work, each)
    wrong = list(_caught(wrong_plan()))
    found.append(
        checked(f"{work.name}: plan", len(plan.stages), iter(wrong), "; ".join(["priced the same", *notes]))
    )
    return found


def _check_full_winner(check: WinnerCheck, work: ModelWork, plan: ModelPlan, idle_w: float) -> list[Check]:
    try:
        derived = derive_full_plan(check, work, plan, idle_w)
    except RephazeError as error:
        return [checked(f"{work.name}: plan", len(plan.stages), iter([str(error)]), "")]
    notes: list[str] = []
    wrong = list(wrong_full_plan(work, plan, derived, notes))
    return [
        *_check_passes(work, list(derived.passes)),
        checked(f"{work.name}: plan", len(plan.stages), iter(wrong), "; ".join(["priced the same", *notes])),
    ]


def _check_passes(work: ModelWork, each: list[DerivedPass]) -> list[Check]:
    """Operators and schedules of every pass."""
    proven = sum(one.is_proven for one in each)
    wrong_ops = (f"{one.label}: {what}" for one in each for what in one.wrong_ops)
    wrong_schedules = (f"{one.label}: {what}" for one in each for what in one.wrong_schedule)
    return [
        checked(
            f"{work.name}: operators", sum(one.num_ops for one in each), wrong_ops, "at or above their bounds"
        ),
        checked(f"{work.name}: schedules", len(each), wrong_schedules, f"valid, {proven} of {len(each)} proven"),
    ]


def _caught(wrong: Wrong) -> Wrong:
    try:
        yield from wrong
    except RephazeError as error:
        yield str(error)
