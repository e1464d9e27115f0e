"""A lower bound on the batch time for many chips at once: the first sieve of a search over chips.

For each graph, depth S and data-parallel degree that memory and devices allow, no plan is faster than one
with perfectly even stages; nor can any plan do with less in its slowest stage than one S-th, rounded up, of
the layers of one type. All that depends on a chip are the layers' times, so the depths are listed once:

    T >= C + (m_d - 1) * L + sync
    C = work + 2 (S - 1) transfers
    L = max(C / S, max_t ceil(n_t / S) * work_t)

Axis letters: c = chip, t = layer type, o = option (a depth and a degree).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from rephaze.errors import SpecError
from rephaze.place.arrays import Floats, Ints
from rephaze.place.prepare import Options, PreparedGraph, options_of
from rephaze.place.solver import Placer
from rephaze.types.placement import CostModel


class ChipBounds:
    """Lower bounds for a prepared problem.

    Args:
        placer: The problem, with a device memory: what fits does not depend on a chip's cores.
        layer_type_of: For each layer of the problem, its column in the times given later.
    """

    def __init__(self, placer: Placer, layer_type_of: Sequence[int]) -> None:
        num_layers = len(placer.problem.graphs[0].layers)
        if len(layer_type_of) != num_layers:
            raise SpecError(
                "layer_type_of", len(layer_type_of), f"must name a type for each of {num_layers} layers"
            )
        self._placer = placer
        self._type_of = np.array(layer_type_of, dtype=np.int64)
        self._num_of_t = np.bincount(self._type_of).astype(np.int64)
        self._options = []
        for prepared in placer.prepared:
            options = self._list_options(prepared)
            next_depth_o = np.searchsorted(options.depth_o, options.depth_o, side="right")
            self._options.append((prepared, options, next_depth_o))

    def batch_s(self, times: Sequence[tuple[Floats, Floats]]) -> Floats:
        """For each chip, a time no plan beats; infinite where no plan fits.

        Args:
            times: For each graph of the problem, (forward_s_ct, backward_s_ct), chips x layer types; times
                that are themselves lower bounds give a lower bound.
        """
        is_paper = self._placer.problem.cost_model is CostModel.PAPER
        bound_c = np.full(len(times[0][0]), np.inf)
        for prepared, options, next_depth_o in self._options:
            forward_ct, backward_ct = times[prepared.position]
            work_ct = np.ascontiguousarray(np.asarray(forward_ct) + np.asarray(backward_ct), dtype=np.float64)
            transfer_s = float(prepared.transfer_s_l[-1 if is_paper else 0])
            _lower(
                bound_c, work_ct, self._num_of_t, options.depth_o, options.count_o, options.once_s_o,
                next_depth_o, transfer_s, is_paper,
            )  # fmt: skip
        return bound_c

    def _list_options(self, prepared: PreparedGraph) -> Options:
        """The graph's options with what repeated layers add: some stage holds its share of them, rounded up."""
        placer = self._placer
        params_v = prepared.arrays.param_bytes_v
        type_v = self._type_of[list(placer.shape.order)]
        depths = np.arange(1, prepared.stages_most + 1)
        heaviest_s = np.maximum(params_v.sum() / depths, params_v.max())
        for column, count in enumerate(self._num_of_t.tolist()):
            if count:
                # The least of a type: where its layers differ, the bound must hold for all.
                share = -(-count // depths) * params_v[type_v == column].min()
                heaviest_s = np.maximum(heaviest_s, share)
        return options_of(prepared, placer.problem, placer.shape, placer.links, heaviest_s)


@njit(cache=True)
def _lower(
    bound_c: Floats,
    work_ct: Floats,
    num_of_t: Ints,
    depth_o: Ints,
    count_o: Ints,
    once_s_o: Floats,
    next_depth_o: Ints,
    transfer_s: float,
    is_paper: bool,
) -> None:
    """Lower ``bound_c`` to this graph's bound where that is less."""
    num_types = len(num_of_t)
    for c in range(len(bound_c)):
        work = largest = 0.0
        for t in range(num_types):
            work += num_of_t[t] * work_ct[c, t]
            if num_of_t[t] > 0:
                largest = max(largest, work_ct[c, t])
        best = bound_c[c]
        o = 0
        while o < len(depth_o):
            depth = depth_o[o]
            total = work + 2 * (depth - 1) * transfer_s
            slowest = max(total / depth, largest)
            for t in range(num_types):
                held = -(-num_of_t[t] // depth)
                slowest = max(slowest, held * work_ct[c, t] + (transfer_s if depth > 1 else 0.0))
            filling = (depth - 1) * slowest if is_paper else total - slowest
            while o < len(depth_o) and depth_o[o] == depth:
                pipe = filling + count_o[o] * slowest
                if pipe >= best:
                    o = next_depth_o[o]
                    break
                best = min(best, pipe + once_s_o[o])
                o += 1
        bound_c[c] = best
