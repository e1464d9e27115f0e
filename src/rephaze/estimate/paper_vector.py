"""Cycles of vector operators by the paper's formulas: lane throughput, no memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.lane_costs import PAPER_LANE_OPS, lane_ops, paper_fused_ops
from rephaze.types.graph import VectorWork

Floats = NDArray[np.float64]

TWO_OPERAND = {
    "add": (1.0, 1.0, 1.0),
    "sub": (1.0, 1.0, 1.0),
    "mul": (1.0, 1.0, 1.0),
    "div": (10.0, 10.0, 11.0),
}
"""Weight forward, and backward for the larger and the smaller operand."""
SOFTMAX_EXPONENT = {"softmax": 10.0, "log_softmax": 13.0}
MEAN_DIVISION = 10.0


def paper_forward_cycles(
    function: str,
    output_shape: Sequence[int],
    operand_shapes: Sequence[Sequence[int]],
    num_lanes: float | Floats,
) -> Floats:
    """Forward cycles of one unfused operator on ``num_lanes`` lanes in all."""
    lanes = np.asarray(num_lanes, dtype=np.float64)
    elements = prod(output_shape)
    if function in TWO_OPERAND:
        largest = max((prod(shape) for shape in operand_shapes if shape), default=0)
        return np.ceil(largest / lanes) * TWO_OPERAND[function][0]
    if function in SOFTMAX_EXPONENT:
        return _softmax(elements, output_shape[-1], SOFTMAX_EXPONENT[function], lanes)
    if function == "mean":
        return _mean(elements, operand_shapes[0][-1], lanes)
    return np.ceil(elements / lanes) * lane_ops(function, paper=True)


def paper_backward_cycles(
    function: str,
    output_shape: Sequence[int],
    operand_shapes: Sequence[Sequence[int]],
    num_lanes: float | Floats,
) -> Floats:
    """Backward cycles of one unfused operator, named by its forward rule."""
    lanes = np.asarray(num_lanes, dtype=np.float64)
    elements = prod(output_shape)
    if function in TWO_OPERAND:
        sizes = sorted((prod(shape) for shape in operand_shapes if shape), reverse=True)
        weights = TWO_OPERAND[function][1:] if len(sizes) > 1 else TWO_OPERAND[function][:1]
        cycles = np.zeros_like(lanes)
        for size, weight in zip(sizes, weights, strict=False):
            cycles = cycles + weight * np.ceil(size / lanes)
        return cycles
    if function == "mean":
        return _mean(elements, operand_shapes[0][-1], lanes)
    return np.ceil(elements / lanes) * _backward_weight(function)


def paper_fused_cycles(
    absorbed: Sequence[str], output_shape: Sequence[int], num_lanes: float | Floats, *, backward: bool = False
) -> Floats:
    """Cycles of a vector operator that absorbed others: theirs only, over its output."""
    lanes = np.asarray(num_lanes, dtype=np.float64)
    weight = sum(_fused_weight(function, backward=backward) for function in absorbed)
    return np.ceil(prod(output_shape) / lanes) * weight


def paper_work_cycles(work: VectorWork, microbatch: int, num_lanes: Floats) -> Floats:
    """Cycles of one piece of vector work of a graph, where backward rules have names of their own."""
    elements = work.num_elements.at(microbatch)
    if work.function in SOFTMAX_EXPONENT:
        return _softmax(elements, work.row_length, SOFTMAX_EXPONENT[work.function], num_lanes)
    return np.asarray(np.ceil(elements / num_lanes) * lane_ops(work.function, paper=True))


def _softmax(elements: int, row: int, exponent: float, lanes: Floats) -> Floats:
    num_rows = -(-elements // row)
    return np.asarray(num_rows * np.ceil(row / lanes) + 10.0 + exponent * np.ceil(elements / lanes))


def _mean(outputs: int, row: int, lanes: Floats) -> Floats:
    # The paper counts reduced elements again by the row: kept, for its figures are compared with these.
    return np.asarray(np.ceil(outputs / row) * (np.ceil(row / lanes) + MEAN_DIVISION))


def _backward_weight(function: str) -> float:
    own = {"pow": 16.0, "sqrt": 16.0, "rsqrt": 16.0, "erf": 15.0, "sin": 2.0, "cos": 2.0, "nll_loss": 2.0}
    if function in own:
        return own[function]
    return PAPER_LANE_OPS.get(f"{function}_backward", 1.0)


def _fused_weight(function: str, *, backward: bool) -> float:
    if not backward:
        return paper_fused_ops(function)
    own = {"mean": 10.0, "sum": 0.0, "div": 10.0, "sigmoid": 2.0, "hardsigmoid": 2.0, "silu": 2.0}
    return own.get(function, _backward_weight(function))
