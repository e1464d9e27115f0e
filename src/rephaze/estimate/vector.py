"""Vector operators and gathers: lanes against memory.

Axis letters: c = chip.
"""

from __future__ import annotations

import numpy as np

from rephaze.compiled import inner_in_place, kernel_in_place
from rephaze.estimate.arrays import Floats, Ints
from rephaze.estimate.costs import ChipRates, ModeCost, OpCost
from rephaze.estimate.vector_paper import work_cycles
from rephaze.estimate.vector_weights import lane_ops
from rephaze.types.graph import Op

LANE_OP_BYTES = 12
"""Register traffic of a lane operation: two operands read, one result written, 32 bit each."""


def lane_cycles(op: Op, microbatch: int, lanes_c: Ints) -> Floats:
    """Cycles the lanes need for an operator's (or a fused GEMM's absorbed) element work."""
    total: Floats = np.zeros(len(lanes_c))
    if op.vector:
        _fill_lane_cycles(*element_work(op, microbatch), lanes_c, total)
    return total


def num_lane_ops(op: Op, microbatch: int) -> float:
    """Lane operations of an operator, whatever the chip."""
    return sum(lane_ops(work.function) * work.num_elements.at(microbatch) for work in op.vector)


def vector_energy_j(op: Op, microbatch: int, rates: ChipRates) -> Floats:
    """Energy of the element work itself, memory traffic not included."""
    energy = rates.energy
    per_op_j = energy.lane_op_j_c + LANE_OP_BYTES * energy.register_j_per_byte_c
    return num_lane_ops(op, microbatch) * per_op_j


def traffic_energy_j(hbm_bytes_c: Floats, buffer_bytes_c: Floats, rates: ChipRates) -> Floats:
    """Energy of bytes through HBM and the global buffer."""
    energy = rates.energy
    return hbm_bytes_c * energy.hbm_j_per_byte_c + buffer_bytes_c * energy.global_buffer_j_per_byte_c


def vector_cost(op: Op, microbatch: int, rates: ChipRates) -> OpCost:
    """A vector operator or gather: every byte passes HBM and the buffer once, lanes work meanwhile."""
    moved = float(op.input_bytes.at(microbatch) + op.output_bytes.at(microbatch))
    bytes_c = np.full(len(rates), moved)

    def energy_j() -> Floats:
        scratchpad_j = moved * rates.energy.vector_scratchpad_j_per_byte_c
        return vector_energy_j(op, microbatch, rates) + traffic_energy_j(bytes_c, bytes_c, rates) + scratchpad_j

    def mode(lanes_c: Ints, hbm_bytes_per_cycle_c: Floats) -> ModeCost:
        lane_c = lane_cycles(op, microbatch, lanes_c)
        memory_c = np.maximum(moved / hbm_bytes_per_cycle_c, moved / rates.buffer_bytes_per_cycle_c)
        cycles_c = np.maximum(lane_c, memory_c)
        return ModeCost(cycles_c=cycles_c, hbm_bytes_c=bytes_c, buffer_bytes_c=bytes_c, energy_of=energy_j)

    return OpCost(
        one_core=mode(rates.chips.vector_lanes, rates.one_core_hbm_bytes_per_cycle_c),
        all_cores=mode(rates.chips.num_lanes, rates.hbm_bytes_per_cycle_c),
    )


def element_work(op: Op, microbatch: int) -> tuple[Floats, Floats]:
    """Elements of each piece of an operator's work, and lane operations on one."""
    elements = [float(work.num_elements.at(microbatch)) for work in op.vector]
    return np.array(elements), np.array([lane_ops(work.function) for work in op.vector])


@inner_in_place
def busy_lanes(elements_w: Floats, ops_w: Floats, first: int, end: int, num_lanes: float) -> float:
    """Cycles of the pieces from ``first`` to ``end``: lanes share a piece's elements evenly, rounded up."""
    total = 0.0
    for w in range(first, end):
        total += np.ceil(elements_w[w] / num_lanes) * ops_w[w]
    return total


@kernel_in_place
def _fill_lane_cycles(elements_w: Floats, ops_w: Floats, lanes_c: Ints, cycles_c: Floats) -> None:
    for c in range(len(cycles_c)):
        cycles_c[c] = busy_lanes(elements_w, ops_w, 0, len(elements_w), float(lanes_c[c]))


def paper_vector_cost(op: Op, microbatch: int, rates: ChipRates) -> OpCost:
    """The same by the paper's formulas: lane throughput alone."""
    nothing = np.zeros(len(rates))

    def mode(lanes_c: Ints) -> ModeCost:
        cycles: Floats = np.zeros(len(rates))
        for work in op.vector:
            cycles = cycles + work_cycles(
                work.function, work.num_elements.at(microbatch), work.row_length, lanes_c
            )
        return ModeCost(
            cycles_c=cycles,
            hbm_bytes_c=nothing,
            buffer_bytes_c=nothing,
            energy_of=lambda: cycles * lanes_c * rates.energy.lane_op_j_c,
        )

    return OpCost(one_core=mode(rates.chips.vector_lanes), all_cores=mode(rates.chips.num_lanes))
