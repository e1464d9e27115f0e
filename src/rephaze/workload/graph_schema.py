"""The shape of a graph file, for checking: plain dictionaries, since a model has thousands of operators."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from typing_extensions import TypedDict  # pydantic refuses the one of ``typing`` before Python 3.12

from rephaze.errors import SpecError
from rephaze.types.quantities import MAX_LAYERS, MAX_LINKS, MAX_OPS, Name

# Strict one by one: a file writes tuples as lists, which strict mode as a whole would refuse.
Count = Annotated[int, Field(strict=True, ge=0, lt=2**62)]
Positive = Annotated[int, Field(strict=True, ge=1, lt=2**62)]
Whole = Annotated[int, Field(strict=True, gt=-(2**62), lt=2**62)]
YesNo = Annotated[bool, Field(strict=True)]


def _never_negative(size: tuple[int, int]) -> tuple[int, int]:
    if size[1] < 0 or sum(size) < 0:
        raise SpecError("", list(size), "must be zero or more at every microbatch size")
    return size


Size = Count | Annotated[tuple[Whole, Whole], AfterValidator(_never_negative)]
"""A whole number, or ``[const, per_sample]``."""


class _Strict(TypedDict):
    __pydantic_config__ = ConfigDict(extra="forbid", strict=False)  # type: ignore[misc]


class TensorEntry(_Strict):
    """One tensor."""

    name: Name
    num_elements: Size
    element_bytes: Annotated[int, Field(strict=True, ge=1, le=64)]
    role: NotRequired[Literal["parameter", "input", "constant", "kept", "local", "output"]]
    storage: NotRequired[str]
    num_split_units: NotRequired[Count]
    is_reduced: NotRequired[YesNo]
    has_tokens: NotRequired[YesNo]


class GemmEntry(_Strict):
    """Dimensions of a product."""

    batch: Size
    m: Size
    n: Size
    k: Size
    shared_rhs: YesNo
    num_experts: NotRequired[Count]


class AttentionEntry(_Strict):
    """Dimensions of fused attention."""

    batch: Size
    num_heads: Positive
    num_kv_heads: Positive
    query_len: Positive
    key_len: Positive
    head_dim: Positive
    value_dim: Positive
    causal: YesNo
    backward: YesNo
    window_len: NotRequired[Count]


class OpEntry(_Strict):
    """One operator."""

    name: Name
    target: str
    kind: Literal["gemm", "attention", "vector", "gather", "view"]
    module: str
    inputs: list[Name]
    outputs: list[Name]
    gradient: NotRequired[Literal["none", "input", "weight"]]
    gemm: NotRequired[GemmEntry]
    attention: NotRequired[AttentionEntry]
    vector: NotRequired[list[tuple[Name, Size, Positive]]]
    num_flops: NotRequired[Size]
    split: NotRequired[Literal["none", "batch", "m", "n", "k", "heads", "elements", "row"]]
    num_split_units: NotRequired[Count]


class PassEntry(_Strict):
    """One direction of a layer."""

    tensors: list[TensorEntry]
    ops: Annotated[list[OpEntry], Field(max_length=MAX_OPS)]


class LayerEntry(_Strict):
    """One layer type."""

    name: Name
    forward: PassEntry
    backward: PassEntry
    parameters: list[TensorEntry]
    saved: list[TensorEntry]
    saved_inputs: list[TensorEntry]
    inputs: list[TensorEntry]


class TiedEntry(_Strict):
    """One tied parameter."""

    name: Name
    layers: list[Count]
    param_bytes: Count


class GraphFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid")

    format: str
    name: Name
    seq_len: Positive
    dtype: Literal["bfloat16", "float16", "float32"]
    attention: Literal["fused", "eager"]
    is_training: YesNo
    num_parameters: Count
    legal_tp: list[Positive]
    made_by: dict[str, str]
    layer_types: Annotated[list[LayerEntry], Field(min_length=1)]
    layers: Annotated[list[tuple[Name, Name]], Field(min_length=1, max_length=MAX_LAYERS)]
    edges: Annotated[list[tuple[Count, Count, Size]], Field(max_length=MAX_LINKS)]
    tied: list[TiedEntry]
