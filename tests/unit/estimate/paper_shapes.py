"""The paper's vector formulas on the shapes its program has: to set its numbers beside ours.

Tables of a graph use ``vector_paper``, which takes recorded vector work; here an operator is given by its output
and its operands, forward and backward by one name. Both read the same weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from rephaze.estimate.vector_weights import paper_lane_cycles

Shape = Sequence[int]

_BINARY = ("add", "sub", "mul", "div")
_SOFTMAX_START = 10.0


def paper_forward_cycles(function: str, output: Shape, operands: Sequence[Shape], num_lanes: int) -> float:
    """Forward cycles of one operator on ``num_lanes`` lanes in all."""
    weight = paper_lane_cycles(function)
    if function in _BINARY:
        return weight * ceil(max(_sizes(operands), default=0) / num_lanes)
    if function in ("softmax", "log_softmax"):
        row = output[-1]
        rows = ceil(prod(output) / row)
        return rows * ceil(row / num_lanes) + _SOFTMAX_START + weight * ceil(prod(output) / num_lanes)
    if function == "mean":
        return _mean(output, operands, num_lanes)
    return weight * ceil(prod(output) / num_lanes)


def paper_backward_cycles(function: str, output: Shape, operands: Sequence[Shape], num_lanes: int) -> float:
    """Backward cycles of one operator, named by its forward rule."""
    weight = paper_lane_cycles(f"{function}_backward")
    if function in _BINARY:
        sizes = sorted(_sizes(operands), reverse=True)
        # The gradient of a divisor takes one cycle more than that of what is divided.
        weights = (weight, weight + 1 if function == "div" else weight)
        return sum(each * ceil(size / num_lanes) for each, size in zip(weights, sizes, strict=False))
    if function == "mean":
        return _mean(output, operands, num_lanes)
    return weight * ceil(prod(output) / num_lanes)


def paper_fused_cycles(absorbed: Sequence[str], output: Shape, num_lanes: int, *, backward: bool = False) -> float:
    """Cycles of a vector operator that absorbed others: theirs over its output, its own are not charged."""
    suffix = "_backward" if backward else ""
    return ceil(prod(output) / num_lanes) * sum(paper_lane_cycles(name + suffix) for name in absorbed)


def _sizes(operands: Sequence[Shape]) -> list[int]:
    return [prod(shape) for shape in operands if len(shape)]


def _mean(output: Shape, operands: Sequence[Shape], num_lanes: int) -> float:
    # The paper divides the outputs by the row once more, ~row times too few: kept here, and only here.
    row = operands[0][-1]
    return ceil(prod(output) / row) * (ceil(row / num_lanes) + paper_lane_cycles("mean"))
