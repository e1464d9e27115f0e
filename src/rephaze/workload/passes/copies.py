"""Copies of tensors and operators with one thing changed.

``dataclasses.replace`` takes three times as long, and these are made for every operator of every cut.
"""

from __future__ import annotations

from rephaze.types.graph import Affine, CollectiveDims, GemmDims, Op, Tensor, VectorWork


def resized(tensor: Tensor, num_elements: Affine) -> Tensor:
    """The tensor with so many elements."""
    return Tensor(
        name=tensor.name,
        num_elements=num_elements,
        element_bytes=tensor.element_bytes,
        role=tensor.role,
        storage=tensor.storage,
        num_split_units=tensor.num_split_units,
        is_reduced=tensor.is_reduced,
        has_tokens=tensor.has_tokens,
    )


def over(work: VectorWork, num_elements: Affine) -> VectorWork:
    """The same work on so many elements."""
    return VectorWork(function=work.function, num_elements=num_elements, row_length=work.row_length)


def with_inputs(op: Op, inputs: tuple[int, ...]) -> Op:
    """The operator on other tensors; itself if they are the same."""
    if inputs == op.inputs:
        return op
    return with_work(
        op, inputs=inputs, gemm=op.gemm, vector=op.vector, collective=op.collective, num_flops=op.num_flops
    )


def with_work(
    op: Op,
    *,
    inputs: tuple[int, ...],
    gemm: GemmDims | None,
    vector: tuple[VectorWork, ...],
    collective: CollectiveDims | None,
    num_flops: Affine,
) -> Op:
    """The operator with other work, on other tensors."""
    return Op(
        name=op.name,
        target=op.target,
        kind=op.kind,
        module=op.module,
        gradient=op.gradient,
        gemm=gemm,
        attention=op.attention,
        collective=collective,
        vector=vector,
        num_flops=num_flops,
        num_elements=op.num_elements,
        input_bytes=op.input_bytes,
        output_bytes=op.output_bytes,
        param_bytes=op.param_bytes,
        inputs=inputs,
        outputs=op.outputs,
        split=op.split,
        num_split_units=op.num_split_units,
    )


def merged(
    lead: Op, *, target: str, vector: tuple[VectorWork, ...], inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> Op:
    """An operator that does what others do as well; its bytes are not worked out yet."""
    return Op(
        name=lead.name,
        target=target,
        kind=lead.kind,
        module=lead.module,
        gradient=lead.gradient,
        gemm=lead.gemm,
        attention=lead.attention,
        collective=lead.collective,
        vector=vector,
        num_flops=lead.num_flops,
        inputs=inputs,
        outputs=outputs,
        split=lead.split,
        num_split_units=lead.num_split_units,
    )
