"""Seconds a layer's pass takes for a sample where every operator has the chip's full word rates for itself.

In model ``paper`` bandwidths are not shared: GEMMs on one core each run side by side, each at the rates one of
them would have alone. Charging all words to one rate would be no bound. What does hold, for an operator with p
seconds on one core and q on all, both per sample:

* the operators of a path follow each other: the sum of min(p, q) along it;
* at most n operators of an engine run at once, n the cores or the largest antichain of its users, and nothing of
  the engine beside one on all cores: the sum of min(p / n, q);
* under rule ``chip`` nothing at all runs beside an operator on all cores, and no more than the largest antichain
  at once: the same sum over all operators with that n.

Series parts follow each other, so their bounds add up.

Axis letters: c = chip, i = operator of a part, o = operator of a graph.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.collectives import paper_all_reduce_s
from rephaze.estimate.estimate_model import EstimateModel
from rephaze.estimate.least_work import gemm_sizes, num_macs
from rephaze.estimate.vector_paper import work_cycles
from rephaze.measure.pass_classes import PassWork
from rephaze.schedule.structure import Part, series_parts
from rephaze.types.chip import ChipTable
from rephaze.types.cluster import Cluster
from rephaze.types.energy import PAPER_WORD_BYTES
from rephaze.types.graph import GemmDims, Op, OpKind, VectorWork
from rephaze.types.schedule import Exclusion

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Modes = tuple[Floats, Floats]
"""Cycles per sample on one core and on all."""

ROUNDING = 1 - 1e-9
"""Whole cycles may be this part of a cycle below the number they were rounded from (``costs.whole_cycles``)."""


class UnsharedTime:
    """Bounds of passes on a set of chips.

    Args:
        chips: The chips.
        model: Word rates of the arrays and of DRAM.
        cluster: The network of the collectives.
        microbatches: Sizes a plan may choose.
        exclusion: What all-cores operators exclude.
    """

    def __init__(
        self,
        chips: ChipTable,
        model: EstimateModel,
        cluster: Cluster,
        microbatches: Sequence[int],
        exclusion: Exclusion,
    ) -> None:
        self.chips, self.model, self.cluster = chips, model, cluster
        self.microbatches, self.exclusion = tuple(microbatches), exclusion
        self._array_macs_c = (chips.tensor_width * chips.tensor_depth).astype(np.float64)
        # Two tensors move once for every side of the array's tile, the third for the scratchpad tile's; any two
        # sides multiply to at most the scratchpad, so 1/x + 1/y + 1/z is no less than 3 / sqrt(scratchpad).
        self._near_c = (
            3.0 / np.sqrt(chips.tensor_scratchpad_bytes / PAPER_WORD_BYTES) / model.array_words_per_cycle
        )
        # Over the buffer's upper side two move once for every side of its tile, which multiply to at most it.
        self._far_c = 2.0 / np.sqrt(chips.global_buffer_bytes / PAPER_WORD_BYTES) / model.dram_words_per_cycle
        self._one_core_lanes, self._one_core_at = np.unique(chips.vector_lanes, return_inverse=True)
        self._all_lanes, self._all_at = np.unique(chips.num_lanes, return_inverse=True)
        self._gemms: dict[GemmDims, Modes] = {}
        self._vectors: dict[VectorWork, Modes] = {}

    def pass_s(self, one_pass: PassWork) -> Floats:
        """Seconds per sample no schedule of the pass goes below, a value a chip."""
        structure = one_pass.structure
        modes_o = [self._op_cycles(op) for op in one_pass.graph.ops]
        takes_time = structure.takes_time & np.array([modes_o[o] is not None for o in structure.order])
        cycles_c = np.zeros(len(self.chips))
        for part in series_parts(structure, takes_time):
            modes_i = [modes for o in part.ops if (modes := modes_o[o]) is not None]
            cycles_c += self._part_cycles(part, modes_i)
        return cycles_c * ROUNDING / self.chips.clock_hz

    def _part_cycles(self, part: Part, modes_i: list[Modes]) -> Floats:
        least_i = [np.minimum(one, all_) for one, all_ in modes_i]
        if len(least_i) == 1:
            return least_i[0]
        bound_c = _longest_path(part, least_i)
        engines = (
            (part.uses_tensor, np.minimum(self.chips.num_tensor_cores, part.tensor_width)),
            (part.uses_vector, np.minimum(self.chips.num_vector_cores, part.vector_width)),
        )
        for uses_i, num_c in engines:
            if uses_i.any():
                users = [modes for modes, uses in zip(modes_i, uses_i.tolist(), strict=True) if uses]
                bound_c = np.maximum(bound_c, _load(users, num_c))
        if self.exclusion is Exclusion.CHIP:
            bound_c = np.maximum(bound_c, _load(modes_i, np.full(len(self.chips), part.width)))
        return bound_c

    def _op_cycles(self, op: Op) -> Modes | None:
        """The least an operator takes per sample; None if that may be nothing."""
        if op.kind is OpKind.COLLECTIVE:
            return self._collective_cycles(op)
        if op.kind is OpKind.ATTENTION:
            macs = min(num_macs(op, b) / b for b in self.microbatches)
            return macs / self._array_macs_c, macs / (self._array_macs_c * self.chips.num_tensor_cores)
        if op.gemm is not None:
            if op.gemm not in self._gemms:
                self._gemms[op.gemm] = self._gemm_cycles(op.gemm)
            return self._gemms[op.gemm]
        return self._vector_cycles(op)

    def _gemm_cycles(self, gemm: GemmDims) -> Modes:
        macs, outputs, extra = np.inf, 0.0, np.inf
        for b in self.microbatches:
            batch, m, n, k = gemm_sizes(gemm, b)
            macs = min(macs, batch * m * n * k / b)
            outputs = max(outputs, batch * m * n / b)
            # The third tensor moves at least once; outputs are not read back before they are written.
            once = min(batch * m * k, k * n, batch * m * n)
            extra = min(extra, (once - batch * m * n) / b)
        near_c = macs * self._near_c - outputs / self.model.array_words_per_cycle
        far_c = macs * self._far_c + extra / self.model.dram_words_per_cycle
        words_c = np.maximum(near_c, far_c)
        one_c = macs / self._array_macs_c
        return np.maximum(one_c, words_c), np.maximum(one_c / self.chips.num_tensor_cores, words_c)

    def _vector_cycles(self, op: Op) -> Modes | None:
        found = [self._work_cycles(item) for item in op.vector]
        if not found:
            return None
        one_c: Floats = np.sum([one for one, _ in found], axis=0)
        all_c: Floats = np.sum([all_ for _, all_ in found], axis=0)
        return one_c, all_c

    def _work_cycles(self, item: VectorWork) -> Modes:
        if item not in self._vectors:
            one, all_ = (
                np.minimum.reduce(
                    [
                        work_cycles(item.function, item.num_elements.at(b), item.row_length, lanes) / b
                        for b in self.microbatches
                    ]
                )
                for lanes in (self._one_core_lanes, self._all_lanes)
            )
            self._vectors[item] = one[self._one_core_at], all_[self._all_at]
        return self._vectors[item]

    def _collective_cycles(self, op: Op) -> Modes:
        assert op.collective is not None
        members, bytes_per_s = op.collective.num_members, self.cluster.levels[0].bytes_per_s
        payload = min(op.collective.payload_bytes.at(b) / b for b in self.microbatches)
        cycles_c = paper_all_reduce_s(payload, members, bytes_per_s) * self.chips.clock_hz
        return cycles_c, cycles_c


def _longest_path(part: Part, least_i: list[Floats]) -> Floats:
    """The longest sum along a path of a part, whose operators are in topological order."""
    ends: list[Floats] = []
    for i, least_c in enumerate(least_i):
        before = part.pred_index[part.pred_start[i] : part.pred_start[i + 1]].tolist()
        ends.append(least_c + np.maximum.reduce([ends[j] for j in before]) if before else least_c)
    longest_c: Floats = np.maximum.reduce(ends)
    return longest_c


def _load(modes: Sequence[Modes], num_c: Ints) -> Floats:
    """Operators of which at most so many run at once, and none beside one on all cores."""
    total_c: Floats = np.zeros(len(num_c))
    for one_c, all_c in modes:
        total_c += np.minimum(one_c / num_c, all_c)
    return total_c
