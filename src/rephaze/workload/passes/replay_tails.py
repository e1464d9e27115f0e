"""Elementwise work after a product, run alone from the product's kept result.

A kernel that ends in an activation writes both the product and the activation if backward reads both. To make the
activation again, the product need not run again.
"""

from __future__ import annotations

from dataclasses import dataclass

from rephaze.types.graph import Op, OpGraph, OpKind
from rephaze.workload.derived_sizes import op_graph


@dataclass(frozen=True, kw_only=True, slots=True)
class Tail:
    """What follows a product in its kernel, as an operator of its own."""

    op: Op
    """Reads the product's result and what the rest of the kernel reads; indices are those of the pass."""
    whole: int
    """Position of the kernel in the fused pass."""


def find_tails(fused: OpGraph, unfused: OpGraph) -> tuple[Tail, ...]:
    """The tails of a pass's kernels, in their order.

    Args:
        fused: The pass as kernels.
        unfused: The same pass before fusion, with the same tensors.
    """
    position_of = {op.name: position for position, op in enumerate(unfused.ops)}
    maker = {tensor: position for position, op in enumerate(unfused.ops) for tensor in op.outputs}
    found = []
    for whole, op in enumerate(fused.ops):
        if op.kind in (OpKind.GEMM, OpKind.ATTENTION) and op.name in position_of:
            tail = _tail(op, position_of[op.name], fused, unfused, maker)
            if tail is not None:
                found.append(Tail(op=op_graph([tail], fused.tensors).ops[0], whole=whole))
    return tuple(found)


def _tail(kernel: Op, product: int, fused: OpGraph, unfused: OpGraph, maker: dict[int, int]) -> Op | None:
    homes = {
        fused.tensors[tensor].storage or fused.tensors[tensor].name for tensor in unfused.ops[product].outputs
    }
    results = {
        fused.tensors[tensor].storage or fused.tensors[tensor].name: tensor
        for tensor in kernel.outputs
        if (fused.tensors[tensor].storage or fused.tensors[tensor].name) in homes
    }
    outputs = tuple(tensor for tensor in kernel.outputs if tensor not in results.values())
    inputs: dict[int, None] = {}
    members: set[int] = set()
    waiting = list(outputs)
    while waiting:
        tensor = waiting.pop()
        home = fused.tensors[tensor].storage or fused.tensors[tensor].name
        made_by = maker.get(tensor)
        if tensor in kernel.inputs or made_by is None:
            inputs[tensor] = None
        elif made_by == product:
            if home not in results:  # the product's result never left the kernel
                return None
            inputs[results[home]] = None
        elif made_by not in members:
            members.add(made_by)
            waiting.extend(unfused.ops[made_by].inputs)
    parts = [unfused.ops[member] for member in sorted(members) if unfused.ops[member].kind is not OpKind.VIEW]
    if not parts or any(part.kind is not OpKind.VECTOR for part in parts):
        return None
    return Op(
        name=f"{kernel.name}.tail",
        target="+".join(part.target for part in parts),
        kind=OpKind.VECTOR,
        module=kernel.module,
        vector=tuple(work for part in parts for work in part.vector),
        inputs=tuple(sorted(inputs)),
        outputs=outputs,
    )
