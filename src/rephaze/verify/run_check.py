"""A recorded run derived again with slow, independent means: does its answer hold?

Three kinds of checks: the record agrees with itself (counts, status, gap), the winner's area, times, plans and
energy come out the same when derived afresh, and no design that a bound dropped beats the answer: all bounds are
recomputed, and a seeded sample of each kind is solved unit by unit without looking at any bound. Of a run by boxes
the boxes must cover the space, and a sample of each kind is bounded again and a design of each solved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import zip_longest
from pathlib import Path

from rephaze.errors import RunError, SpecError
from rephaze.hardware.space_terms import space_area
from rephaze.hardware.system import chosen_system
from rephaze.measure.model_work import memory_options
from rephaze.search.box_bounds import corner_valuation
from rephaze.search.evaluator import Preparation, SpaceEvaluator
from rephaze.search.provenance import graph_digests
from rephaze.search.system_evaluator import AnyBoxEvaluator, SystemEvaluator
from rephaze.search.systems import listed_systems
from rephaze.search.workers.base import make_evaluator
from rephaze.store.run_store import RunStore
from rephaze.types.chip import Chip, chip_table
from rephaze.types.run_record import RunInfo
from rephaze.types.search import Evaluation, ModelPlan, Objective, SearchResult, SearchStatus
from rephaze.types.system import ListedSystem
from rephaze.types.verification import Check
from rephaze.verify.box_check import CoverCheck
from rephaze.verify.dropped import DroppedDesigns
from rephaze.verify.findings import TOLERANCE, Wrong, checked, differs
from rephaze.verify.recorded_designs import GridDesigns, ListedDesigns, RecordedDesigns
from rephaze.verify.winner import check_winner


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
        numbers = store.design_numbers()
        evaluations = {item.design: item for item in store.evaluations()}
        table = store.bounds()
        closed, still_open, systems = store.closed_boxes(), store.open_boxes(), store.systems()
    if result is None:
        raise RunError(f"{folder}: has no answer yet; finish it with rephaze search --out {folder} --resume")
    on_progress("models and design space")
    evaluator = make_evaluator(info.settings)
    designs = ListedDesigns(evaluator) if isinstance(evaluator, SpaceEvaluator) else GridDesigns(evaluator)
    own = _of_answer(evaluator, result)
    check = _RunCheck(info, result, evaluations, own, designs)
    found = [
        checked("versions", 1, check.wrong_versions(), info.versions.estimator),
        checked("design space", len(numbers), designs.wrong_records(stored, numbers, evaluations), designs.fine),
        checked("answer", len(evaluations), check.wrong_answer(), f"{result.status}, {result.objective:.6g}"),
    ]
    if info.settings.has_systems:
        listed = listed_systems(info.settings)
        wrong = (f"system {at} is not that of the settings" for at in _differing(systems, listed))
        found.append(checked("systems", len(listed), wrong, "those of the settings"))
    if result.chip is not None:
        found.append(checked("area", 1, check.wrong_area(), f"{result.area_um2:,.0f} um2"))
        if info.settings.has_systems:
            said = "" if result.system is None else result.system.in_words
            found.append(checked("system", 1, check.wrong_system(), said))
        for work, plan in zip(own.works, result.plans, strict=False):
            on_progress(f"{work.name} on the winner")
            found.extend(check_winner(own, result, work, plan))
    if not isinstance(evaluator, SpaceEvaluator):
        on_progress("boxes")
        cover = CoverCheck(evaluator, result, evaluations, closed, still_open)
        return [*found, *cover.checks(sample, on_progress)]
    on_progress("bounds of all designs")
    return [*found, *DroppedDesigns(evaluator, result, evaluations, table).checks(sample, on_progress)]


def _differing(recorded: Sequence[ListedSystem], listed: Sequence[ListedSystem]) -> list[int]:
    """Numbers of systems that are recorded otherwise than they are, or not at all."""
    pairs = zip_longest(recorded, listed)
    return [number for number, (said, meant) in enumerate(pairs) if said != meant]


def _of_answer(evaluator: SpaceEvaluator | AnyBoxEvaluator, result: SearchResult) -> Preparation:
    """What the answer was found with: where systems were searched, that of its own."""
    if not isinstance(evaluator, SystemEvaluator):
        return evaluator
    is_there = result.design is not None and 0 <= result.design < evaluator.grid.num_points
    return evaluator.of_design(result.design) if result.design is not None and is_there else evaluator.first


class _RunCheck:
    """One run's records and the means to derive them again."""

    def __init__(
        self,
        info: RunInfo,
        result: SearchResult,
        evaluations: dict[int, Evaluation],
        evaluator: Preparation,
        designs: RecordedDesigns,
    ) -> None:
        self.info, self.result, self.evaluator = info, result, evaluator
        # Of the answer's system, where systems were searched.
        self.settings = evaluator.settings
        self.evaluations, self.designs = evaluations, designs

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
        if result.chip != self.designs.chip(result.design):
            yield f"the chip is not design {result.design} of the space"
        space, chip = self.settings.scenario.space, result.chip
        sizes = {memory.hbm_bytes for memory in memory_options(space, chip.hbm_bytes, chip.hbm_bytes_per_s)}
        if not {plan.hbm_bytes for plan in result.plans} <= sizes:
            yield f"a plan has memory that is not among {sorted(sizes)}"
            return
        if self.settings.objective is Objective.PER_USD and len({plan.hbm_bytes for plan in result.plans}) > 1:
            yield "plans of one chip are priced with different memories"
        given = self._objective_of_plans(result.chip, result.plans)
        if differs(given, result.objective):
            yield f"the plans give {given:.9g}, not {result.objective:.9g}"
        if differs(1 + result.gap, max(result.bound, result.objective) / result.objective):
            yield f"gap {result.gap:.3g}, but bound {result.bound:.9g}"
        if result.status is SearchStatus.OPTIMAL and (result.gap or result.bound != result.objective):
            yield f"called optimal with gap {result.gap:.3g}"

    def _objective_of_plans(self, chip: Chip, plans: Sequence[ModelPlan]) -> float:
        valuation = corner_valuation(self.evaluator, chip_table([chip]))
        return valuation.combined(
            [valuation.worth(0, plan.hbm_bytes).of_plan(plan.batch_s, plan.energy_per_sample_j) for plan in plans]
        )

    def wrong_system(self) -> Wrong:
        """The recorded system against that of the design, and its bill against the budget."""
        result, space = self.result, self.settings.scenario.space
        assert result.chip is not None
        assert space.system is not None
        derived, recorded = chosen_system(self.settings.scenario, result.chip), result.system
        if recorded is None:
            yield "no system is recorded"
            return
        for field in fields(derived):
            said, meant = getattr(recorded, field.name), getattr(derived, field.name)
            if differs(said, meant) if isinstance(meant, float) else said != meant:
                yield f"{field.name} {said} recorded, design {result.design} has {meant}"
        for name in ("silicon_mm2", "power_w", "cost_usd"):
            limit = getattr(space.system.budget, name)
            if getattr(derived, name) > limit * (1 + TOLERANCE):
                yield f"{name} {getattr(derived, name):,.0f} is above the budget of {limit:,.0f}"

    def wrong_area(self) -> Wrong:
        result, space = self.result, self.settings.scenario.space
        assert result.chip is not None
        area_um2 = float(space_area(chip_table([result.chip]), space).total_um2_c[0])
        if differs(area_um2, result.area_um2):
            yield f"recorded {result.area_um2:,.2f} um2, the chip has {area_um2:,.2f} um2"
        if area_um2 > space.area_limit_um2 * (1 + TOLERANCE):
            yield f"{area_um2:,.2f} um2 is above the limit of {space.area_limit_um2:,.2f} um2"
