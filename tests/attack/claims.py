"""A search's own claims against the truth: its answer, the bounds it recorded, its counts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rephaze.search import cosearch as searching
from rephaze.store.run_store import RunStore
from rephaze.types.run_record import NOT_REMOVED
from rephaze.types.search import Objective, SearchResult, SearchSettings, SearchStatus
from tests.attack.cases import Case
from tests.attack.findings import RELATIVE, Tally, exceeds
from tests.attack.slow import SlowEvaluator

COUNTED_WITHIN = 0.05
WITHIN = {"0.1 %": 0.001, "1 %": 0.01, "5 %": 0.05}


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedSearch:
    """What a search claims."""

    result: SearchResult
    counted: SearchResult
    """After settling the designs near the best."""
    bounds: dict[int, tuple[str, float]]
    """By design, the name of its last bound and its value."""


def searched(settings: SearchSettings) -> RecordedSearch:
    """The search run, recorded, counted and read back."""
    with TemporaryDirectory() as scratch, one_at_a_time():
        folder = Path(scratch) / "run"
        result = searching.run_search(settings, folder=folder)
        bounds = dict(_recorded_bounds(folder))
        counted = searching.run_search(settings, folder=folder, resume=True, count_within=COUNTED_WITHIN)
    return RecordedSearch(result=result, counted=counted, bounds=bounds)


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """A look at the incumbent after every design: in a small space too, most must then fall to bounds."""
    before = searching.BATCH_SIZE
    searching.BATCH_SIZE = 1
    try:
        yield
    finally:
        searching.BATCH_SIZE = before


def _recorded_bounds(folder: Path):
    with RunStore.read(folder) as store:
        table = store.bounds()
        for design, bound, by in zip(table.design_c, table.bound_c, table.removed_by_c, strict=True):
            name = "solved exactly" if by == NOT_REMOVED else table.names[by]
            yield int(design), (name, float(bound))


def chosen_designs(found: RecordedSearch, slow: SlowEvaluator, at_most: int, seed: int) -> list[int]:
    """Designs to solve slowly: all if few; else the tightest bounds, the winner and its like, random ones."""
    num_designs = slow.census.num_designs
    if num_designs <= at_most:
        return list(range(num_designs))
    rng = random.Random(seed)
    # Of each sieve those it removed most narrowly: their bounds lie next to the answer.
    by_name: dict[str, list[tuple[float, int]]] = {}
    for design, (name, bound) in found.bounds.items():
        by_name.setdefault(name, []).append((-bound, design))
    part = max(1, at_most // 4)
    chosen: list[int] = []
    for entries in by_name.values():
        chosen += [design for _, design in sorted(entries)[: max(1, part // len(by_name))]]
    if found.result.design is not None:
        chosen += _neighbours(slow, found.result.design)[: 2 * part]
    chosen += rng.sample(range(num_designs), at_most)
    return list(dict.fromkeys(chosen))[:at_most]


def _neighbours(slow: SlowEvaluator, winner: int) -> list[int]:
    """Designs by how many fields they differ from the winner in."""
    chips, fields = slow.census.chips, ("num_tensor_cores", "tensor_width", "tensor_depth", "num_vector_cores")
    fields += ("vector_lanes", "global_buffer_bytes", "num_hbm_stacks")
    differing = sum((getattr(chips, name) != getattr(chips, name)[winner]).astype(int) for name in fields)
    return [int(design) for design in differing.argsort(kind="stable")]


def attack_answer(
    case: Case, found: RecordedSearch, slow: SlowEvaluator, designs: list[int], tally: Tally
) -> None:
    """No design beats the answer, the winner is worth what is said, no recorded bound lies below a design."""
    result = found.result
    is_proven = result.status in (SearchStatus.OPTIMAL, SearchStatus.INFEASIBLE)
    ceiling = result.objective if is_proven else result.bound
    ceiling = max(ceiling, 0.0)
    for design in designs:
        worth = slow.worth(design)
        said = f"design {design} ({slow.census.chips.chip(design).in_words})"
        if exceeds(worth.value, ceiling):
            text = f"{said} reaches {worth.value:.9g}; {result.status} with {ceiling:.9g} was said"
            tally.add("better design", "answer", text, case.toml)
        name, bound = found.bounds[design]
        tally.num_bounds += 1
        if exceeds(worth.value, max(bound, 0.0)):
            text = f"{said} reaches {worth.value:.9g}, its bound is {bound:.9g}"
            tally.add("bound", name, text, case.toml)
    if result.design is not None:
        worth = slow.worth(result.design)
        is_low = worth.is_proven and exceeds(result.objective, worth.value)
        is_high = result.status is SearchStatus.OPTIMAL and exceeds(worth.value, result.objective)
        if is_low or is_high or not worth.value:
            text = f"the winner is worth {worth.value:.12g}, {result.objective:.12g} was said"
            tally.add("status", "answer", text, case.toml)
        if not worth.is_proven:
            attack_optimal(case, found, slow, tally)


def attack_optimal(case: Case, found: RecordedSearch, slow: SlowEvaluator, tally: Tally) -> None:
    """Optimal may be said of a winner with unproven schedules only if their bounds leave it no room."""
    design, objective = found.result.design, found.result.objective
    if found.result.status is not SearchStatus.OPTIMAL:
        return
    if design is not None and slow.settings.objective is not Objective.PER_WATT:
        reachable = slow.reachable(design)
        if exceeds(reachable, objective):
            text = f"optimal with {objective:.9g}, but its schedules are proven up to {reachable:.9g} only"
            tally.add("status", "answer", text, case.toml)


def attack_counts(case: Case, found: RecordedSearch, slow: SlowEvaluator, tally: Tally) -> None:
    """Every design counted once, and as many near the best as there are; needs every design solved slowly."""
    num_designs = slow.census.num_designs
    worths = [slow.worth(design) for design in range(num_designs)]
    best = max((worth.value for worth in worths), default=0.0)
    for label, result in (("counts", found.result), ("counts after settling", found.counted)):
        certificate = result.certificate
        dropped = sum(certificate.num_dropped_by_bound.values())
        total = certificate.num_solved_exactly + certificate.num_infeasible + dropped
        if total != num_designs or certificate.num_designs != num_designs:
            text = f"{total} designs accounted for, {certificate.num_designs} claimed, {num_designs} there are"
            tally.add("count", label, text, case.toml)
        num_fitting = sum(worth.value > 0 for worth in worths)
        # A bound may drop a design that has no plan; none with one may be called infeasible.
        if certificate.num_infeasible > num_designs - num_fitting:
            text = f"{certificate.num_infeasible} infeasible claimed, {num_designs - num_fitting} have no plan"
            tally.add("count", label, text, case.toml)
        for name, part in WITHIN.items():
            # Within rounding of the floor either count is right.
            low = sum(worth.value > best * (1 - part) * (1 + RELATIVE) for worth in worths) if best else 0
            high = sum(worth.value >= best * (1 - part) * (1 - RELATIVE) for worth in worths) if best else 0
            least, most = certificate.num_within[name]
            if least > high or most < low:
                text = f"{least} to {most} designs within {name} claimed, {low} there are"
                tally.add("count", label, text, case.toml)
            is_settled = result is found.counted and result.status is SearchStatus.OPTIMAL
            if is_settled and all(worth.is_proven for worth in worths) and least != most:
                text = f"{least} to {most} designs within {name}: settled counts must agree"
                tally.add("count", label, text, case.toml)
    if (found.counted.objective, found.counted.design) != (found.result.objective, found.result.design):
        tally.add("count", "counts after settling", "the answer changed while counting", case.toml)
