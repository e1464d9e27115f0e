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
from dataclasses import dataclass

import numpy as np
from numba import njit

from rephaze.errors import SpecError
from rephaze.place.arrays import Floats, Ints
from rephaze.place.prepare import PreparedGraph
from rephaze.place.solver import Placer
from rephaze.place.tradeoff import sync_cost
from rephaze.types.placement import CostModel


@dataclass(frozen=True, kw_only=True, slots=True)
class _Options:
    """Depths and degrees of one graph, by rising depth and microbatches."""

    depth_o: Ints
    count_o: Ints
    once_s_o: Floats
    """Least time of what happens once a batch."""
    next_depth_o: Ints
    """Where the options of the next depth start."""
    transfer_s: float


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
        self._options = [(prepared, self._list_options(prepared)) for prepared in placer.prepared]

    def batch_s(self, times: Sequence[tuple[Floats, Floats]]) -> Floats:
        """For each chip, a time no plan beats; infinite where no plan fits.

        Args:
            times: For each graph of the problem, (forward_s_ct, backward_s_ct), chips x layer types; times
                that are themselves lower bounds give a lower bound.
        """
        is_paper = self._placer.problem.cost_model is CostModel.PAPER
        bound_c = np.full(len(times[0][0]), np.inf)
        for prepared, options in self._options:
            forward_ct, backward_ct = times[prepared.position]
            work_ct = np.ascontiguousarray(np.asarray(forward_ct) + np.asarray(backward_ct), dtype=np.float64)
            _lower(
                bound_c, work_ct, self._num_of_t, options.depth_o, options.count_o, options.once_s_o,
                options.next_depth_o, options.transfer_s, is_paper,
            )  # fmt: skip
        return bound_c

    def _list_options(self, prepared: PreparedGraph) -> _Options:
        placer = self._placer
        num_devices = placer.problem.cluster.num_devices
        is_paper = placer.problem.cost_model is CostModel.PAPER
        params_v = prepared.arrays.param_bytes_v
        params_t = np.zeros(len(self._num_of_t))
        # The least of a type: where its layers differ, the bound must hold for all.
        for column in range(len(params_t)):
            own = params_v[self._type_of[list(placer.shape.order)] == column]
            params_t[column] = own.min() if len(own) else 0.0
        rows: list[tuple[int, int, float]] = []
        for depth in range(prepared.stages_least, prepared.stages_most + 1):
            devices = prepared.fewest_devices(depth)
            heaviest = max(
                params_v.sum() / depth, params_v.max(), (-(-self._num_of_t // depth) * params_t).max()
            )
            least_once = np.inf
            for count, dp in zip(prepared.count_c.tolist(), prepared.dp_c.tolist(), strict=True):
                if dp * devices > num_devices:
                    continue
                once_s = self._least_once(is_paper, dp, devices, heaviest, params_v[0])
                # More microbatches only pay for a cheaper end of the batch.
                if once_s < least_once:
                    rows.append((depth, count, once_s))
                    least_once = once_s
        depth_o = np.array([row[0] for row in rows], dtype=np.int64)
        return _Options(
            depth_o=depth_o,
            next_depth_o=np.searchsorted(depth_o, depth_o, side="right").astype(np.int64),
            count_o=np.array([row[1] for row in rows], dtype=np.int64),
            once_s_o=np.array([row[2] for row in rows], dtype=np.float64),
            transfer_s=float(prepared.transfer_s_l[-1 if is_paper else 0]),
        )

    def _least_once(
        self, is_paper: bool, dp: int, devices: int, heaviest_bytes: float, first_bytes: float
    ) -> float:
        links = self._placer.links
        if is_paper:
            first = first_bytes if self._placer.shape.is_line else 0.0
            return 4.0 * (dp - 1) / dp * first / float(links.bytes_per_s_l[-1])
        per_byte, fixed = sync_cost(
            devices, dp, links.num_devices_l, links.bytes_per_s_l, links.latency_s_l,
            self._placer.gradient_ratio, self._placer.step_s_per_byte,
        )  # fmt: skip
        return float(per_byte * heaviest_bytes + fixed)


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
