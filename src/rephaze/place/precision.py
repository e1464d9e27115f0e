"""Precision policies by name: bytes a parameter takes as weight, gradient and optimizer state.

``step_bytes`` is what the optimizer's step moves in HBM: the gradient once, every state and a weight that has
no master copy read and written, and a weight that has one written.
"""

from __future__ import annotations

from rephaze.types.checks import check_choice
from rephaze.types.placement import Optimizer, PrecisionPolicy

# (weight, gradient, state, step) bytes a parameter.
_BYTES: dict[str, dict[Optimizer, tuple[float, float, float, float]]] = {
    # 16-bit weights, 32-bit gradients; a 32-bit master copy and, for Adam, two 32-bit moments.
    "mixed": {Optimizer.SGD: (2, 4, 4, 14), Optimizer.ADAM: (2, 4, 12, 30)},
    "fp32": {Optimizer.SGD: (4, 4, 0, 12), Optimizer.ADAM: (4, 4, 8, 28)},
    "bf16": {Optimizer.SGD: (2, 2, 0, 6), Optimizer.ADAM: (2, 2, 4, 14)},
    # The paper's: gradients as large as weights, Adam one more copy.
    "paper": {Optimizer.SGD: (2, 2, 0, 6), Optimizer.ADAM: (2, 2, 2, 10)},
}


def named_precision(name: str, optimizer: Optimizer) -> PrecisionPolicy:
    """The policy of this name for this optimizer."""
    check_choice("precision", name, _BYTES)
    weight, gradient, state, step = _BYTES[name][optimizer]
    return PrecisionPolicy(
        name=name, weight_bytes=weight, gradient_bytes=gradient, state_bytes=state, step_bytes=step
    )
