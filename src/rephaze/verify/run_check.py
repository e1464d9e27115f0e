"""A recorded run derived again with slow, independent means: does its answer hold?

Four kinds of checks: the rows are those that were recorded (digests); the record agrees with itself (settings,
sessions, steps, counts, status, gap); the plans of the winner and of all designs that were solved come out the
same when derived afresh; and no design that a bound dropped beats the answer: all bounds are recomputed, and a
seeded sample of each kind is solved unit by unit without looking at any bound. Of a run by boxes the boxes must
cover the space, and a sample of each kind is bounded again and a design of each solved. What catches what:
docs/verify.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain, zip_longest
from pathlib import Path

from rephaze.errors import RephazeError, SpecError
from rephaze.hardware.space_terms import space_area
from rephaze.hardware.system import chosen_system
from rephaze.measure.units import memory_options
from rephaze.search.box_bounds import corner_valuation
from rephaze.search.certificate import BOUNDS
from rephaze.search.evaluator import Preparation, SpaceEvaluator
from rephaze.search.system_evaluator import AnyBoxEvaluator, SystemEvaluator
from rephaze.search.systems import listed_systems
from rephaze.search.workers.base import make_evaluator
from rephaze.store.reader import RunReader
from rephaze.store.run_store import RunStore
from rephaze.types.boxes import ClosedBox, OpenBox
from rephaze.types.chip import Chip, chip_table
from rephaze.types.comparison import ChipAnswer
from rephaze.types.run_record import BoundTable
from rephaze.types.search import Evaluation, ModelPlan, Objective, SearchResult, SearchStatus
from rephaze.types.system import ListedSystem
from rephaze.types.verification import Check
from rephaze.verify.box_check import CoverCheck
from rephaze.verify.box_claims import REASONS
from rephaze.verify.dropped import DroppedDesigns
from rephaze.verify.findings import TOLERANCE, UNDERIVABLE, Wrong, checked, differs, underivable
from rephaze.verify.life import (
    RunLife,
    answer_of,
    digests_said,
    read_life,
    wrong_digests,
    wrong_sessions,
    wrong_settings,
    wrong_steps,
    wrong_versions,
)
from rephaze.verify.recorded_designs import GridDesigns, ListedDesigns, RecordedDesigns, Stored
from rephaze.verify.solved import SolvedDesigns, wrong_known_chips
from rephaze.verify.winner import check_winner


def verify_run(
    folder: Path,
    *,
    sample: int = 3,
    digest: str | None = None,
    on_progress: Callable[[str], None] = lambda _doing: None,
) -> list[Check]:
    """Every claim of the run in ``folder``, checked.

    Args:
        folder: A run with an answer.
        sample: Dropped designs to solve exactly, for each bound; chosen by the run's seed.
        digest: What the last digest was, or how it began, as somebody noted it.
        on_progress: Told what is being checked.

    Raises:
        RunError: No run, one without an answer, or one of which nothing can be read.
    """
    if sample < 0:
        raise SpecError("sample", sample, "must be at least 0")
    return list(each_check(folder, sample, digest, on_progress))


def each_check(
    folder: Path, sample: int, digest: str | None, on_progress: Callable[[str], None]
) -> Iterator[Check]:
    """As ``verify_run``, one check after the other."""
    with RunStore.read(folder) as store:
        on_progress("digests")
        store.check_file()
        records = _Records.of(store)
    life = records.life
    yield checked(
        "digests", life.digests.num_digests, wrong_digests(life.digests, digest), digests_said(life.digests)
    )
    yield checked("settings", len(life.sessions), wrong_settings(life), "as every session was given them")
    on_progress("models and design space")
    try:
        yield from _RunCheck(records, make_evaluator(life.info.settings)).checks(sample, on_progress)
    except (RephazeError, OSError, *UNDERIVABLE) as error:  # the record is at fault, wherever that shows
        said = str(error) if isinstance(error, RephazeError | OSError) else underivable(error)
        yield checked("what is left", 0, [" ".join(said.split())], "")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Records:
    """All of a run that anybody reads."""

    life: RunLife
    num_sessions: int | None
    result: SearchResult
    stored: Stored | None
    numbers: list[int]
    evaluations: dict[int, Evaluation]
    bounded_models: tuple[str | None, ...]
    table: BoundTable
    names: tuple[str, ...]
    closed: list[ClosedBox]
    still_open: list[OpenBox]
    known: tuple[ChipAnswer, ...]
    systems: tuple[ListedSystem, ...]

    @classmethod
    def of(cls, store: RunReader) -> _Records:
        return cls(
            result=answer_of(store),
            life=read_life(store),
            num_sessions=store.num_sessions_noted(),
            stored=store.designs(),
            numbers=store.design_numbers(),
            evaluations={item.design: item for item in store.evaluations()},
            bounded_models=store.bounded_models(),
            table=store.bounds(),
            names=store.bound_names(),
            closed=store.closed_boxes(),
            still_open=store.open_boxes(),
            known=store.known_chips(),
            systems=store.systems(),
        )


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

    def __init__(self, records: _Records, evaluator: SpaceEvaluator | AnyBoxEvaluator) -> None:
        self.records, self.life, self.result = records, records.life, records.result
        self.searched, self.evaluations = evaluator, records.evaluations
        self.evaluator = _of_answer(evaluator, records.result)
        # Of the answer's system, where systems were searched.
        self.settings = self.evaluator.settings
        self.designs: RecordedDesigns = (
            ListedDesigns(evaluator) if isinstance(evaluator, SpaceEvaluator) else GridDesigns(evaluator)
        )

    def checks(self, sample: int, on_progress: Callable[[str], None]) -> Iterator[Check]:
        """The run's own records, its answer, its winner, then all that it did not solve."""
        records, life, result, evaluator = self.records, self.life, self.result, self.evaluator
        model, searched = evaluator.model, self.searched
        yield checked(
            "versions", 1, wrong_versions(life, f"{model.name}/{model.version}"), life.info.versions.estimator
        )
        sessions = wrong_sessions(life, records.num_sessions, result)
        yield checked("sessions", len(life.sessions), sessions, f"{result.search_s:.1f} s of search")
        wrong = self.designs.wrong_records(records.stored, records.numbers, self.evaluations)
        yield checked("design space", len(records.numbers), wrong, self.designs.fine)
        yield checked("tables", len(records.names), self.wrong_tables(), "those of this kind of search")
        yield checked(
            "answer", len(self.evaluations), self.wrong_answer(), f"{result.status}, {result.objective:.6g}"
        )
        steps = wrong_steps(life, result, self.evaluations, self._bound_at_first())
        yield checked("steps", len(life.steps), steps, "each better than the one before")
        listed = listed_systems(life.info.settings)
        others = (f"system {at} is not that of the settings" for at in _differing(records.systems, listed))
        yield checked("systems", len(listed), others, "those of the settings")
        if result.chip is not None:
            yield checked("area", 1, self.wrong_area(), f"{result.area_um2:,.0f} um2")
            said = "that of the settings" if result.system is None else result.system.in_words
            yield checked("system", 1, self.wrong_system(), said)
            for work, plan in zip(evaluator.works, result.plans, strict=False):
                on_progress(f"{work.name} on the winner")
                yield from check_winner(evaluator, result, work, plan)
        yield from self._looked_at(on_progress)
        is_old = not life.has_digests
        if not isinstance(searched, SpaceEvaluator):
            on_progress("boxes")
            cover = CoverCheck(
                searched, result, self.evaluations, records.closed, records.still_open, is_old=is_old
            )
            yield from cover.checks(sample, on_progress)
        else:
            on_progress("bounds of all designs")
            dropped = DroppedDesigns(searched, result, self.evaluations, records.table, is_old=is_old)
            yield from dropped.checks(sample, on_progress)

    def _looked_at(self, on_progress: Callable[[str], None]) -> Iterator[Check]:
        """Designs that were taken up, and chips measured beside them."""
        solved = SolvedDesigns(self.searched, self.designs, self.result, self.evaluations)
        chosen = solved.chosen(step.design for step in self.life.steps)
        on_progress(f"{len(chosen)} solved designs")
        wrong = chain(solved.wrong_winner(), solved.wrong_solved(chosen))
        yield checked("solved designs", len(chosen), wrong, "plans found again, none before the answer")
        num_dropped = sum(not item.is_exact for item in self.evaluations.values())
        yield checked("dropped designs", num_dropped, solved.wrong_dropped(), "below the answer")
        if self.records.known:
            on_progress(f"{len(self.records.known)} known chips")
            known = wrong_known_chips(self.evaluator, self.records.known)
            yield checked("known chips", len(self.records.known), known, "plans found again")

    def _bound_at_first(self) -> float:
        """No step can have had a greater bound; by boxes none is known before they are opened."""
        if not isinstance(self.searched, SpaceEvaluator):
            return math.inf
        return float(self.searched.coarse().max(initial=0.0))

    def wrong_tables(self) -> Wrong:
        """Rows in tables that this kind of search does not write, or bounds that there are not."""
        records, by_boxes = self.records, not isinstance(self.searched, SpaceEvaluator)
        if by_boxes and (len(records.table) or records.bounded_models):
            yield "a search by boxes has bounds of single designs"
        if not by_boxes and (records.closed or records.still_open):
            yield "a search through a list has boxes"
        if any(model is not None for model in records.bounded_models):
            yield "bounds of single models, which no search records"
        known = REASONS if by_boxes else BOUNDS
        yield from (f"a bound is called {name!r}" for name in records.names if name not in known)
        if not by_boxes and records.names not in ((), BOUNDS) and self.life.has_digests:
            yield "bounds are not in their order"
        yield from (
            f"an open box is bounded by {box.bounded_by!r}"
            for box in records.still_open
            if box.bounded_by not in ("", *REASONS)
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
        recorded = result.system
        if not self.life.info.settings.has_systems:
            if recorded is not None:
                yield "a system is recorded, none was searched"
            return
        assert space.system is not None
        derived = chosen_system(self.settings.scenario, result.chip)
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
