"""Who makes and who reads each traced tensor, and in which layer: what joins the layers of a trace."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from rephaze.types.graph import OpKind
from rephaze.workload.derived_sizes import COMPARED_MICROBATCH
from rephaze.workload.extract.affine import AffineTrace
from rephaze.workload.extract.aten import kind_of
from rephaze.workload.extract.partition import Partition
from rephaze.workload.extract.trace import Origin


@dataclass(slots=True)
class LayerIndex:
    """Look-ups over a trace and its partition into layers."""

    trace: AffineTrace
    partition: Partition
    maker: dict[int, int] = field(default_factory=dict)
    """The operator that made each tensor."""
    readers: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Operators that read a tensor in this very shape."""
    home_of_storage: dict[int, int] = field(default_factory=dict)
    """The first tensor seen of each storage."""
    _root: dict[int, int] = field(default_factory=dict)
    """For each view, the tensor it is a view of."""
    _root_readers: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for number, op in enumerate(self.trace.ops):
            self.maker.update((t, number) for t in op.outputs)
            if kind_of(op.target) is OpKind.VIEW and op.inputs:
                self._root.update((t, self._root.get(op.inputs[0], op.inputs[0])) for t in op.outputs)
            for tensor in op.inputs:
                self.readers[tensor].append(number)
                self._root_readers[self._root.get(tensor, tensor)].append(number)
        for number, traced in enumerate(self.trace.tensors):
            self.home_of_storage.setdefault(traced.storage, number)

    def layer_of_tensor(self, tensor: int) -> int | None:
        """The layer that made a tensor or what it views; None for parameters, the batch and buffers."""
        made_by = self.maker.get(self._root.get(tensor, tensor))
        return None if made_by is None else self.partition.layer_of_op[made_by]

    def layers_reading(self, tensor: int) -> set[int]:
        """Layers whose forward reads a tensor in any shape."""
        readers = self._root_readers[self._root.get(tensor, tensor)]
        return {self.partition.layer_of_op[op] for op in readers if not self.trace.ops[op].is_backward}

    def crossing_inputs(self, layer: int) -> list[int]:
        """Tensors of the step that a layer's forward reads from earlier layers, one a storage."""
        found: dict[int, int] = {}
        for op in self.partition.layers[layer].forward:
            for tensor in self.trace.ops[op].inputs:
                maker = self.layer_of_tensor(tensor)
                if maker is None or maker == layer:
                    continue
                if self.trace.tensors[tensor].origin is Origin.DATA:
                    storage = self.trace.tensors[tensor].storage
                    if storage not in found or self._num_bytes(tensor) > self._num_bytes(found[storage]):
                        found[storage] = tensor
        return list(found.values())

    def _num_bytes(self, tensor: int) -> int:
        """Bytes of a tensor at a few samples, to compare sizes."""
        return self.trace.num_elements[tensor].at(COMPARED_MICROBATCH) * self.trace.tensors[tensor].element_bytes
