"""A training step as operator graphs: operators, layers, the model.

Every size is affine in the microbatch (``Affine``), so one graph serves all microbatch sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import isqrt


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

    def times(self, factor: int) -> Affine:
        """This many times the number."""
        return Affine(self.const * factor, self.per_sample * factor)


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


class AttentionKind(StrEnum):
    """How a model computes attention."""

    FUSED = "fused"
    """As one operator that keeps the scores on the chip."""
    EAGER = "eager"
    """As GEMMs and a softmax, with the scores in memory."""


class Gradient(StrEnum):
    """Which gradient a backward operator computes."""

    NONE = "none"
    INPUT = "input"
    WEIGHT = "weight"


class CollectiveKind(StrEnum):
    """Communication among the chips of a group."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    SEND = "send"
    """Messages to the next chip of a ring while one comes from the previous."""


class CommGroup(StrEnum):
    """Whose chips a collective joins."""

    TP = "tp"
    CP = "cp"
    EP = "ep"
    ETP = "etp"
    """The chips that share each expert."""


class ContextForm(StrEnum):
    """How attention meets the keys of other chips when the sequence is divided (context parallelism)."""

    NONE = ""
    """The sequence is not divided."""
    RING = "ring"
    """Keys and values go round from neighbour to neighbour, beside the products with those at hand."""
    GATHER = "gather"
    """Keys and values of all tokens are gathered first."""
    ULYSSES = "ulysses"
    """Tokens are traded for heads: every chip has all tokens of some heads."""


class TensorRole(StrEnum):
    """What a tensor is to the pass of the layer it appears in."""

    PARAMETER = "parameter"
    INPUT = "input"
    """Comes from another layer or from the batch: activations going forward, gradients going backward."""
    CONSTANT = "constant"
    """Depends on neither batch nor parameters and was made elsewhere: each chip holds its own."""
    KEPT = "kept"
    """Made in the forward pass, read in the backward."""
    LOCAL = "local"
    OUTPUT = "output"
    """Made here, read by another layer in the same pass."""


class Split(StrEnum):
    """What tensor parallelism divides in an operator."""

    NONE = "none"
    BATCH = "batch"
    """The products of a batched GEMM: heads."""
    M = "m"
    N = "n"
    K = "k"
    """The reduction of a GEMM: each chip makes a partial sum."""
    HEADS = "heads"
    """The heads of fused attention."""
    ELEMENTS = "elements"
    """The elements of a vector or gather operator."""
    ROW = "row"
    """The axis a vector operator runs along, which then ends in a small collective."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tensor:
    """One tensor that an operator reads or makes."""

    name: str
    """Unique in its OpGraph."""
    num_elements: Affine
    """Elements at distinct addresses: an expanded tensor has those of what it expands."""
    element_bytes: int
    role: TensorRole = TensorRole.LOCAL
    storage: str = ""
    """The tensor whose memory this is a view of; empty for one with memory of its own."""
    num_split_units: int = 0
    """Indivisible parts (heads, columns, vocabulary rows) that tensor parallelism deals out; 0 if every chip
    has the whole tensor. Counts that do not divide are padded."""
    is_reduced: bool = False
    """Each chip makes a partial sum: at tp > 1 an all-reduce follows the operator that makes it."""
    has_tokens: bool = False
    """One of its axes is the sequence, so that sequence parallelism can divide it where tp does not."""

    @property
    def num_bytes(self) -> Affine:
        """Bytes that move when it is read or written once."""
        return self.num_elements.times(self.element_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class GemmDims:
    """``batch`` independent products of an m x k by a k x n matrix; the k x n one is the weight if any is."""

    batch: Affine
    m: Affine
    n: Affine
    k: Affine
    shared_rhs: bool
    """The k x n matrix is one for the whole batch (a weight); then batch is 1 and folded into m."""
    num_experts: int = 0
    """Of a mixture: the batch is the chip's experts, one dimension the tokens each gets on average; else 0."""


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
    window_len: int = 0
    """Under a causal mask, the last keys a query sees, its own included; 0: all before it."""
    num_ring_steps: int = 1
    """Steps of a ring that this operator does, each with the keys and values of one chip."""
    num_ring_members: int = 1
    """Steps of the whole ring, over which the work is spread evenly."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectiveDims:
    """One collective over a group of chips."""

    kind: CollectiveKind
    payload_bytes: Affine
    """The full tensor: what every chip holds after an all-reduce or all-gather, before a reduce-scatter or an
    all-to-all; of sends, one message."""
    num_members: int
    group: CommGroup = CommGroup.TP
    stride: int = 1
    """Distance of neighbouring members in the order of devices, where tensor parallelism is innermost."""
    num_messages: int = 1
    """Of sends, one after the other; else 1."""


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
    """Model FLOPs of GEMMs and attention (two a multiply-accumulate, the full square also under a causal mask);
    vector work is not counted. What a chip does of them is for the estimates to say."""
    num_elements: Affine = ZERO
    """Elements of the output."""
    input_bytes: Affine = ZERO
    """Distinct tensors read, weights included."""
    output_bytes: Affine = ZERO
    param_bytes: int = 0
    """The part of ``input_bytes`` that is weights."""
    inputs: tuple[int, ...] = ()
    """Positions in the graph's ``tensors``."""
    outputs: tuple[int, ...] = ()
    split: Split = Split.NONE
    num_split_units: int = 0
    """Indivisible parts of what ``split`` names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OpGraph:
    """The operators of one layer in one direction, in topological order."""

    ops: tuple[Op, ...]
    edges: tuple[tuple[int, int], ...]
    """Pairs (producer, consumer) of positions in ``ops``; producer < consumer."""
    tensors: tuple[Tensor, ...] = ()


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
    """Largest sum of transient tensors alive at once, in either pass, beyond what is saved and gradients of
    weights."""
    is_sharded: bool
    """Some operator or parameter of it is split over the tensor-parallel group."""
    saved_input_bytes: Affine = ZERO
    """The part of the layer's input that backward reads and no earlier layer keeps already."""
    parameters: tuple[Tensor, ...] = ()
    """What ``num_parameters`` counts."""
    saved: tuple[Tensor, ...] = ()
    """What ``saved_bytes`` counts, one tensor a storage."""
    saved_inputs: tuple[Tensor, ...] = ()
    """What ``saved_input_bytes`` counts."""
    inputs: tuple[Tensor, ...] = ()
    """What ``input_bytes`` counts."""
    expert_param_bytes: int = 0
    """The part of ``param_bytes`` held in the experts of a mixture."""


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
    """A model's training step, cut one way over the chips of a replica: layers in topological order."""

    name: str
    seq_len: int
    """Tokens of a sample, whatever cp."""
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
    is_training: bool = True
    """The backward pass is there."""
    sequence_parallel: bool = False
    """What tensor parallelism leaves whole is divided along the sequence."""
    is_fused: bool = False
    """Operators were merged as one kernel would run them."""
    made_by: tuple[tuple[str, str], ...] = ()
    """Versions and fingerprints of what the graph was extracted from, as pairs of name and value."""
    cp: int = 1
    """Chips over which the sequence is divided."""
    context_form: ContextForm = ContextForm.NONE
    ep: int = 1
    """Groups of chips over which a mixture's experts are dealt out."""
    etp: int = 1
    """Chips that share each expert; 1 without experts."""
    imbalance_factor: float = 1.0
    """Tokens of the busiest chip's experts over the average; 1 is forced balance."""

    @property
    def num_experts(self) -> int:
        """Routed experts of a layer of the whole model; 0 if there are none."""
        passes = (graph for layer in self.layer_types for graph in (layer.forward, layer.backward))
        products = (op.gemm for graph in passes for op in graph.ops if op.gemm is not None)
        return max((product.num_experts for product in products), default=0) * self.ep

    @property
    def legal_cp(self) -> tuple[int, ...]:
        """Degrees of context parallelism, ascending: those that divide the sequence."""
        return divisors(self.seq_len)

    @property
    def legal_ep(self) -> tuple[int, ...]:
        """Degrees of expert parallelism, ascending: those that divide the experts; 1 alone without experts."""
        return divisors(max(self.num_experts, 1))


def divisors(number: int) -> tuple[int, ...]:
    """All divisors of a positive number, ascending."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}))
