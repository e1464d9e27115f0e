"""Operators with a microbatch size put in: those of one key cost the same, whichever graph they come from."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from rephaze.types.graph import ZERO, Op


class OpAt(NamedTuple):
    """One operator on a microbatch of some size."""

    op: Op
    microbatch: int
    key: tuple[object, ...]
    """All that a cost depends on."""


def op_at(op: Op, microbatch: int) -> OpAt:
    """The operator on a microbatch of this many samples."""
    gemm, attention, collective = op.gemm, op.attention, op.collective
    key: list[object] = [op.kind, op.input_bytes.at(microbatch), op.output_bytes.at(microbatch)]
    key += [(work.function, work.num_elements.at(microbatch), work.row_length) for work in op.vector]
    if gemm is not None:
        key += [size.at(microbatch) for size in (gemm.batch, gemm.m, gemm.n, gemm.k)]
    if attention is not None:
        # Heads of one sample and of several are alike.
        num_heads = attention.batch.at(microbatch) * attention.num_heads
        key += [num_heads, replace(attention, batch=ZERO, num_heads=0)]
    if collective is not None:
        key += [collective.payload_bytes.at(microbatch), replace(collective, payload_bytes=ZERO)]
    return OpAt(op, microbatch, tuple(key))
