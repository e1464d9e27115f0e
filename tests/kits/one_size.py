"""A model recorded at one microbatch size only: what its affine graph is held against."""

from rephaze.types.graph import Affine
from rephaze.workload.extract.affine import AffineTrace


def constant(trace):
    """A trace as it is, its sizes holding for its own microbatch only."""
    return AffineTrace(
        ops=trace.ops,
        tensors=trace.tensors,
        shapes=[tuple(Affine(size) for size in tensor.shape) for tensor in trace.tensors],
        num_elements=[Affine(tensor.num_distinct) for tensor in trace.tensors],
        storage_bytes=[Affine(tensor.storage_bytes) for tensor in trace.tensors],
    )


def extract_at(source, microbatch, *, dtype, attention):
    """The graph of a module at one microbatch size: every size is that size's constant."""
    from rephaze.workload.extract.blocks import find_stacks, only_traced_blocks
    from rephaze.workload.extract.partition import partition
    from rephaze.workload.extract.record import record_step
    from rephaze.workload.extract.whole_model import whole_model

    stacks = find_stacks(source.module)
    with only_traced_blocks(source.module, stacks):
        trace = record_step(
            source.module,
            source.inputs_at(microbatch),
            microbatch=microbatch,
            attention=attention,
            training=True,
        )
    cut = partition(trace, stacks)
    return whole_model(source, stacks, constant(trace), cut, dtype=dtype, attention=attention, training=True)
