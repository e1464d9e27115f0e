"""Which gradient each backward operator works for: the input's, towards earlier layers, or a weight's."""

from __future__ import annotations

from rephaze.types.graph import Gradient, OpKind
from rephaze.workload.extract.affine import AffineTrace
from rephaze.workload.extract.aten import kind_of
from rephaze.workload.extract.partition import Partition


def gradients_of(trace: AffineTrace, layers: Partition) -> dict[int, Gradient]:
    """For each backward operator, by number, the gradient it works for.

    An operator works for the input's gradient if another layer, or an operator that does, reads its result.
    What is left ends in weights' gradients and is off the chain that earlier layers wait for.
    """
    reads_weight = {
        op.sequence
        for op in trace.ops
        if not op.is_backward
        and kind_of(op.target) is OpKind.GEMM
        and any(trace.tensors[t].parameter for t in op.inputs)
    }
    maker = {t: number for number, op in enumerate(trace.ops) for t in op.outputs}
    weight_results: set[int] = set()
    for op in trace.ops:
        if not op.is_backward:
            continue
        kind = kind_of(op.target)
        is_weight_gemm = (
            kind is OpKind.GEMM
            and op.sequence in reads_weight
            and not any(trace.tensors[t].parameter for t in op.inputs)
        )
        # Views and, for tied weights, sums of weights' gradients are weights' gradients.
        is_made_of_them = bool(op.inputs) and all(t in weight_results for t in op.inputs)
        if is_weight_gemm or is_made_of_them or op.target == "aten.embedding_dense_backward":
            weight_results.update(op.outputs)

    towards_input: set[int] = set()
    for number in range(len(trace.ops) - 1, -1, -1):
        op = trace.ops[number]
        if not op.is_backward:
            break
        for tensor in op.inputs:
            made_by = maker.get(tensor)
            if made_by is None or tensor in weight_results or not trace.ops[made_by].is_backward:
                continue
            if number in towards_input or layers.layer_of_op[made_by] != layers.layer_of_op[number]:
                towards_input.add(made_by)
    return {
        number: Gradient.INPUT if number in towards_input else Gradient.WEIGHT
        for number, op in enumerate(trace.ops)
        if op.is_backward
    }
