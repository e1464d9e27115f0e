"""A traced step written by hand, for modules that work on traces and need no torch."""

from math import prod

import pytest

from rephaze.workload.extract.affine import AffineTrace
from rephaze.workload.extract.trace import Origin, Ref, Trace, TracedOp, TracedTensor
from tests.kits.one_size import constant


class HandTrace:
    """Tensors and operators in the order they would have run; every tensor has a storage of its own."""

    def __init__(self) -> None:
        self.trace = Trace(microbatch=2)

    def tensor(self, *shape: int, origin: Origin = Origin.DATA, dtype: str = "bfloat16", **more) -> int:
        number = len(self.trace.tensors)
        element_bytes = 8 if dtype == "int64" else 4 if dtype == "float32" else 2
        self.trace.tensors.append(
            TracedTensor(
                shape=shape, dtype=dtype, element_bytes=element_bytes, storage=1000 + number,
                storage_bytes=prod(shape) * element_bytes, origin=origin, num_distinct=prod(shape), **more,
            )
        )  # fmt: skip
        return number

    def weight(self, name: str, *shape: int) -> int:
        return self.tensor(*shape, origin=Origin.PARAMETER, parameter=name)

    def op(self, target: str, args: tuple, out: int, **more) -> int:
        """Add an operator that makes tensor ``out``; gives back its number."""
        inputs: list[int] = []

        def collect(values):
            for value in values:
                if isinstance(value, Ref):
                    inputs.append(value.tensor)
                elif isinstance(value, tuple):
                    collect(value)

        collect(args)
        number = len(self.trace.ops)
        defaults = {"module": "", "is_backward": False, "sequence": number}
        self.trace.ops.append(
            TracedOp(target=target, args=args, inputs=tuple(inputs), outputs=(out,), **defaults | more)
        )
        return number

    def affine(self) -> AffineTrace:
        return constant(self.trace)


@pytest.fixture
def step() -> HandTrace:
    return HandTrace()
