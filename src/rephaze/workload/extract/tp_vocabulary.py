"""Vocabulary parallelism: embedding tables sharded by row, and the loss over sharded logits.

A vocabulary seldom divides by the degree, so its shards are padded. A chip finds only the tokens of its own rows,
which makes a lookup a partial sum; a loss exchanges row sums instead of gathering the logits.
"""

from __future__ import annotations

from dataclasses import replace

from rephaze.workload.extract.tp_state import ShardingState
from rephaze.workload.extract.tp_views import PARTIAL, REPLICATE, Shard, ShardingConflictError
from rephaze.workload.extract.trace import TracedOp

MIN_VOCABULARY = 1024
"""A loss over fewer classes, or a table of fewer rows, is not worth sharding."""

LOSS_OPERATORS = frozenset({"_log_softmax", "_log_softmax_backward_data", "nll_loss_forward", "nll_loss_backward"})
"""They run along a row of logits and can do so sharded."""


def embedding(state: ShardingState, op: TracedOp) -> None:
    """A lookup of rows of a table."""
    table, index = op.tensor_at(0), op.tensor_at(1)
    is_vocabulary = state.trace.tensors[index].is_index and state.shape(table)[0] >= MIN_VOCABULARY
    shard = state.shard_of(table)
    if state.sharding_of(table) is REPLICATE and is_vocabulary and state.may_shard(table):
        shard = state.shard_parameter(table, 0, is_padded=True)
    out = op.outputs[0]
    if shard is not None and shard.dim == 0:
        state.vocabulary_indices.add(index)
        state.shardings[out] = PARTIAL
    elif shard is not None:
        state.shardings[out] = replace(shard, dim=state.rank(out) - 1)


def embedding_backward(state: ShardingState, op: TracedOp) -> None:
    """The gradient of a table: sharded as the table is."""
    grad, index = op.tensor_at(0), op.tensor_at(1)
    state.all_reduce(grad)
    shard = state.shard_of(grad)
    out = op.outputs[0]
    if shard is not None:
        if shard.dim != state.rank(grad) - 1:
            raise ShardingConflictError(shard.blame)
        state.shardings[out] = replace(shard, dim=1)
    elif index in state.vocabulary_indices:
        state.shardings[out] = Shard(dim=0, num_units=state.shape(out)[0], is_padded=True)


def loss(state: ShardingState, op: TracedOp) -> None:
    """A loss over the vocabulary: runs sharded, with small collectives for its row sums."""
    for tensor in op.inputs:
        state.all_reduce(tensor)
    shards = [(t, s) for t in op.inputs if (s := state.shard_of(t)) is not None]
    if not shards:
        return
    tensor, shard = shards[0]
    if shard.dim != state.rank(tensor) - 1 or shard.num_units < MIN_VOCABULARY:
        raise state.conflict(*op.inputs)
    if not shard.is_padded:
        state.pad(shard)
    if op.name != "nll_loss_forward":
        state.shardings[op.outputs[0]] = shard
