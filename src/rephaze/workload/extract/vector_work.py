"""The vector work behind traced operators: its cost rule, its elements, and the row it runs along."""

from __future__ import annotations

from rephaze.types.graph import ZERO, Affine, VectorWork
from rephaze.workload.derived_sizes import COMPARED_MICROBATCH
from rephaze.workload.extract.affine import AffineTrace
from rephaze.workload.extract.aten import REDUCTIONS, vector_function
from rephaze.workload.extract.trace import TracedOp, integers_of


def vector_work(op: TracedOp, trace: AffineTrace) -> VectorWork:
    """The work of an operator of kind VECTOR."""
    out = op.outputs[0]
    source = op.inputs[-1] if op.target.endswith("copy_") else (op.inputs[0] if op.inputs else out)
    function = vector_function(op.target, trace.tensors[source].dtype != trace.tensors[out].dtype)
    elements = trace.num_elements[out]
    row_length = 1
    if op.inputs:
        largest = max(op.inputs, key=lambda t: trace.num_elements[t].at(COMPARED_MICROBATCH))
        if function in REDUCTIONS or "norm" in function or "loss" in function:
            elements = max(elements, trace.num_elements[largest], key=lambda size: size.at(COMPARED_MICROBATCH))
        row_length = _row_length(function, trace.shapes[largest], trace.shapes[out], op)
    return VectorWork(function=function, num_elements=elements, row_length=row_length)


def gather_work(op: TracedOp, trace: AffineTrace) -> VectorWork:
    """The work of a gather or scatter: it moves the elements of its smaller side."""
    sizes = [trace.num_elements[t] for t in op.outputs[:1]]
    sizes += [trace.num_elements[t] for t in op.inputs if "int" not in trace.tensors[t].dtype]
    moved = min(sizes, key=lambda size: size.at(COMPARED_MICROBATCH)) if sizes else ZERO
    return VectorWork(function="gather", num_elements=moved)


def bias_work(op: TracedOp, trace: AffineTrace) -> tuple[VectorWork, ...]:
    """The bias that ``addmm`` adds is vector work of the product; other products have none."""
    if not op.target.endswith("addmm"):
        return ()
    return (VectorWork(function="bias", num_elements=trace.num_elements[op.outputs[0]]),)


def _row_length(function: str, source: tuple[Affine, ...], out: tuple[Affine, ...], op: TracedOp) -> int:
    """The axis a softmax, norm, loss or reduction runs along; 1 if it is the batch, or there is none."""
    is_row_wise = function.startswith(("softmax", "log_softmax", "layer_norm", "rms_norm", "nll_loss"))
    if is_row_wise and source and not source[-1].per_sample:
        return source[-1].const
    if function in ("sum", "mean", "var", "max", "amax", "cumsum"):
        reduced = 1
        aligned = out if len(out) == len(source) else None
        for axis, size in enumerate(source):
            is_kept = aligned[axis] == size if aligned is not None else _is_kept(axis, op)
            if not is_kept and not size.per_sample:
                reduced *= size.const
        return reduced
    return 1


def _is_kept(axis: int, op: TracedOp) -> bool:
    """Whether a reduction that drops its axes keeps this one; axes counted from the end are not looked at."""
    if len(op.args) < 2 or not isinstance(op.args[1], tuple):
        return False
    axes = integers_of(op.args[1])
    return axis not in axes and all(a >= 0 for a in axes)
