"""What each ATen operator is to the chip: its kind, and for vector work the cost rule's name.

The vocabulary of cost rules is in ``VECTOR_FUNCTIONS``; docs/workloads.md tells what each one means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rephaze.errors import UnsupportedError
from rephaze.types.graph import OpKind

GEMM = frozenset(
    ["mm", "addmm", "bmm", "baddbmm", "_grouped_mm", "convolution", "convolution_backward"]
)  # fmt: skip
VIEW = frozenset(
    [
        "view",
        "_unsafe_view",
        "_reshape_alias",
        "t",
        "transpose",
        "permute",
        "expand",
        "unsqueeze",
        "squeeze",
        "slice",
        "select",
        "split",
        "split_with_sizes",
        "unbind",
        "as_strided",
        "as_strided_",
        "unfold",
        "diagonal",
        "view_as_real",
        "view_as_complex",
        "narrow",
        "movedim",
        "real",
        "imag",
        "empty",
        "empty_like",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "_conj",
        "alias",
        "resize_",
        "lift",
    ]
)
GATHER = frozenset(
    [
        "embedding",
        "embedding_dense_backward",
        "index",
        "index_select",
        "index_put",
        "index_put_",
        "_unsafe_index_put",
        "gather",
        "scatter",
        "scatter_",
        "scatter_add",
        "scatter_add_",
        "scatter_reduce",
        "index_add",
        "index_add_",
        "index_copy",
        "index_fill",
        "gather_backward",
        "index_select_backward",
        "masked_scatter",
        "masked_scatter_",
        "masked_scatter_backward",
        "masked_select",
        "grid_sampler_2d",
        "grid_sampler_2d_backward",
        "take",
        "put",
        "nonzero",
        "repeat_interleave",
        "_unique2",
    ]
)

_UPSAMPLED = ("bilinear2d", "bicubic2d", "nearest2d", "nearest1d", "linear1d", "trilinear3d")

# ATen name to cost rule. In-place operators (with a trailing underscore) share the rule of the plain one.
_FUNCTION_OF = {
    **dict.fromkeys(
        [
            "add",
            "sub",
            "mul",
            "div",
            "neg",
            "abs",
            "pow",
            "sqrt",
            "rsqrt",
            "exp",
            "log",
            "erf",
            "tanh",
            "sigmoid",
            "relu",
            "gelu",
            "silu",
        ],
        "",
    ),
    **dict.fromkeys(
        [
            "softplus",
            "cos",
            "sin",
            "mean",
            "sum",
            "cumsum",
            "amax",
            "where",
            "sort",
            "topk",
            "reciprocal",
            "sign",
            "clamp",
        ],
        "",
    ),
    **dict.fromkeys(
        [
            "leaky_relu",
            "elu",
            "hardtanh",
            "hardswish",
            "hardsigmoid",
            "mish",
            "celu",
            "floor",
            "ceil",
            "round",
        ],
        "",
    ),
    **dict.fromkeys(
        ["tanh_backward", "sigmoid_backward", "gelu_backward", "silu_backward", "softplus_backward"], ""
    ),
    **dict.fromkeys(["elu_backward", "hardtanh_backward", "hardswish_backward", "leaky_relu_backward"], ""),
    **dict.fromkeys(["hardsigmoid_backward", "mish_backward", "maximum", "minimum", "masked_fill", "var"], ""),
    **dict.fromkeys(
        [
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "logical_and",
            "logical_or",
            "logical_not",
            "bitwise_and",
            "bitwise_or",
        ],
        "compare",
    ),
    **dict.fromkeys(["bitwise_not", "isin", "isinf", "isnan", "any", "all"], "compare"),
    **dict.fromkeys(["_is_all_true", "_is_any_true", "logical_xor", "bitwise_xor", "isfinite"], "compare"),
    **dict.fromkeys(["searchsorted", "bucketize", "heaviside"], "compare"),
    **dict.fromkeys(
        [
            "zeros",
            "ones",
            "full",
            "zeros_like",
            "ones_like",
            "full_like",
            "new_zeros",
            "new_ones",
            "new_full",
        ],
        "fill",
    ),
    **dict.fromkeys(["arange", "linspace", "scalar_tensor", "fill", "zero", "eye"], "fill"),
    **dict.fromkeys(
        [
            "clone",
            "copy",
            "cat",
            "stack",
            "constant_pad_nd",
            "slice_backward",
            "select_backward",
            "flip",
            "roll",
        ],
        "copy",
    ),
    **dict.fromkeys(
        ["repeat", "tril", "triu", "lift_fresh_copy", "slice_scatter", "select_scatter", "unfold_backward"],
        "copy",
    ),
    **dict.fromkeys(
        ["rand", "rand_like", "randn", "randn_like", "uniform", "bernoulli", "normal", "randint"], "random"
    ),
    **dict.fromkeys(["threshold_backward"], "relu_backward"),
    **dict.fromkeys(["max", "min", "amin", "argmax", "argmin"], "max"),
    **dict.fromkeys(["square"], "mul"),
    **dict.fromkeys(["rsub", "addcmul", "lerp"], "add"),
    **dict.fromkeys(["floor_divide", "remainder", "fmod", "addcdiv"], "div"),
    **dict.fromkeys(["log2", "log10", "log1p", "logsumexp"], "log"),
    **dict.fromkeys(["exp2", "expm1", "erfc"], "exp"),
    **dict.fromkeys(["clamp_min", "clamp_max"], "clamp"),
    **dict.fromkeys(["var_mean", "std"], "var"),
    **dict.fromkeys(["prod", "histc", "bincount", "cumprod", "norm", "linalg_vector_norm"], "sum"),
    **dict.fromkeys(["tan", "atan", "atan2", "sinh", "cosh"], "sin"),
    **dict.fromkeys(["polar", "asin", "acos", "view_as_complex_copy"], "cos"),
    **dict.fromkeys(["trunc", "frac"], "floor"),
    **dict.fromkeys(["logaddexp", "logit", "log_sigmoid_forward", "xlogy", "logcumsumexp"], "log"),
    **dict.fromkeys(["log_sigmoid_backward"], "sigmoid_backward"),
    **dict.fromkeys(["cummax", "cummin", "median", "kthvalue"], "max"),
    **dict.fromkeys(["sgn"], "sign"),
    **dict.fromkeys(
        ["diag_embed", "diagonal_backward", "diagonal_copy", "pixel_shuffle", "pixel_unshuffle"], "copy"
    ),
    **dict.fromkeys(["diagonal_scatter", "as_strided_scatter", "complex", "reflection_pad1d"], "copy"),
    **dict.fromkeys(["reflection_pad1d_backward", "reflection_pad2d", "reflection_pad2d_backward"], "copy"),
    **dict.fromkeys(
        ["replication_pad1d", "replication_pad1d_backward", "conj_physical", "im2col", "col2im"], "copy"
    ),
    **dict.fromkeys(["replication_pad2d", "replication_pad2d_backward", "_conj_physical"], "copy"),
    **dict.fromkeys(["exponential", "randperm", "log_normal", "geometric"], "random"),
    **dict.fromkeys(["huber_loss", "l1_loss", "soft_margin_loss"], "mse_loss"),
    **dict.fromkeys(["huber_loss_backward", "soft_margin_loss_backward"], "mse_loss_backward"),
    **dict.fromkeys(["binary_cross_entropy"], "log_softmax"),
    **dict.fromkeys(["binary_cross_entropy_backward"], "log_softmax_backward"),
    **dict.fromkeys(["argsort", "msort"], "sort"),
    **dict.fromkeys(["scan", "scan_backward"], "cumsum"),
    "_softmax": "softmax",
    "_safe_softmax": "softmax",
    "_softmax_backward_data": "softmax_backward",
    "_log_softmax": "log_softmax",
    "_log_softmax_backward_data": "log_softmax_backward",
    "nll_loss_forward": "nll_loss",
    "nll_loss2d_forward": "nll_loss",
    "nll_loss_backward": "nll_loss_backward",
    "nll_loss2d_backward": "nll_loss_backward",
    "mse_loss": "mse_loss",
    "mse_loss_backward": "mse_loss_backward",
    "smooth_l1_loss": "mse_loss",
    "smooth_l1_loss_backward": "mse_loss_backward",
    "binary_cross_entropy_with_logits": "log_softmax",
    "native_layer_norm": "layer_norm",
    "native_layer_norm_backward": "layer_norm_backward",
    "native_group_norm": "layer_norm",
    "native_group_norm_backward": "layer_norm_backward",
    "native_batch_norm": "batch_norm",
    "cudnn_batch_norm": "batch_norm",
    "_native_batch_norm_legit": "batch_norm",
    "_native_batch_norm_legit_functional": "batch_norm",
    "native_batch_norm_backward": "batch_norm_backward",
    "_fused_rms_norm": "rms_norm",
    "_fused_rms_norm_backward": "rms_norm_backward",
    "native_dropout": "dropout",
    "native_dropout_backward": "dropout_backward",
    "glu": "sigmoid",
    "glu_backward": "sigmoid_backward",
    "max_pool2d_with_indices": "pool",
    "max_pool2d_with_indices_backward": "pool_backward",
    "avg_pool2d": "pool",
    "avg_pool2d_backward": "pool_backward",
    "_adaptive_avg_pool2d": "pool",
    "_adaptive_avg_pool2d_backward": "pool_backward",
    **dict.fromkeys(["avg_pool1d", "avg_pool3d", "adaptive_max_pool2d", "upsample_linear1d"], "pool"),
    **dict.fromkeys(["upsample_nearest1d", "upsample_trilinear3d", "_upsample_bilinear2d_aa"], "pool"),
    **dict.fromkeys(["_upsample_bicubic2d_aa", "_adaptive_avg_pool3d", "max_pool3d_with_indices"], "pool"),
    **dict.fromkeys([f"upsample_{kind}_backward" for kind in _UPSAMPLED], "pool_backward"),
    **dict.fromkeys(["_upsample_bilinear2d_aa_backward", "_upsample_bicubic2d_aa_backward"], "pool_backward"),
    **dict.fromkeys(["avg_pool3d_backward", "_adaptive_avg_pool3d_backward"], "pool_backward"),
    "upsample_bilinear2d": "pool",
    "upsample_bicubic2d": "pool",
    "upsample_nearest2d": "pool",
}

REDUCTIONS = frozenset({"sum", "mean", "max", "var", "amax", "cumsum"})
"""Cost rules whose elements are those of the input, not of the output."""

VECTOR_FUNCTIONS = frozenset(
    {rule or name for name, rule in _FUNCTION_OF.items()} | {"cast", "copy", "gather", "bias"}
)


def kind_of(target: str) -> OpKind | None:
    """What an operator such as ``aten.mm`` is, or None if it is not in the map."""
    namespace, _, name = target.partition(".")
    if namespace == "rephaze":
        return OpKind.VECTOR if name in _FUNCTION_OF else OpKind.ATTENTION
    if name in GEMM:
        return OpKind.GEMM
    if name in VIEW:
        return OpKind.VIEW
    if name in GATHER:
        return OpKind.GATHER
    if name == "_to_copy" or name.removesuffix("_") in _FUNCTION_OF or name in _FUNCTION_OF:
        return OpKind.VECTOR
    return None


def vector_function(target: str, is_cast: bool = False) -> str:
    """The cost rule of a vector operator."""
    name = target.partition(".")[2]
    if name in ("_to_copy", "copy_"):
        return "cast" if is_cast else "copy"
    plain = name if name in _FUNCTION_OF else name.removesuffix("_")
    return _FUNCTION_OF[plain] or plain


def refuse_unknown(targets: Iterable[str]) -> None:
    """Raise one error that lists every operator outside the map, most frequent first, with counts."""
    unknown = Counter(target for target in targets if kind_of(target) is None)
    if unknown:
        listed = ", ".join(f"{name} ({count}x)" for name, count in unknown.most_common())
        raise UnsupportedError(f"operators that are not in the map: {listed}")
