"""Operators as rows of numbers, to be costed on many chips by one compiled call.

Axis letters: n = operator of a block, w = piece of element work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rephaze.estimate.arrays import Floats, Ints, Rows
from rephaze.estimate.attention import lane_ops_a_score, num_scores, query_blocks
from rephaze.estimate.collectives import group_collective_s
from rephaze.estimate.costs import ELEMENT_BYTES
from rephaze.estimate.op_at import OpAt
from rephaze.estimate.vector import element_work
from rephaze.types.cluster import Cluster
from rephaze.types.graph import Op, OpKind

NOTHING, PRODUCT, ATTENTION, MESSAGE, ELEMENTS = range(5)
"""How an operator is costed."""
Dims = tuple[int, int, int, int]
"""batch, m, n, k"""

OP_ROW = np.dtype(
    [
        ("kind", np.int64),
        ("moved_bytes", np.float64),
        ("first_work", np.int64),
        ("end_work", np.int64),
        # Of a product.
        ("batch", np.float64),
        ("m", np.float64),
        ("n", np.float64),
        ("k", np.float64),
        ("side_bytes", np.float64),
        # Of attention.
        ("heads", np.float64),
        ("query_len", np.int64),
        ("keys", np.float64),
        ("head_dim", np.float64),
        ("value_dim", np.float64),
        ("is_backward", np.bool_),
        ("key_value_bytes", np.float64),
        ("num_scores", np.float64),
        ("ops_a_score", np.float64),
    ],
    align=True,
)


class OneProduct(NamedTuple):
    """A GEMM of a block, for the mapper."""

    at: int
    """Which operator of the block."""
    dims: Dims
    side_bytes: float


class OpBlock:
    """Some operators, made ready once for all chips they are costed on.

    Args:
        ops: The operators; None takes no time.
    """

    def __init__(self, ops: Sequence[OpAt | None]) -> None:
        self.ops: tuple[OpAt | None, ...] = tuple(ops)
        self.rows_n: Rows = np.zeros(len(self.ops), OP_ROW)
        elements: list[Floats] = []
        lane_ops: list[Floats] = []
        num_pieces = 0
        products = []
        for n, one in enumerate(self.ops):
            if one is None:
                continue
            _fill_row(self.rows_n[n], one)
            if one.op.kind is OpKind.GEMM:
                products.append(
                    OneProduct(n, product_dims(one.op, one.microbatch), side_bytes(one.op, one.microbatch))
                )
            own_elements, own_ops = element_work(one.op, one.microbatch)
            elements.append(own_elements)
            lane_ops.append(own_ops)
            self.rows_n[n]["first_work"], self.rows_n[n]["end_work"] = num_pieces, num_pieces + len(own_ops)
            num_pieces += len(own_ops)
        self.elements_w: Floats = np.concatenate([np.zeros(0), *elements])
        self.lane_ops_w: Floats = np.concatenate([np.zeros(0), *lane_ops])
        self.products = tuple(products)
        self._link: tuple[Cluster | None, Floats] = (None, np.zeros(0))

    def __len__(self) -> int:
        return len(self.ops)

    def link_s(self, cluster: Cluster) -> Floats:
        """Seconds of the messages over this network; zero for other operators."""
        # One search has one network, asked for thousands of times.
        if self._link[0] is not cluster:
            self._link = cluster, np.array([_message_s(one, cluster) for one in self.ops])
        return self._link[1]


def product_dims(op: Op, microbatch: int) -> Dims:
    """The sizes of a GEMM."""
    gemm = op.gemm
    assert gemm is not None
    return gemm.batch.at(microbatch), gemm.m.at(microbatch), gemm.n.at(microbatch), gemm.k.at(microbatch)


def side_bytes(op: Op, microbatch: int) -> float:
    """Operands of absorbed work (a residual, a mask): what comes on top of the product's own matrices."""
    if not op.vector:
        return 0.0
    batch, m, n, k = product_dims(op, microbatch)
    own_bytes = float(ELEMENT_BYTES) * batch * (float(m) * k + float(k) * n + float(m) * n)
    moved = float(op.input_bytes.at(microbatch) + op.output_bytes.at(microbatch))
    return max(0.0, moved - own_bytes)


def message_bytes(op: Op, microbatch: int) -> float:
    """What a collective sends from memory and receives into it."""
    assert op.collective is not None
    return 2.0 * float(op.collective.payload_bytes.at(microbatch)) * op.collective.num_messages


def _message_s(one: OpAt | None, cluster: Cluster) -> float:
    if one is None or one.op.collective is None:
        return 0.0
    return group_collective_s(
        one.op.collective, float(one.op.collective.payload_bytes.at(one.microbatch)), cluster
    )


def _fill_row(row: np.void, one: OpAt) -> None:
    op, microbatch = one.op, one.microbatch
    if op.kind is OpKind.GEMM:
        row["kind"] = PRODUCT
        row["batch"], row["m"], row["n"], row["k"] = product_dims(op, microbatch)
        row["side_bytes"] = side_bytes(op, microbatch)
    elif op.kind is OpKind.ATTENTION:
        assert op.attention is not None
        row["kind"] = ATTENTION
        blocks = query_blocks(op, microbatch)
        for name in ("heads", "query_len", "keys", "head_dim", "value_dim", "is_backward", "key_value_bytes"):
            row[name] = getattr(blocks, name)
        row["moved_bytes"] = blocks.hbm_bytes
        row["num_scores"] = num_scores(op.attention, microbatch)
        row["ops_a_score"] = lane_ops_a_score(op.attention)
    elif op.kind is OpKind.COLLECTIVE:
        row["kind"] = MESSAGE
        row["moved_bytes"] = message_bytes(op, microbatch)
    elif op.kind is not OpKind.VIEW:
        row["kind"] = ELEMENTS
        row["moved_bytes"] = float(op.input_bytes.at(microbatch) + op.output_bytes.at(microbatch))


def none_mapped(block: OpBlock, num_modes: int) -> Ints:
    """For each mode and operator: no mapping is known."""
    return np.full((num_modes, len(block)), -1, dtype=np.int64)
