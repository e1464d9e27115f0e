"""What every operator must do for a sample, whatever the chip, the mapping and the microbatch size.

Sizes are products of whole numbers affine in the microbatch. A batch of b samples costs at least b times the least
of (cost of a microbatch / its samples) over the sizes the search may choose: that holds for any such product,
and what is read once a microbatch (weights) counts as often as in the largest.
"""

from __future__ import annotations

from collections.abc import Sequence

from rephaze.estimate.attention import attention_macs
from rephaze.estimate.costs import ELEMENT_BYTES
from rephaze.types.graph import GemmDims, Op, OpGraph, OpKind

FLOPS_PER_MAC = 2


def num_macs(op: Op, microbatch: int) -> float:
    """Multiply-accumulates an operator does: of a GEMM all, of causal attention those of keys not skipped."""
    if op.attention is not None:
        return attention_macs(op.attention, microbatch)
    if op.gemm is None:
        return 0.0
    batch, m, n, k = gemm_sizes(op.gemm, microbatch)
    return batch * m * n * k


def least_macs(graph: OpGraph, microbatches: Sequence[int], kind: OpKind | None = None) -> float:
    """Multiply-accumulates per sample that a pass, or its operators of one kind, must do."""
    asked = [op for op in graph.ops if kind is None or op.kind is kind]
    return sum(min(num_macs(op, b) / b for b in microbatches) for op in asked)


def least_hbm_bytes(graph: OpGraph, microbatches: Sequence[int]) -> float:
    """Bytes per sample that vector operators and GEMMs must move where both wait for HBM."""
    vector_bytes = sum(
        op.input_bytes.per_sample + op.output_bytes.per_sample
        for op in graph.ops
        if op.kind in (OpKind.VECTOR, OpKind.GATHER)
    )
    return float(vector_bytes) + least_gemm_bytes(graph, microbatches, is_batch_folded=False)


def least_gemm_bytes(graph: OpGraph, microbatches: Sequence[int], *, is_batch_folded: bool) -> float:
    """Bytes per sample of the matrices of all GEMMs at two bytes an element, each over HBM once.

    Args:
        graph: One pass of a layer.
        microbatches: Sizes a plan may choose.
        is_batch_folded: The products of a batch are one product of as many times the rows, as in model
            ``paper``: their right operands count as one.
    """
    gemms = [op.gemm for op in graph.ops if op.gemm is not None]
    return sum(min(_matrix_bytes(gemm, b, is_batch_folded) / b for b in microbatches) for gemm in gemms)


def least_moved_bytes(op: Op, microbatch: int) -> float:
    """Bytes that one operator moves over HBM at least, where it waits for HBM: of attention nothing is claimed."""
    tensors = float(op.input_bytes.at(microbatch) + op.output_bytes.at(microbatch))
    if op.kind in (OpKind.VECTOR, OpKind.GATHER):
        return tensors
    if op.gemm is None:
        return 0.0
    own = _matrix_bytes(op.gemm, microbatch, is_batch_folded=False)
    # Operands of absorbed work come on top.
    return max(own, tensors) if op.vector else own


def _matrix_bytes(gemm: GemmDims, microbatch: int, is_batch_folded: bool) -> float:
    batch, m, n, k = gemm_sizes(gemm, microbatch)
    num_right = 1 if is_batch_folded else batch
    return ELEMENT_BYTES * (batch * m * k + num_right * k * n + batch * m * n)


def gemm_sizes(gemm: GemmDims, microbatch: int) -> tuple[float, float, float, float]:
    """Products, rows, columns and reduction of a GEMM."""
    batch, m, n, k = (float(size.at(microbatch)) for size in (gemm.batch, gemm.m, gemm.n, gemm.k))
    return batch, m, n, k
