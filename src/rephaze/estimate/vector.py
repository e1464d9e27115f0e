"""Vector operators and gathers: lanes against memory.

Axis letters: c = chip.
"""

from __future__ import annotations

import numpy as np

from rephaze.estimate.arrays import Floats, Ints
from rephaze.estimate.costs import ChipRates, ModeCost, OpCost, bounded_by_memory
from rephaze.estimate.vector_paper import work_cycles
from rephaze.estimate.vector_weights import lane_ops
from rephaze.types.graph import Op

LANE_OP_BYTES = 12
"""Register traffic of a lane operation: two operands read, one result written, 32 bit each."""


def lane_cycles(op: Op, microbatch: int, lanes_c: Ints) -> Floats:
    """Cycles the lanes need for an operator's (or a fused GEMM's absorbed) element work."""
    total: Floats = np.zeros(len(lanes_c))
    for work in op.vector:
        total = total + np.ceil(work.num_elements.at(microbatch) / lanes_c) * lane_ops(work.function)
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
    scratchpad_j = moved * rates.energy.vector_scratchpad_j_per_byte_c
    energy_j = vector_energy_j(op, microbatch, rates) + traffic_energy_j(bytes_c, bytes_c, rates) + scratchpad_j

    def mode(lanes_c: Ints, hbm_bytes_per_cycle_c: Floats) -> ModeCost:
        cycles = bounded_by_memory(lane_cycles(op, microbatch, lanes_c), bytes_c, bytes_c, rates)
        slowest = np.maximum(cycles, bytes_c / hbm_bytes_per_cycle_c)
        return ModeCost(cycles_c=slowest, hbm_bytes_c=bytes_c, buffer_bytes_c=bytes_c, energy_j_c=energy_j)

    return OpCost(
        one_core=mode(rates.chips.vector_lanes, rates.one_core_hbm_bytes_per_cycle_c),
        all_cores=mode(rates.chips.num_lanes, rates.hbm_bytes_per_cycle_c),
    )


def paper_vector_cost(op: Op, microbatch: int, rates: ChipRates) -> OpCost:
    """The same by the paper's formulas: lane throughput alone."""
    nothing = np.zeros(len(rates))

    def mode(lanes_c: Ints) -> ModeCost:
        cycles: Floats = np.zeros(len(rates))
        for work in op.vector:
            cycles = cycles + work_cycles(
                work.function, work.num_elements.at(microbatch), work.row_length, lanes_c
            )
        energy_j = cycles * lanes_c * rates.energy.lane_op_j_c
        return ModeCost(cycles_c=cycles, hbm_bytes_c=nothing, buffer_bytes_c=nothing, energy_j_c=energy_j)

    return OpCost(one_core=mode(rates.chips.vector_lanes), all_cores=mode(rates.chips.num_lanes))
