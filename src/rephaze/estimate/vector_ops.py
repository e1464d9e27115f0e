"""Vector operators, gathers, collectives and the optimizer step: closed forms over all chips.

Axis letters: c = chip.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.collectives import collective_cost
from rephaze.estimate.context import EstimateContext
from rephaze.estimate.lane_costs import lane_ops
from rephaze.estimate.modes import ModeCost, mode_cost
from rephaze.estimate.paper_vector import paper_work_cycles
from rephaze.types.graph import CollectiveDims, Op, OpKind, VectorWork

Floats = NDArray[np.float64]

LANE_REGISTER_BYTES = 8.0
"""An element-operation reads one or two operands and writes one, 2 to 4 B each."""


def lane_cycles(works: tuple[VectorWork, ...], context: EstimateContext, all_cores: bool) -> Floats:
    """Cycles of the lanes for some vector work, one after the other."""
    lanes = context.num_lanes(all_cores)
    cycles = np.zeros(len(context))
    for work in works:
        if context.model.has_memory_terms:
            elements = work.num_elements.at(context.microbatch)
            cycles += lane_ops(work.function) * np.ceil(elements / lanes)
        else:
            cycles += paper_work_cycles(work, context.microbatch, lanes)
    return cycles


def lane_energy_j(works: tuple[VectorWork, ...], context: EstimateContext) -> Floats:
    """Energy of the lanes and their registers."""
    paper = not context.model.has_memory_terms
    operations = sum(
        lane_ops(work.function, paper=paper) * work.num_elements.at(context.microbatch) for work in works
    )
    per_operation = context.energy.lane_op_j_c + LANE_REGISTER_BYTES * context.energy.register_j_per_byte_c
    return operations * per_operation


def moved_energy_j(num_bytes: float | Floats, context: EstimateContext) -> Floats:
    """Energy of bytes that travel between HBM and vector lanes, through every level once."""
    energy = context.energy
    per_byte = (
        energy.hbm_j_per_byte_c
        + 2.0 * energy.global_buffer_j_per_byte_c
        + 2.0 * energy.vector_scratchpad_j_per_byte_c
    )
    return num_bytes * per_byte


def moved_bytes(op: Op, microbatch: int) -> float:
    """Bytes a vector operator or gather exchanges with HBM; a gather touches only the rows it takes."""
    inputs, outputs = op.input_bytes.at(microbatch), op.output_bytes.at(microbatch)
    if op.kind is OpKind.GATHER:
        inputs = min(inputs, outputs)
    return float(inputs + outputs)


def vector_mode(op: Op, context: EstimateContext, all_cores: bool) -> ModeCost:
    """Cost of a vector operator or gather: the slower of lanes, HBM and global buffer (eq. 9)."""
    works = op.vector
    if not works and op.kind is OpKind.GATHER:
        works = (VectorWork(function="gather", num_elements=op.num_elements),)
    num_bytes = moved_bytes(op, context.microbatch)
    energy_j = lane_energy_j(works, context) + moved_energy_j(num_bytes, context)
    lanes = lane_cycles(works, context, all_cores)
    if not context.model.has_memory_terms:
        return mode_cost(len(context), lanes=lanes, energy_j=energy_j)
    return mode_cost(
        len(context),
        lanes=lanes,
        hbm=num_bytes / context.hbm_bytes_per_cycle_c,
        buffer=num_bytes / context.chips.global_buffer_bytes_per_cycle,
        energy_j=energy_j,
    )


def collective_mode(dims: CollectiveDims, context: EstimateContext) -> ModeCost:
    """Cost of a collective: it holds the link, and no core."""
    payload = float(dims.payload_bytes.at(context.microbatch))
    found = collective_cost(dims.kind, payload, dims.num_members, context.cluster)
    energy = context.energy
    return mode_cost(
        len(context),
        link=found.time_s * context.chips.clock_hz,
        hbm=0.0
        if not context.model.has_memory_terms
        else np.minimum(
            2.0 * found.sent_bytes / context.hbm_bytes_per_cycle_c, found.time_s * context.chips.clock_hz
        ),
        energy_j=found.sent_bytes * (energy.link_j_per_byte_c + 2.0 * energy.hbm_j_per_byte_c),
    )


def optimizer_mode(num_parameters: int, context: EstimateContext) -> ModeCost:
    """Cost of one optimizer step over the parameters a chip holds: bound by HBM (eq. 12)."""
    model = context.model
    num_bytes = model.optimizer_bytes_per_parameter * num_parameters
    per_operation = context.energy.lane_op_j_c + LANE_REGISTER_BYTES * context.energy.register_j_per_byte_c
    return mode_cost(
        len(context),
        lanes=model.optimizer_lane_ops * np.ceil(num_parameters / context.num_lanes(True)),
        hbm=num_bytes / context.hbm_bytes_per_cycle_c,
        buffer=num_bytes / context.chips.global_buffer_bytes_per_cycle,
        energy_j=moved_energy_j(num_bytes, context)
        + model.optimizer_lane_ops * num_parameters * per_operation,
    )
