"""Operators with a microbatch size put in: those of one key cost the same, whichever graph they come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, NamedTuple

from rephaze.types.graph import AttentionDims, CollectiveDims, Op


class OpAt(NamedTuple):
    """One operator on a microbatch of some size."""

    op: Op
    microbatch: int
    key: tuple[object, ...]
    """All that a cost depends on."""


def op_at(op: Op, microbatch: int) -> OpAt:
    """The operator on a microbatch of this many samples."""
    b, gemm, attention, collective = microbatch, op.gemm, op.attention, op.collective
    reads, writes = op.input_bytes, op.output_bytes
    work = tuple([(one.function, one.num_elements.at(b), one.row_length) for one in op.vector])
    key: tuple[object, ...] = (op.kind, reads.at(b), writes.at(b), work)
    if gemm is not None:
        key += (gemm.batch.at(b), gemm.m.at(b), gemm.n.at(b), gemm.k.at(b))
    if attention is not None:
        # Heads of one sample and of several are alike.
        key += (attention.batch.at(b) * attention.num_heads, *_without_heads(attention))
    if collective is not None:
        key += (collective.payload_bytes.at(b), *_without_payload(collective))
    return OpAt(op, b, key)


def _rest_of(record: type, *without: str) -> Callable[[Any], tuple[object, ...]]:
    """All fields of a record but some."""
    return attrgetter(*(item.name for item in fields(record) if item.name not in without))


_without_heads = _rest_of(AttentionDims, "batch", "num_heads")
_without_payload = _rest_of(CollectiveDims, "payload_bytes")
