"""Lane operations per element of every vector cost rule, under both models.

``default``: a lane does one simple operation a cycle and a special function (exponential, logarithm, root,
reciprocal, sine) in ``SPECIAL`` cycles; the figures count the operations of the usual formula. ``paper``: the
published weights, with softmax, means and two-operand rules in ``paper_vector``.
"""

from __future__ import annotations

from rephaze.errors import UnsupportedError

SPECIAL = 4.0
"""Special functions run at a quarter of the rate of additions: an assumption, see docs/how-it-works.md."""

_SIMPLE = (
    "add sub mul neg abs relu relu_backward where sign clamp floor ceil round maximum minimum masked_fill compare "
    "fill copy cast bias gather max amax sum mean cumsum leaky_relu leaky_relu_backward hardtanh "
    "hardtanh_backward dropout_backward mse_loss nll_loss nll_loss_backward pool pool_backward"
).split()

DEFAULT_LANE_OPS: dict[str, float] = {
    **dict.fromkeys(_SIMPLE, 1.0),
    **dict.fromkeys("div reciprocal sqrt rsqrt exp log cos sin".split(), SPECIAL),
    "pow": 2 * SPECIAL + 1,  # exp(y log x)
    "erf": SPECIAL + 8,  # polynomial times an exponential
    "tanh": 2 * SPECIAL + 3,  # exponential and reciprocal
    "tanh_backward": 3.0,
    "sigmoid": 2 * SPECIAL + 2,
    "sigmoid_backward": 3.0,
    "silu": 2 * SPECIAL + 3,
    "silu_backward": 2 * SPECIAL + 7,
    "gelu": 2 * SPECIAL + 8,  # a cubic, tanh and two products
    "gelu_backward": 2 * SPECIAL + 14,
    "softplus": 2 * SPECIAL + 2,
    "softplus_backward": 2 * SPECIAL + 2,
    "elu": SPECIAL + 3,
    "elu_backward": 3.0,
    "celu": SPECIAL + 4,
    "mish": 4 * SPECIAL + 4,
    "mish_backward": 4 * SPECIAL + 10,
    "hardswish": 4.0,
    "hardswish_backward": 4.0,
    "hardsigmoid": 3.0,
    "hardsigmoid_backward": 2.0,
    "softmax": SPECIAL + 4,  # running maximum, difference, exponential, sum, scale
    "softmax_backward": 4.0,
    "log_softmax": SPECIAL + 4,
    "log_softmax_backward": SPECIAL + 3,
    "layer_norm": 8.0,  # mean, difference, square, sum, scale, gain, shift
    "layer_norm_backward": 14.0,
    "batch_norm": 8.0,
    "batch_norm_backward": 14.0,
    "rms_norm": 4.0,
    "rms_norm_backward": 10.0,
    "var": 3.0,
    "mse_loss_backward": 2.0,
    "dropout": 3.0,  # random bits, compare, scale
    "random": 2.0,
    "sort": 20.0,
    "topk": 8.0,
}

# Forward and backward weights as published; GELU counts as ReLU there.
PAPER_LANE_OPS: dict[str, float] = {
    **dict.fromkeys(DEFAULT_LANE_OPS, 1.0),
    "dropout": 2.0,
    **dict.fromkeys(("tanh", "hardtanh"), 27.0),
    **dict.fromkeys(("tanh_backward", "hardtanh_backward"), 2.0),
    **dict.fromkeys(("sin", "cos"), 13.0),
    **dict.fromkeys(("sigmoid", "hardsigmoid", "silu"), 12.0),
    **dict.fromkeys(("sigmoid_backward", "hardsigmoid_backward"), 22.0),
    "silu_backward": 2.0,
    "hardswish": 14.0,
    "hardswish_backward": 15.0,
    **dict.fromkeys(("pow", "sqrt", "rsqrt", "erf"), 15.0),
    **dict.fromkeys(("nll_loss", "nll_loss_backward"), 2.0),
    **dict.fromkeys(("div", "reciprocal"), 10.0),
    # The paper has no rule of its own for these: an exponential or logarithm as in its softmax.
    **dict.fromkeys(("exp", "softmax"), 10.0),
    **dict.fromkeys(("log", "log_softmax"), 13.0),
    **dict.fromkeys(("softmax_backward", "log_softmax_backward"), 2.0),
}

# Added once to a GEMM that absorbed the operator; only where it differs from the weight above.
PAPER_FUSED_OPS: dict[str, float] = {
    "mean": 10.0,
    "sum": 0.0,
    **dict.fromkeys(("sigmoid_backward", "hardsigmoid_backward"), 2.0),
}


def lane_ops(function: str, *, paper: bool = False) -> float:
    """Lane operations one element of this rule takes."""
    table = PAPER_LANE_OPS if paper else DEFAULT_LANE_OPS
    if function not in table:
        raise UnsupportedError(
            f"vector rule {function!r} has no lane cost; known are {', '.join(sorted(table))}"
        )
    return table[function]


def paper_fused_ops(function: str) -> float:
    """What the paper charges, once, for an operator absorbed into a GEMM."""
    return PAPER_FUSED_OPS.get(function, lane_ops(function, paper=True))
