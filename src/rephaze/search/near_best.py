"""Designs near the best settled after the proof, so that their number is known and not only bounded.

The proof drops a design as soon as it cannot win. To count the designs within some part of the best, those whose
bound lies above that floor are taken up again, best first, with the floor in the incumbent's place: each is
solved exactly, or a finer bound shows that it lies below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from rephaze.search.engine import RELATIVE_SLACK, EngineOutcome, Evaluate, Refine
from rephaze.types.search import Evaluation
from rephaze.types.stopping import StoppedError

Floats = NDArray[np.float64]


def settle_near_best(
    outcome: EngineOutcome,
    coarse_d: Floats,
    within: float,
    *,
    refine: Refine,
    evaluate: Evaluate,
    batch_size: int,
    refine_size: int,
    known: Iterable[Evaluation] = (),
    on_batch: Callable[[list[Evaluation], int], None] = lambda _batch, _num_left: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Complete ``outcome`` until every design is known to lie within that part of the best or not.

    Args:
        outcome: Of a search that ended with a proof; its evaluations and refined bounds are added to.
        coarse_d: An upper bound of each design's objective.
        within: How far below the best, as a fraction of it.
        refine: Finer bounds.
        evaluate: Solves designs, or drops them when a bound falls below what it is given.
        batch_size: Designs a batch.
        refine_size: Designs refined at a time.
        known: Evaluations of an earlier session; used instead of solving again.
        on_batch: Called with each batch and how many designs are left after it.
        should_stop: Asked between batches; True leaves the rest as it is. So does work that was cut.
    """
    if outcome.incumbent is None:
        return
    floor = outcome.incumbent.objective * (1 - within)
    least = floor * (1 - RELATIVE_SLACK)
    evaluations, refined = outcome.evaluations, outcome.refined
    for item in known:
        if item.design not in evaluations or (item.is_exact and not evaluations[item.design].is_exact):
            evaluations[item.design] = item
    order = [int(design) for design in np.argsort(-coarse_d, kind="stable") if coarse_d[design] >= least]
    unrefined = [design for design in order if design not in refined and design not in evaluations]
    for start in range(0, len(unrefined), refine_size):
        if should_stop():
            return
        chunk = unrefined[start : start + refine_size]
        try:
            finer = np.minimum(refine(chunk), coarse_d[chunk])
        except StoppedError:
            return
        refined.update(zip(chunk, finer.tolist(), strict=True))

    def bound(design: int) -> float:
        return evaluations[design].bound if design in evaluations else refined[design]

    def is_open(design: int) -> bool:
        is_solved = design in evaluations and evaluations[design].is_exact
        return not is_solved and bound(design) >= least

    todo = sorted(filter(is_open, order), key=lambda design: (-bound(design), design))
    for start in range(0, len(todo), batch_size):
        if should_stop():
            return
        asked = todo[start : start + batch_size]
        batch = [item for item in evaluate(asked, floor) if isinstance(item, Evaluation)]
        evaluations.update((item.design, item) for item in batch)
        on_batch(batch, len(todo) - start - len(batch))
        if len(batch) < len(asked):
            return
