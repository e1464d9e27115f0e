"""From an affine trace, its layers and its tensor-parallel layout to the record of each layer type."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from rephaze.types.graph import (
    Affine,
    Gradient,
    LayerType,
    Op,
    OpKind,
    Tensor,
    TensorRole,
)
from rephaze.workload.derived_sizes import layer_type, op_graph
from rephaze.workload.extract.affine import AffineTrace
from rephaze.workload.extract.aten import kind_of
from rephaze.workload.extract.gemm_dims import attention_dims, products_of
from rephaze.workload.extract.gradients import gradients_of
from rephaze.workload.extract.layer_index import LayerIndex
from rephaze.workload.extract.partition import Partition, TracedLayer
from rephaze.workload.extract.tp_layout import Layout
from rephaze.workload.extract.trace import Origin, TracedOp
from rephaze.workload.extract.vector_work import bias_work, gather_work, vector_work


@dataclass(slots=True)
class Assembler:
    """Builds layer types; holds what all layers share."""

    index: LayerIndex
    layout: Layout
    seq_len: int
    gradients: dict[int, Gradient] = field(default_factory=dict)
    """For each backward operator, the gradient it works for."""
    _first_keeper: dict[int, int] = field(default_factory=dict)
    """For each storage autograd keeps, the first layer that keeps it."""

    def __post_init__(self) -> None:
        for number, layer in enumerate(self.partition.layers):
            for kept in layer.saved:
                self._first_keeper.setdefault(self.trace.tensors[kept].storage, number)
        self.gradients = gradients_of(self.trace, self.partition)

    @property
    def trace(self) -> AffineTrace:
        """What is assembled."""
        return self.index.trace

    @property
    def partition(self) -> Partition:
        """The trace's layers."""
        return self.index.partition

    def build(self, number: int, name: str, parameters: tuple[Tensor, ...]) -> LayerType:
        """The layer type of a traced layer."""
        layer = self.partition.layers[number]
        forward = _PassBuilder(self, layer, number, is_backward=False)
        backward = _PassBuilder(self, layer, number, is_backward=True)
        forward_ops = [made for op in layer.forward for made in forward.ops_of(op)]
        backward_ops = [made for op in layer.backward for made in backward.ops_of(op)]
        saved, saved_inputs = self._saved(layer, number, forward)
        return layer_type(
            name,
            op_graph(forward_ops, tuple(forward.tensors)),
            op_graph(backward_ops, tuple(backward.tensors)),
            parameters=parameters,
            saved=saved,
            saved_inputs=saved_inputs,
            inputs=tuple(self._inputs(layer, number, forward)),
        )

    def tensor(self, number: int, name: str, role: TensorRole, storage: str = "") -> Tensor:
        """The record of a traced tensor."""
        traced = self.trace.tensors[number]
        return Tensor(
            name=name,
            num_elements=self.trace.num_elements[number],
            element_bytes=traced.element_bytes,
            role=role,
            storage=storage,
            num_split_units=self.layout.units_of(number),
            is_reduced=number in self.layout.reduced,
            has_tokens=self._has_tokens(number),
        )

    def _has_tokens(self, number: int) -> bool:
        """Whether a tensor of the batch holds rows for each token."""
        shape = self.trace.shapes[number]
        if len(shape) >= 3 and any(size.per_sample for size in shape) and Affine(self.seq_len) in shape:
            return True
        # Samples and tokens on one axis.
        return any(size.per_sample and size.per_sample % self.seq_len == 0 for size in shape)

    def _inputs(self, layer: TracedLayer, number: int, forward: _PassBuilder) -> list[Tensor]:
        found = [forward.tensors[forward.position_of(t)] for t in self.index.crossing_inputs(number)]
        if not found:  # a first layer reads the batch itself
            seen: set[int] = set()
            for op in layer.forward:
                for tensor in self.trace.ops[op].inputs:
                    traced = self.trace.tensors[tensor]
                    outer = tensor not in self.index.maker and traced.origin is Origin.DATA
                    if outer and traced.storage not in seen:
                        seen.add(traced.storage)
                        found.append(forward.tensors[forward.position_of(tensor)])
        return found

    def _saved(
        self, layer: TracedLayer, number: int, forward: _PassBuilder
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """What the layer keeps for its backward: its own tensors, and those it got from others."""
        own: dict[int, Tensor] = {}
        given: dict[int, Tensor] = {}
        for kept in layer.saved:
            traced = self.trace.tensors[kept]
            if traced.parameter or traced.storage in own or traced.storage in given:
                continue
            home = self.index.home_of_storage[traced.storage]
            maker = self.index.layer_of_tensor(home)
            if maker != number and self._first_keeper[traced.storage] != number:
                continue
            if maker != number and traced.origin is Origin.CONSTANT:
                continue
            size = self.trace.storage_bytes[kept]
            record = Tensor(
                name=forward.name_of(home),
                num_elements=size,
                element_bytes=1,
                role=TensorRole.KEPT,
                num_split_units=self.layout.units_of(kept),
                has_tokens=self._has_tokens(kept),
            )
            (own if maker == number else given)[traced.storage] = record
        return tuple(own.values()), tuple(given.values())


@dataclass(slots=True)
class _PassBuilder:
    """Operators and tensors of one layer in one direction, in the order they ran."""

    shared: Assembler
    layer: TracedLayer
    number: int
    is_backward: bool
    tensors: list[Tensor] = field(default_factory=list)
    _position: dict[int, int] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def ops_of(self, number: int) -> list[Op]:
        """The graph's operators for one traced operator: one, but two for a convolution's backward."""
        trace = self.shared.trace
        op = trace.ops[number]
        kind = kind_of(op.target)
        assert kind is not None, op.target
        inputs = tuple(self.position_of(t) for t in op.inputs)
        split, units = self.shared.layout.split_of(number)
        gradient = self.shared.gradients.get(number, Gradient.NONE)
        base = Op(
            name=self._op_name(op),
            target=op.target,
            kind=kind,
            module=self._module(op),
            gradient=gradient,
            inputs=inputs,
            split=split,
            num_split_units=units,
        )
        if kind is not OpKind.GEMM:
            made = replace(base, outputs=self._made(op, base.name, range(len(op.outputs))))
            return [self._with_work(made, op)]
        products = products_of(op, trace)
        found = []
        for position, product in enumerate(products):
            name = base.name if position == 0 else self._op_name(op)
            found.append(
                replace(
                    base,
                    name=name,
                    gemm=product.dims,
                    num_flops=product.num_flops,
                    gradient=product.gradient or gradient,
                    outputs=self._made(op, name, product.outputs),
                    vector=bias_work(op, trace),
                )
            )
        return found

    def position_of(self, tensor: int) -> int:
        """Where a tensor stands in this pass's list; adds it as coming from outside if it is new."""
        if tensor not in self._position:
            name, role = self._outer(tensor)
            self._add(tensor, name, role)
        return self._position[tensor]

    def name_of(self, tensor: int) -> str:
        """The name a tensor has in this pass, or would have."""
        if tensor in self._position:
            return self.tensors[self._position[tensor]].name
        return f"tensor_{tensor}"

    def _add(self, tensor: int, name: str, role: TensorRole) -> None:
        home = self.shared.index.home_of_storage[self.shared.trace.tensors[tensor].storage]
        storage = ""
        if home != tensor and home in self._position:
            storage = self.tensors[self._position[home]].name
        self._position[tensor] = len(self.tensors)
        self.tensors.append(self.shared.tensor(tensor, name, role, storage))

    def _outer(self, tensor: int) -> tuple[str, TensorRole]:
        traced = self.shared.trace.tensors[tensor]
        if traced.parameter:
            count = self._count(f"parameter.{traced.parameter}")
            suffix = "" if count == 0 else f".{count}"
            return traced.parameter.removeprefix(f"{self.layer.prefix}.") + suffix, TensorRole.PARAMETER
        maker = self.shared.index.maker.get(tensor)
        is_forward_made = maker is not None and not self.shared.trace.ops[maker].is_backward
        if self.is_backward and (maker is None or is_forward_made):
            is_constant = traced.origin is Origin.CONSTANT
            role = TensorRole.CONSTANT if is_constant else TensorRole.KEPT
            return f"kept_{self._count('kept')}", role
        if traced.origin is Origin.CONSTANT:
            return f"constant_{self._count('constant')}", TensorRole.CONSTANT
        return f"input_{self._count('input')}", TensorRole.INPUT

    def _made(self, op: TracedOp, name: str, which: range | tuple[int, ...]) -> tuple[int, ...]:
        positions = []
        for position in which:
            tensor = op.outputs[position]
            label = name if len(which) == 1 else f"{name}.{position}"
            readers = self.shared.index.readers[tensor]
            leaves = any(
                self.shared.partition.layer_of_op[reader] != self.number
                and self.shared.trace.ops[reader].is_backward == self.is_backward
                for reader in readers
            )
            is_weight = bool(self.shared.trace.tensors[tensor].parameter)  # a view of one, such as a transpose
            made = TensorRole.OUTPUT if leaves else TensorRole.LOCAL
            self._add(tensor, label, TensorRole.PARAMETER if is_weight else made)
            positions.append(self._position[tensor])
        return tuple(positions)

    def _op_name(self, op: TracedOp) -> str:
        plain = op.name.strip("_")
        return f"{plain}_{self._count(plain)}"

    def _count(self, label: str) -> int:
        self._counts[label] += 1
        return self._counts[label] - 1

    def _module(self, op: TracedOp) -> str:
        if not self.layer.prefix:
            return op.module
        return op.module.removeprefix(self.layer.prefix).removeprefix(".")

    def _with_work(self, made: Op, op: TracedOp) -> Op:
        trace = self.shared.trace
        if made.kind is OpKind.ATTENTION:
            dims, flops = attention_dims(op, trace)
            return replace(made, attention=dims, num_flops=flops)
        if made.kind is OpKind.GATHER:
            return replace(made, vector=(gather_work(op, trace),))
        if made.kind is OpKind.VECTOR:
            return replace(made, vector=(vector_work(op, trace),))
        return made
