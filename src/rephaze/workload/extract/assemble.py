"""From an affine trace, its layers and its tensor-parallel layout to the graph of the whole model."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from rephaze.types.graph import (
    ZERO,
    Affine,
    Gradient,
    LayerType,
    Op,
    OpKind,
    Tensor,
    TensorRole,
    VectorWork,
)
from rephaze.workload.derived_sizes import COMPARED_MICROBATCH, layer_type, op_graph
from rephaze.workload.extract.affine import AffineTrace
from rephaze.workload.extract.aten import REDUCTIONS, kind_of, vector_function
from rephaze.workload.extract.gemm_dims import attention_dims, products_of
from rephaze.workload.extract.gradients import gradients_of
from rephaze.workload.extract.partition import Partition, TracedLayer
from rephaze.workload.extract.tp_layout import Layout
from rephaze.workload.extract.trace import Origin, TracedOp


@dataclass(slots=True)
class Assembler:
    """Builds layer types; holds what all layers share."""

    trace: AffineTrace
    partition: Partition
    layout: Layout
    seq_len: int
    _maker: dict[int, int] = field(default_factory=dict)
    """The operator that made each tensor."""
    _readers: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    _root: dict[int, int] = field(default_factory=dict)
    """For each view, the tensor it is a view of."""
    _root_readers: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    _gradients: dict[int, Gradient] = field(default_factory=dict)
    _home_of_storage: dict[int, int] = field(default_factory=dict)
    """The first tensor seen of each storage."""
    _first_keeper: dict[int, int] = field(default_factory=dict)
    """For each storage autograd keeps, the first layer that keeps it."""

    def __post_init__(self) -> None:
        for number, op in enumerate(self.trace.ops):
            self._maker.update((t, number) for t in op.outputs)
            if kind_of(op.target) is OpKind.VIEW and op.inputs:
                self._root.update((t, self._root.get(op.inputs[0], op.inputs[0])) for t in op.outputs)
            for tensor in op.inputs:
                self._readers[tensor].append(number)
                self._root_readers[self._root.get(tensor, tensor)].append(number)
        for number, traced in enumerate(self.trace.tensors):
            self._home_of_storage.setdefault(traced.storage, number)
        for number, layer in enumerate(self.partition.layers):
            for kept in layer.saved:
                self._first_keeper.setdefault(self.trace.tensors[kept].storage, number)
        self._gradients = gradients_of(self.trace, self.partition)

    def layer_of_tensor(self, tensor: int) -> int | None:
        """The layer that made a tensor or what it views; None for parameters, the batch and buffers."""
        made_by = self._maker.get(self._root.get(tensor, tensor))
        return None if made_by is None else self.partition.layer_of_op[made_by]

    def readers_of(self, tensor: int) -> list[int]:
        """Operators that read a tensor in this very shape."""
        return self._readers[tensor]

    def layers_reading(self, tensor: int) -> set[int]:
        """Layers whose forward reads a tensor in any shape."""
        readers = self._root_readers[self._root.get(tensor, tensor)]
        return {self.partition.layer_of_op[op] for op in readers if not self.trace.ops[op].is_backward}

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

    def crossing_inputs(self, number: int) -> list[int]:
        """Tensors of the step that a layer's forward reads from earlier layers, one a storage."""
        found: dict[int, int] = {}
        for op in self.partition.layers[number].forward:
            for tensor in self.trace.ops[op].inputs:
                maker = self.layer_of_tensor(tensor)
                if maker is None or maker == number:
                    continue
                if self.trace.tensors[tensor].origin is Origin.DATA:
                    storage = self.trace.tensors[tensor].storage
                    if storage not in found or self.num_bytes(tensor) > self.num_bytes(found[storage]):
                        found[storage] = tensor
        return list(found.values())

    def num_bytes(self, tensor: int) -> int:
        """Bytes of a tensor at a few samples, to compare sizes."""
        return self.trace.num_elements[tensor].at(COMPARED_MICROBATCH) * self.trace.tensors[tensor].element_bytes

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
        if len(shape) >= 3 and any(size.per_sample for size in shape):
            return Affine(self.seq_len) in shape
        return any(size.per_sample and size.per_sample % self.seq_len == 0 for size in shape)

    def _inputs(self, layer: TracedLayer, number: int, forward: _PassBuilder) -> list[Tensor]:
        found = [forward.tensors[forward.position_of(t)] for t in self.crossing_inputs(number)]
        if not found:  # a first layer reads the batch itself
            seen: set[int] = set()
            for op in layer.forward:
                for tensor in self.trace.ops[op].inputs:
                    traced = self.trace.tensors[tensor]
                    outer = tensor not in self._maker and traced.origin is Origin.DATA
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
            home = self._home_of_storage[traced.storage]
            maker = self.layer_of_tensor(home)
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
        gradient = self.shared._gradients.get(number, Gradient.NONE)
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
                    vector=self._bias(op),
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
        home = self.shared._home_of_storage[self.shared.trace.tensors[tensor].storage]
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
        maker = self.shared._maker.get(tensor)
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
            readers = self.shared.readers_of(tensor)
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
        plain = op.target.partition(".")[2].strip("_")
        return f"{plain}_{self._count(plain)}"

    def _count(self, label: str) -> int:
        self._counts[label] += 1
        return self._counts[label] - 1

    def _module(self, op: TracedOp) -> str:
        if not self.layer.prefix:
            return op.module
        return op.module.removeprefix(self.layer.prefix).removeprefix(".")

    def _bias(self, op: TracedOp) -> tuple[VectorWork, ...]:
        """The bias that ``addmm`` adds is vector work of the product."""
        if not op.target.endswith("addmm"):
            return ()
        return (VectorWork(function="bias", num_elements=self.shared.trace.num_elements[op.outputs[0]]),)

    def _with_work(self, made: Op, op: TracedOp) -> Op:
        trace = self.shared.trace
        if made.kind is OpKind.ATTENTION:
            dims, flops = attention_dims(op, trace)
            return replace(made, attention=dims, num_flops=flops)
        if made.kind is OpKind.GATHER:
            moved = self._moved_elements(op)
            return replace(made, vector=(VectorWork(function="gather", num_elements=moved),))
        if made.kind is OpKind.VECTOR:
            return replace(made, vector=(self._vector_work(op),))
        return made

    def _moved_elements(self, op: TracedOp) -> Affine:
        """Elements a gather or scatter moves: those of its smaller side."""
        trace = self.shared.trace
        sizes = [trace.num_elements[t] for t in op.outputs[:1]]
        sizes += [trace.num_elements[t] for t in op.inputs if "int" not in trace.tensors[t].dtype]
        return min(sizes, key=lambda size: size.at(COMPARED_MICROBATCH)) if sizes else ZERO

    def _vector_work(self, op: TracedOp) -> VectorWork:
        trace = self.shared.trace
        out = op.outputs[0]
        source = op.inputs[-1] if op.target.endswith("copy_") else (op.inputs[0] if op.inputs else out)
        function = vector_function(op.target, trace.tensors[source].dtype != trace.tensors[out].dtype)
        elements = trace.num_elements[out]
        row_length = 1
        if op.inputs:
            largest = max(op.inputs, key=lambda t: trace.num_elements[t].at(COMPARED_MICROBATCH))
            if function in REDUCTIONS or "norm" in function or "loss" in function:
                elements = max(
                    elements, trace.num_elements[largest], key=lambda size: size.at(COMPARED_MICROBATCH)
                )
            row_length = _row_length(function, trace.shapes[largest], trace.shapes[out], op)
        return VectorWork(function=function, num_elements=elements, row_length=row_length)


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
    axes = op.args[1] if len(op.args) > 1 and isinstance(op.args[1], tuple) else None
    return axes is not None and axis not in axes and all(a >= 0 for a in axes)
