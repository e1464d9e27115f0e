"""A recorded run derived again with slow, independent means: does its answer hold?

Three kinds of checks: the record agrees with itself (counts, status, gap), the winner's area, times, plans and
energy come out the same when derived afresh, and no design that a bound dropped beats the answer: all bounds are
recomputed, and a seeded sample of each kind is solved unit by unit without looking at any bound.

Axis letters: u = unit, d = design.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rephaze.errors import RephazeError, RunError, SpecError
from rephaze.hardware.area import chip_area
from rephaze.measure.layer_bounds import CHUNK
from rephaze.measure.model_work import ModelWork
from rephaze.place.price import price_plan
from rephaze.place.simulate import formula_gap_s, replayed_batch_s
from rephaze.search.certificate import BOUNDS, account, drop_threshold
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.provenance import graph_digests
from rephaze.store.run_store import RunStore
from rephaze.types.chip import chip_table
from rephaze.types.run_record import NOT_REMOVED, BoundTable, RunInfo
from rephaze.types.search import Evaluation, ModelPlan, Objective, SearchResult, SearchStatus
from rephaze.types.verification import Check
from rephaze.verify.counts import LEFT_OPEN, wrong_counts, wrong_scope
from rephaze.verify.rederive import WinnerCheck, plan_energy_j, recorded_plan, timed_problem

Floats = NDArray[np.float64]
Wrong = Iterator[str]

TOLERANCE = 1e-9
"""Relative: sums of the same terms in another order."""
_MAX_SHOWN = 3


def verify_run(
    folder: Path, *, sample: int = 3, on_progress: Callable[[str], None] = lambda _doing: None
) -> list[Check]:
    """Every claim of the run in ``folder``, checked.

    Args:
        folder: A run with an answer.
        sample: Dropped designs to solve exactly, for each bound; chosen by the run's seed.
        on_progress: Told what is being checked.

    Raises:
        RunError: No run, or one without an answer.
    """
    if sample < 0:
        raise SpecError("sample", sample, "must be at least 0")
    with RunStore.read(folder) as store:
        info, result = store.info(), store.result()
        stored = store.designs()
        evaluations = {item.design: item for item in store.evaluations()}
        table = store.bounds()
    if result is None:
        raise RunError(f"{folder}: has no answer yet; finish it with rephaze search --out {folder} --resume")
    on_progress("models and design space")
    evaluator = SpaceEvaluator(info.settings)
    check = _RunCheck(info, result, evaluations, table, evaluator)
    found = [
        _check("versions", 1, check.wrong_versions(), info.versions.estimator),
        _check("design space", evaluator.census.num_designs, check.wrong_designs(stored), "enumerated the same"),
        _check("answer", len(evaluations), check.wrong_answer(), f"{result.status}, {result.objective:.6g}"),
    ]
    if result.chip is not None:
        found.append(_check("area", 1, check.wrong_area(), f"{result.area_um2:,.0f} um2"))
        for work, plan in zip(evaluator.works, result.plans, strict=False):
            on_progress(f"{work.name} on the winner")
            found.extend(check.winner(work, plan))
    on_progress("bounds of all designs")
    found.extend(check.dropped(sample, on_progress))
    return found


def _check(name: str, num_checked: int, wrong: Wrong, fine: str) -> Check:
    try:
        found = list(wrong)
    except RephazeError as error:  # a record that is no plan of this problem: a finding, not a failure of ours
        found = [str(error)]
    shown = "; ".join(found[:_MAX_SHOWN])
    more = f"; and {len(found) - _MAX_SHOWN} more" if len(found) > _MAX_SHOWN else ""
    return Check(name=name, passed=not found, num_checked=num_checked, detail=shown + more if found else fine)


def _differs(first: float, second: float) -> bool:
    return not math.isclose(first, second, rel_tol=TOLERANCE)


class _RunCheck:
    """One run's records and the means to derive them again."""

    def __init__(
        self,
        info: RunInfo,
        result: SearchResult,
        evaluations: dict[int, Evaluation],
        table: BoundTable,
        evaluator: SpaceEvaluator,
    ) -> None:
        self.info, self.settings, self.result, self.evaluator = info, info.settings, result, evaluator
        self.evaluations, self.table = evaluations, table
        self.is_stopped = result.status in (SearchStatus.FEASIBLE, SearchStatus.UNKNOWN)
        self.ceiling = (result.bound if self.is_stopped else result.objective) * (1 + TOLERANCE)
        """No design may do better."""

    def wrong_versions(self) -> Wrong:
        model = self.evaluator.model
        made_by, now = self.info.versions, f"{model.name}/{model.version}"
        if now != made_by.estimator:
            yield f"made by estimator {made_by.estimator}, this is {now}: numbers may differ"
        digests = graph_digests(self.settings.models)
        yield from (
            f"{name} has changed since"
            for name, digest in made_by.input_digests.items()
            if digests[name] != digest
        )

    def wrong_designs(self, stored: tuple[object, Floats] | None) -> Wrong:
        census = self.evaluator.census
        if stored is None:
            if census.num_designs:
                yield "no designs are recorded"
            return
        area_um2_d = stored[1]
        if len(area_um2_d) != census.num_designs:
            yield f"{len(area_um2_d)} designs recorded, the space has {census.num_designs}"
        elif (area_um2_d != census.area_um2_c).any():
            yield f"design {int(np.argmax(area_um2_d != census.area_um2_c))} has another area"

    def wrong_answer(self) -> Wrong:
        """The answer against the evaluations it came from."""
        result = self.result
        solved = [item for item in self.evaluations.values() if item.is_exact and item.objective > 0]
        best = max((item.objective for item in solved), default=0.0)
        if best != result.objective:
            yield f"objective {result.objective!r}, the best evaluation has {best!r}"
        if result.chip is None or result.design is None:
            if solved:
                yield f"called {result.status}, but {len(solved)} designs have plans"
            return
        own = self.evaluations.get(result.design)
        if own is None or own.plans != result.plans:
            yield f"the plans are not those recorded for design {result.design}"
        if len(result.plans) != len(self.settings.models):
            yield f"{len(result.plans)} plans for {len(self.settings.models)} models"
            return
        if result.chip != self.evaluator.census.chips.chip(result.design):
            yield f"the chip is not design {result.design} of the space"
        sizes = {memory.hbm_bytes for memory in self.evaluator.memory_options(result.design)}
        if not {plan.hbm_bytes for plan in result.plans} <= sizes:
            yield f"a plan has memory that is not among {sorted(sizes)}"
            return
        if self.settings.objective is Objective.PER_USD and len({plan.hbm_bytes for plan in result.plans}) > 1:
            yield "plans of one chip are priced with different memories"
        given = self._objective_of_plans(result.design, result.plans)
        if _differs(given, result.objective):
            yield f"the plans give {given:.9g}, not {result.objective:.9g}"
        if _differs(1 + result.gap, max(result.bound, result.objective) / result.objective):
            yield f"gap {result.gap:.3g}, but bound {result.bound:.9g}"
        if result.status is SearchStatus.OPTIMAL and (result.gap or result.bound != result.objective):
            yield f"called optimal with gap {result.gap:.3g}"

    def _objective_of_plans(self, design: int, plans: Sequence[ModelPlan]) -> float:
        valuation = self.evaluator.valuation
        return valuation.combined(
            [
                valuation.worth(design, plan.hbm_bytes).of_plan(plan.batch_s, plan.energy_per_sample_j)
                for plan in plans
            ]
        )

    def wrong_area(self) -> Wrong:
        result, space = self.result, self.settings.scenario.space
        assert result.chip is not None
        area_um2 = float(chip_area(chip_table([result.chip]), space.area_model).total_um2_c[0])
        if _differs(area_um2, result.area_um2):
            yield f"recorded {result.area_um2:,.2f} um2, the chip has {area_um2:,.2f} um2"
        if area_um2 > space.area_limit_um2 * (1 + TOLERANCE):
            yield f"{area_um2:,.2f} um2 is above the limit of {space.area_limit_um2:,.2f} um2"

    def winner(self, work: ModelWork, plan: ModelPlan) -> list[Check]:
        """Operators, schedules and plan of one model on the winner."""
        result, evaluator = self.result, self.evaluator
        assert result.chip is not None
        if plan.tp not in work.graphs or plan.microbatch not in work.scenario.training.microbatches:
            said = f"tp {plan.tp}, microbatch {plan.microbatch} are not among the scenario's"
            return [_check(f"{work.name}: plan", len(plan.stages), iter([said]), "")]
        solver = evaluator.chip_solver(result.chip)
        passes = WinnerCheck(result.chip, solver.energy, evaluator.model, evaluator.exclusion).passes(work, plan)
        each = [one for both in passes for one in both]
        problem = timed_problem(work, plan, result.chip.hbm_bytes_per_s, passes)
        proven = sum(one.is_proven for one in each)
        notes: list[str] = []

        def wrong_plan() -> Wrong:
            decision = recorded_plan(problem, plan)
            priced = price_plan(problem, decision)
            names = [layer.name for layer in problem.graphs[0].layers]
            if not priced.fits:
                yield "does not fit the memory or the devices"
            if _differs(priced.batch_s, plan.batch_s):
                yield f"batch_s {plan.batch_s:.9g} recorded, {priced.batch_s:.9g} by the evaluator"
            if _differs(work.scenario.training.global_batch / plan.batch_s, plan.samples_per_s):
                yield f"samples_per_s {plan.samples_per_s:.9g} is not the batch over batch_s"
            if plan.pp != len(plan.stages):
                yield f"pp {plan.pp}, but {len(plan.stages)} stages"
            for at, (stage, cost) in enumerate(zip(plan.stages, priced.stages, strict=True)):
                layers = decision.stages[at].layers
                if (stage.first_layer, stage.last_layer) != (names[layers[0]], names[layers[-1]]):
                    yield f"stage {at} is not {stage.first_layer} to {stage.last_layer}"
                if _differs(stage.load_s, cost.load_s):
                    yield f"stage {at} takes {cost.load_s:.9g} s, not {stage.load_s:.9g}"
                if _differs(stage.memory_bytes, cost.memory.total_bytes):
                    yield f"stage {at} holds {cost.memory.total_bytes:.9g} B, not {stage.memory_bytes:.9g}"
            energy_j = plan_energy_j(work, plan, passes, float(solver.energy.idle_w_c[0]))
            if _differs(energy_j, plan.energy_per_sample_j):
                yield f"{plan.energy_per_sample_j:.9g} J a sample recorded, {energy_j:.9g} J derived"
            replay_s = replayed_batch_s(problem, decision)
            if replay_s is None:
                notes.append("no replay under this cost model")
                return
            gap_s = formula_gap_s(priced)
            notes.append(f"1F1B replay {replay_s / plan.batch_s - 1:+.2%} (may differ {gap_s / plan.batch_s:.2%})")
            if abs(replay_s - plan.batch_s) > gap_s + TOLERANCE * plan.batch_s:
                yield f"replayed in {replay_s:.9g} s, further than {gap_s:.3g} s from {plan.batch_s:.9g} s"

        wrong_ops = (f"{one.label}: {what}" for one in each for what in one.wrong_ops)
        wrong_schedules = (f"{one.label}: {what}" for one in each for what in one.wrong_schedule)
        found = [
            _check(
                f"{work.name}: operators", sum(one.num_ops for one in each), wrong_ops, "at or above their bounds"
            ),
            _check(
                f"{work.name}: schedules", len(each), wrong_schedules, f"valid, {proven} of {len(each)} proven"
            ),
        ]
        wrong = list(_caught(wrong_plan()))
        found.append(
            _check(f"{work.name}: plan", len(plan.stages), iter(wrong), "; ".join(["priced the same", *notes]))
        )
        return found

    def dropped(self, sample: int, on_progress: Callable[[str], None]) -> Iterator[Check]:
        """All bounds again, and a sample of what each dropped solved without any."""
        if self.result.status is SearchStatus.UNKNOWN and not len(self.table):
            num_open, num_designs = self.result.certificate.num_open, self.evaluator.census.num_designs
            wrong = [] if num_open == num_designs else [f"{num_open} designs left open of {num_designs}"]
            yield _check("certificate", num_designs, iter(wrong), "stopped before there was any bound")
            return
        coarse_d = self.evaluator.coarse()
        threshold = drop_threshold(self.result.objective, self.settings.exhaustive)
        unsolved = [d for d in range(len(coarse_d)) if d not in self.evaluations]
        left_open = self._left_open()
        to_refine = [d for d in unsolved if coarse_d[d] >= threshold and coarse_d[d] > 0 and d not in left_open]
        refined: dict[int, float] = {}
        for start in range(0, len(to_refine), CHUNK):
            chunk = to_refine[start : start + CHUNK]
            bounds = self.evaluator.refined(chunk, self.evaluator.unit_bounds(chunk))
            refined |= dict(zip(chunk, np.minimum(bounds, coarse_d[chunk]).tolist(), strict=True))
        derived = account(coarse_d, refined, self.evaluations, threshold)
        yield _check(
            "certificate",
            self.result.certificate.num_designs,
            chain(wrong_counts(self.result, self.table, derived), wrong_scope(self.result, self.settings)),
            "every design counted once, by the bound that drops it",
        )
        kinds = {
            name: np.flatnonzero(derived.removed_by_d == position).tolist()
            for position, name in enumerate(BOUNDS)
            if name in derived.num_dropped()
        }
        if left_open:
            kinds[LEFT_OPEN] = sorted(left_open)
        # What was left open was bounded further than is done here.
        least = {d: float(coarse_d[d]) for d in unsolved} | refined | left_open
        least |= {d: item.bound for d, item in self.evaluations.items()}
        over = [d for d, bound in least.items() if bound > self.ceiling]
        yield _check(
            "bounds",
            len(least),
            (f"design {d} may reach {least[d]:.9g}" for d in over),
            f"none above {self.ceiling:.6g}",
        )
        chooser = random.Random(self.settings.seed)  # noqa: S311 - a repeatable sample, no secret
        for name, designs in kinds.items():
            chosen = sorted(chooser.sample(designs, min(sample, len(designs))))
            title = name if name == LEFT_OPEN else f"dropped by {name}"
            on_progress(f"{len(chosen)} of {len(designs)} designs {title}")
            beaten = "the bound" if name == LEFT_OPEN else "the answer"
            yield _check(
                title,
                len(chosen),
                self._wrong_drops(chosen, least),
                f"of {len(designs):,}: none beats {beaten}" if chosen else "none to solve",
            )

    def _left_open(self) -> dict[int, float]:
        """Designs the run says it left open, with their recorded bounds; none of a run that says it left none."""
        if not self.result.certificate.num_open:
            return {}
        table = self.table
        rows = zip(table.design_c.tolist(), table.bound_c.tolist(), table.removed_by_c.tolist(), strict=True)
        return {d: bound for d, bound, at in rows if at == NOT_REMOVED and bound > 0 and d not in self.evaluations}

    def _wrong_drops(self, designs: list[int], least: dict[int, float]) -> Wrong:
        for design in designs:
            objective = self.objective_without_bounds(design)
            if objective > self.ceiling:
                yield f"design {design} reaches {objective:.9g}, the answer {self.result.objective:.9g}"
            if objective > least[design] * (1 + TOLERANCE):
                yield f"design {design} reaches {objective:.9g}, above its bound {least[design]:.9g}"

    def objective_without_bounds(self, design: int) -> float:
        """A design's objective by solving every unit of every model; 0 if a model does not fit."""
        evaluator = self.evaluator
        solver, best = evaluator.solver(design), 0.0
        for memory in evaluator.priced_memories(design):
            worth, values = evaluator.valuation.worth(design, memory.hbm_bytes), []
            for work in evaluator.works:
                answers = [solver.solve(work, unit, memory, math.inf) for unit in work.units]
                values.append(max(worth.of_plan(one.batch_s, one.energy_per_sample_j) for one in answers))
            best = max(best, evaluator.valuation.combined(values))
        return best


def _caught(wrong: Wrong) -> Wrong:
    try:
        yield from wrong
    except RephazeError as error:
        yield str(error)
