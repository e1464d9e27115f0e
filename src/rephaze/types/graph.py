"""A training step as operator graphs: operators, layers, the model.

Every size is affine in the microbatch (``Affine``), so one graph serves all microbatch sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Affine:
    """A whole number that depends on the microbatch size b as ``const + per_sample * b``."""

    const: int = 0
    per_sample: int = 0

    def at(self, microbatch: int) -> int:
        """The value for a microbatch of this many samples."""
        return self.const + self.per_sample * microbatch

    def __add__(self, other: Affine) -> Affine:
        return Affine(self.const + other.const, self.per_sample + other.per_sample)


ZERO = Affine()


class OpKind(StrEnum):
    """What an operator is to the chip."""

    GEMM = "gemm"
    ATTENTION = "attention"
    """Fused attention: both GEMMs and the softmax, with only Q, K, V and the output touching HBM."""
    VECTOR = "vector"
    GATHER = "gather"
    VIEW = "view"
    """Free: no work, no bytes."""
    COLLECTIVE = "collective"


class Gradient(StrEnum):
    """Which gradient a backward operator computes."""

    NONE = "none"
    INPUT = "input"
    WEIGHT = "weight"


class CollectiveKind(StrEnum):
    """Communication among the chips of a tensor- (or expert-) parallel group."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"


@dataclass(frozen=True, kw_only=True, slots=True)
class GemmDims:
    """``batch`` independent products of an m x k by a k x n matrix; the k x n one is the weight if any is."""

    batch: Affine
    m: Affine
    n: Affine
    k: Affine
    shared_rhs: bool
    """The k x n matrix is one for the whole batch (a weight); then batch is 1 and folded into m."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionDims:
    """Fused attention over ``batch`` x ``num_heads`` queries."""

    batch: Affine
    num_heads: int
    num_kv_heads: int
    query_len: int
    key_len: int
    head_dim: int
    value_dim: int
    causal: bool
    backward: bool
    """The backward pass: five products instead of two (scores are computed again)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectiveDims:
    """One collective; the group is the tensor-parallel one."""

    kind: CollectiveKind
    payload_bytes: Affine
    """The full tensor: what every chip holds after an all-reduce or all-gather, before a reduce-scatter."""
    num_members: int


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorWork:
    """Element-by-element work: a vector operator's own, or what a fused GEMM absorbed."""

    function: str
    """Name of the cost rule: add, mul, gelu, softmax, layer_norm, dropout, cast, ..."""
    num_elements: Affine
    row_length: int = 1
    """Length of the axis a softmax, norm or reduction runs along."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Op:
    """One operator of a layer, forward or backward, with its local (sharded) sizes."""

    name: str
    """Unique in its OpGraph."""
    target: str
    """What was recorded, for example ``aten.mm``; fused operators join theirs with ``+``."""
    kind: OpKind
    module: str
    """Path of the module inside its layer, for example ``self_attn.q_proj``."""
    gradient: Gradient = Gradient.NONE
    gemm: GemmDims | None = None
    attention: AttentionDims | None = None
    collective: CollectiveDims | None = None
    vector: tuple[VectorWork, ...] = ()
    num_flops: Affine = ZERO
    """Of GEMMs and attention (two a multiply-accumulate); vector work is not counted."""
    num_elements: Affine = ZERO
    """Elements of the output."""
    input_bytes: Affine = ZERO
    """Distinct tensors read, weights included."""
    output_bytes: Affine = ZERO
    param_bytes: int = 0
    """The part of ``input_bytes`` that is weights."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OpGraph:
    """The operators of one layer in one direction, in topological order."""

    ops: tuple[Op, ...]
    edges: tuple[tuple[int, int], ...]
    """Pairs (producer, consumer) of positions in ``ops``; producer < consumer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerType:
    """A layer as often as it repeats: its two operator graphs and what it keeps in memory, per chip."""

    name: str
    forward: OpGraph
    backward: OpGraph
    num_parameters: int
    """Elements held by one chip of the tensor-parallel group (all of them at tp = 1)."""
    param_bytes: int
    saved_bytes: Affine
    """Kept from forward to backward, each storage once, without parameters and the layer's input."""
    input_bytes: Affine
    """The layer's input activations: what block recompute keeps."""
    working_bytes: Affine
    """Largest sum of transient tensors alive at once, in either pass, beyond what is saved."""
    is_sharded: bool
    """Some operator of it is split over the tensor-parallel group."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerEdge:
    """Activations that pass from one layer to a later one."""

    src: int
    dst: int
    payload_bytes: Affine


@dataclass(frozen=True, kw_only=True, slots=True)
class TiedParameter:
    """One parameter used by several layers: counted in the first, its gradients are summed over all."""

    name: str
    layers: tuple[int, ...]
    param_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelGraph:
    """A model's training step at one tensor-parallel degree: layers in topological order."""

    name: str
    seq_len: int
    dtype: str
    attention: str
    tp: int
    legal_tp: tuple[int, ...]
    """Degrees that divide every sharded dimension, ascending, 1 included."""
    layer_types: tuple[LayerType, ...]
    layer_names: tuple[str, ...]
    layer_type_of: tuple[int, ...]
    """For each layer, the position of its type in ``layer_types``."""
    edges: tuple[LayerEdge, ...]
    tied: tuple[TiedParameter, ...]
    num_parameters: int
    """Of the whole model, tied ones once, whatever tp."""
