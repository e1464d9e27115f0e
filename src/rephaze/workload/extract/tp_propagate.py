"""Tensor parallelism for any traced model: shardings propagated over the step, conflicts resolved by restarting.

Operators are visited in order, forward then backward, and each has a rule that takes the shardings of its operands
to those of its results. Where a sharding cannot be carried on (a norm over a sharded axis, a residual sum), the
weights to blame are replicated and the visit starts again.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from rephaze.types.graph import OpKind, Split
from rephaze.workload.extract import tp_matmul, tp_vector, tp_vocabulary
from rephaze.workload.extract.affine import AffineTrace
from rephaze.workload.extract.aten import kind_of
from rephaze.workload.extract.tp_layout import Layout
from rephaze.workload.extract.tp_state import Restart, ShardingState
from rephaze.workload.extract.tp_views import PARTIAL, Shard, ShardingConflictError
from rephaze.workload.extract.trace import TracedOp

Rule = Callable[[ShardingState, TracedOp], None]
"""Sets the shardings of an operator's results from those of its operands, or raises a conflict."""

_RULE_OF_NAME: dict[str, Rule] = {
    "convolution": tp_matmul.require_replicated,
    "convolution_backward": tp_matmul.require_replicated,
    "linalg_solve_triangular": tp_matmul.require_replicated,
    "embedding": tp_vocabulary.embedding,
    "embedding_dense_backward": tp_vocabulary.embedding_backward,
    **dict.fromkeys(tp_vocabulary.LOSS_OPERATORS, tp_vocabulary.loss),
    **dict.fromkeys(("cat", "stack"), tp_vector.join),
    **dict.fromkeys(("slice_backward", "select_backward", "constant_pad_nd"), tp_vector.put_back),
}
_RULE_OF_KIND: dict[OpKind, Rule] = {
    OpKind.VIEW: tp_vector.view,
    OpKind.ATTENTION: tp_matmul.attention,
    OpKind.GEMM: tp_matmul.product,
    OpKind.GATHER: tp_vector.gather,
}


def lay_out(trace: AffineTrace) -> Layout:
    """The degree-independent layout of a traced step under tensor parallelism."""
    replicated: set[str] = set()
    sharded: dict[str, Shard] = {}
    while True:
        try:
            return _propagate(ShardingState(trace, frozenset(replicated), sharded))
        except ShardingConflictError as conflict:
            blamed = set(conflict.blame) - replicated
            # Nothing left to blame means a sharding that no weight caused: replicate every weight.
            replicated |= blamed or {t.parameter for t in trace.tensors if t.parameter}
        except Restart as restart:
            if restart.parameter in sharded:  # two uses want it sharded differently
                replicated.add(restart.parameter)
            else:
                sharded = {**sharded, restart.parameter: restart.shard}
        sharded = {name: shard for name, shard in sharded.items() if name not in replicated}


def _propagate(state: ShardingState) -> Layout:
    """The layout, or a conflict."""
    for number, op in enumerate(state.trace.ops):
        state.now = number
        _rule_of(op)(state, op)
        _note_elements(state, op)
    for tensor, sharding in list(state.shardings.items()):
        # Gradients of replicated weights inside a sharded region end as partial sums.
        if sharding is PARTIAL and not state.readers[tensor] and tensor in state.maker:
            state.all_reduce(tensor)
    divisor = 0
    for tensor, sharding in state.shardings.items():
        if isinstance(sharding, Shard):
            state.layout.units[tensor] = sharding.num_units
            if not sharding.is_padded:
                divisor = gcd(divisor, sharding.num_units)
    state.layout.divisor = divisor
    return state.layout


def _rule_of(op: TracedOp) -> Rule:
    by_name = _RULE_OF_NAME.get(op.name)
    if by_name is not None:
        return by_name
    kind = kind_of(op.target)
    if kind in _RULE_OF_KIND:
        return _RULE_OF_KIND[kind]
    if "norm" in op.name:
        return tp_vector.norm
    if op.name in tp_vector.REDUCTIONS and len(op.args) > 1:
        return tp_vector.reduction
    return tp_vector.elementwise


def _note_elements(state: ShardingState, op: TracedOp) -> None:
    """Note that vector work on sharded tensors is split, unless its rule said how already."""
    if kind_of(op.target) not in (OpKind.VECTOR, OpKind.GATHER) or state.now in state.layout.splits:
        return
    shards = [shard for t in (*op.outputs, *op.inputs) if (shard := state.shard_of(t)) is not None]
    is_lookup = op.name in ("embedding", "embedding_dense_backward")
    # Every chip looks up all tokens in its own rows of a sharded vocabulary: that work is not split.
    if not shards or (is_lookup and shards[0].is_padded):
        return
    state.split(Split.ROW if op.name in tp_vocabulary.LOSS_OPERATORS else Split.ELEMENTS, shards[0].num_units)
