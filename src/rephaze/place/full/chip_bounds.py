"""A lower bound on the batch time for many chips at once: the first sieve of a search over chips.

Axis letters: c = chip, t = layer type, o = class of layouts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rephaze.errors import SpecError
from rephaze.place.full.layouts import layouts
from rephaze.types.full import FullProblem, PipelineSchedule

Floats = NDArray[np.float64]


class FullChipBounds:
    """Lower bounds for a problem of one graph, in closed form.

    Args:
        problem: With one graph. What a layer keeps at its last point of ``keep`` must be no more than on any chip.
        layer_type_of: For each layer, its column in the times given later.
    """

    def __init__(self, problem: FullProblem, layer_type_of: Sequence[int]) -> None:
        (graph,) = problem.graphs
        if len(layer_type_of) != len(graph.layers):
            rule = f"must name a type for each of {len(graph.layers)} layers"
            raise SpecError("layer_type_of", len(layer_type_of), rule)
        self._num_t = np.bincount(np.asarray(layer_type_of, dtype=np.int64)).astype(np.int64)
        count = problem.num_microbatches(graph)
        found = {(one.pp, -(-count // one.dp), one.schedule, one.chunks) for one in layouts(problem, graph)}
        self._classes = sorted(found)

    def batch_s(self, forward_s_ct: Floats, backward_s_ct: Floats) -> Floats:
        """For each chip, a time no plan beats; infinite where no plan fits."""
        work_ct = np.asarray(forward_s_ct, dtype=np.float64) + np.asarray(backward_s_ct, dtype=np.float64)
        work_c = work_ct @ self._num_t
        best_c = np.full(len(work_c), np.inf)
        for pp, count, schedule, chunks in self._classes:
            held_t, chunk_t = -(-self._num_t // pp), -(-self._num_t // (pp * chunks))
            even_c = np.maximum(work_c / pp, (work_ct * held_t).max(axis=1))
            if schedule is PipelineSchedule.ONE_F_ONE_B:
                least_c = work_c + (count - 1) * even_c
            elif schedule is PipelineSchedule.INTERLEAVED:
                chunk_c = np.maximum(work_c / (pp * chunks), (work_ct * chunk_t).max(axis=1))
                least_c = count * even_c + (pp - 1) * chunk_c
            else:
                least_c = count * even_c
            np.minimum(best_c, least_c, out=best_c)
        return best_c * (1 - 1e-9)
