"""The units of a model on one chip, most promising first: bounded for all, mapped for some, solved for few."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator

from rephaze.estimate.estimator import Estimator
from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.layer_bounds import layer_bounds
from rephaze.measure.model_work import Memory, ModelWork

LAYER_BOUND, MAPPED_BOUND, HURRIED_BOUND = range(3)
"""How far a unit's bound has been refined."""


def promising_units(
    solver: ChipSolver, work: ModelWork, memory: Memory, best_s: Callable[[], float]
) -> Iterator[int]:
    """Numbers of the units that may beat ``best_s()``, by rising bound on their batch time.

    Units that nothing fits, and all from the first whose bound does not beat it, are left out.

    Args:
        solver: Of the chip.
        work: The model.
        memory: Of the chip.
        best_s: The time to beat, asked before each unit.
    """
    estimator = Estimator(solver.table, solver.energy, work.scenario.cluster, solver.model)
    bounds_uc = layer_bounds(work, estimator, solver.table, [memory], solver.exclusion).batch_s_uc
    queue = [(bound, LAYER_BOUND, u) for u, bound in enumerate(bounds_uc[:, 0].tolist()) if math.isfinite(bound)]
    heapq.heapify(queue)
    while queue:
        bound_s, stage, u = heapq.heappop(queue)
        if bound_s >= best_s():
            return
        if stage == HURRIED_BOUND:
            yield u
            continue
        finer = solver.bound_batch_s if stage == LAYER_BOUND else solver.hurried_bound_s
        finer_s = max(bound_s, finer(work, work.units[u], memory, best_s()))
        if math.isfinite(finer_s):
            heapq.heappush(queue, (finer_s, stage + 1, u))
