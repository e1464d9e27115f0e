"""Fills a trace while a module runs: numbers its tensors, names the modules, notes what autograd keeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rephaze.workload.extract.known_values import KnownValues
from rephaze.workload.extract.source import Inputs
from rephaze.workload.extract.trace import Argument, Origin, Ref, SavedTensor, Trace, TracedOp, TracedTensor

if TYPE_CHECKING:
    import torch
    from torch._ops import OpOverload

Geometry = tuple[int, "int | torch.SymInt", tuple[int, ...], tuple[int, ...], "torch.dtype"]
"""Storage, offset, shape, strides and type: equal for tensors that show the same elements alike."""

# Ask about a tensor without computing anything; never operators of the model.
_QUERIES = frozenset({"aten.sym_size", "aten.is_same_size", "aten.detach", "aten.lift_fresh", "aten.alias"})
# Take a tensor for its shape only: what they make depends on no data.
_BLANKS = frozenset(
    f"aten.{name}"
    for name in [
        "new_zeros",
        "new_ones",
        "new_full",
        "new_empty",
        "new_empty_strided",
        "zeros_like",
        "ones_like",
        "full_like",
        "empty_like",
        "rand_like",
        "randn_like",
    ]
)

# Say how samples are laid out, not what is in them: every chip can make its own.
_DESCRIBES = (
    "attention_mask",
    "position_ids",
    "token_type_ids",
    "mm_token_type_ids",
    "image_grid_thw",
    "image_sizes",
    "spatial_shapes",
    "pixel_attention_mask",
    "aspect_ratio_ids",
    "aspect_ratio_mask",
    "cross_attention_mask",
    "bool_masked_pos",
    "mask_time_indices",
    "sampled_negative_indices",
)


class TraceBuilder:
    """Fills a trace; keeps every tensor it saw alive, since storages are told apart by address."""

    def __init__(self, microbatch: int, known: KnownValues | None = None) -> None:
        """Start a trace; with ``known`` values, constants that have one are not made but there from the start."""
        self.trace = Trace(microbatch=microbatch)
        self._folded = known
        self.is_backward = False
        self._stack: list[str] = []
        self._kept: list[torch.Tensor] = []
        self._by_geometry: dict[Geometry, int] = {}
        self._last_of_storage: dict[int, int] = {}
        self._geometries_of_storage: dict[int, list[Geometry]] = defaultdict(list)
        self._module_of_sequence: dict[int, str] = {}
        self._last_sequence = 0
        self._last_module = ""

    @property
    def path(self) -> str:
        """The module that runs now."""
        return self._stack[-1] if self._stack else self._last_module

    def start_backward(self) -> None:
        """From now on operators belong to the backward pass, which begins where the forward ended."""
        self.is_backward = True
        self._last_sequence = self.trace.ops[-1].sequence

    def adopt_parameters(self, module: torch.nn.Module) -> None:
        """Make the module's parameters and buffers known by name."""
        for name, tensor in module.named_parameters():
            self._new_tensor(tensor, Origin.PARAMETER, parameter=name)
        for _, buffer in module.named_buffers():
            self._new_tensor(buffer, Origin.CONSTANT)

    def adopt_inputs(self, inputs: Inputs) -> None:
        """Make the batch known."""
        import torch
        from torch.utils._pytree import tree_leaves

        described = [inputs[key] for key in _DESCRIBES if key in inputs] if isinstance(inputs, dict) else []
        for tensor in tree_leaves(inputs):
            if isinstance(tensor, torch.Tensor):
                is_plain = any(tensor is one for one in described)
                origin = Origin.CONSTANT if is_plain else Origin.DATA
                is_index = not is_plain and not tensor.is_floating_point()
                self.trace.inputs.append(self._new_tensor(tensor, origin, is_index=is_index))

    @contextmanager
    def module_names(self, module: torch.nn.Module) -> Iterator[None]:
        """Keep the stack of running modules while the context is open."""
        names = {id(child): name for name, child in module.named_modules()}
        handles: list[Any] = []

        def enter(child: Any, _args: Any) -> None:
            self._stack.append(names.get(id(child), self.path))

        def leave(_child: Any, _args: Any, _out: Any) -> None:
            # Returns nothing on purpose: a value would replace the module's output.
            if self._stack:
                self._last_module = self._stack.pop()

        for child in module.modules():
            handles.append(child.register_forward_pre_hook(enter))
            handles.append(child.register_forward_hook(leave))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @contextmanager
    def saved_tensors(self) -> Iterator[None]:
        """Note what autograd keeps, and the module that ran when it did."""
        import torch

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            self.trace.saved.append(
                SavedTensor(tensor=self._number(tensor), num_ops_before=len(self.trace.ops), module=self.path)
            )
            return tensor

        unchanged: Callable[[Any], Any] = lambda tensor: tensor  # noqa: E731
        with torch.autograd.graph.saved_tensors_hooks(pack, unchanged):
            yield

    def add(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Record one operator that ran."""
        import torch
        from torch.utils._pytree import tree_leaves

        target = f"{func.namespace}.{func._opname}"
        if target in _QUERIES:
            return
        if self._folded is not None and self._is_folded(self._folded, args, kwargs, out):
            if func._schema.is_mutable:
                self._forget(out)
            return
        ordered = _in_schema_order(func, args, kwargs)
        inputs: list[int] = []
        recorded = tuple(self._recorded(value, inputs) for value in ordered)
        made = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
        if not made or (self.is_backward and _stores_gradient()):
            return
        tensors = self.trace.tensors
        source = [tensors[number] for number in inputs]
        is_view = len(inputs) == 1 and func.is_view and bool(made)
        if is_view and len(made) == 1 and _geometry(made[0]) in self._by_geometry:
            return  # the same elements in the same shape: the earlier tensor stands for it
        depends = any(t.origin is not Origin.CONSTANT for t in source) and target not in _BLANKS
        origin = Origin.DATA if depends else Origin.CONSTANT
        if func._schema.is_mutable:
            for tensor in made:
                self._forget(tensor)
        outputs = [
            self._new_tensor(
                tensor,
                origin,
                parameter=source[0].parameter if is_view else "",
                is_index=any(t.is_index for t in source) and not tensor.is_floating_point(),
            )
            for tensor in made
        ]
        sequence, module = self._provenance()
        self.trace.ops.append(
            TracedOp(
                target=target,
                args=recorded,
                inputs=tuple(dict.fromkeys(inputs)),
                outputs=tuple(outputs),
                module=module,
                is_backward=self.is_backward,
                sequence=sequence,
            )
        )

    def _is_folded(self, known: KnownValues, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> bool:
        """Whether an operator only makes a constant whose value is known."""
        import torch
        from torch.utils._pytree import tree_leaves

        made = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
        if not made or any(known.of(tensor) is None for tensor in made):
            return False
        for tensor in tree_leaves((args, kwargs)):
            if isinstance(tensor, torch.Tensor):
                seen = self._last_of_storage.get(tensor.untyped_storage()._cdata)
                if seen is not None and self.trace.tensors[seen].origin is not Origin.CONSTANT:
                    return False
        self._kept += made
        return True

    def _provenance(self) -> tuple[int, str]:
        import torch

        if not self.is_backward:
            # The node of a differentiable operator is made just before the operator runs.
            sequence = torch._C._autograd._get_sequence_nr() - 1
            self._module_of_sequence.setdefault(sequence, self.path)
            return sequence, self.path
        node = torch._C._current_autograd_node()
        # Sums of gradients run between nodes, and leaves have no number: both belong to the last.
        if node is not None and node._sequence_nr() in self._module_of_sequence:
            self._last_sequence = node._sequence_nr()
        return self._last_sequence, self._module_of_sequence.get(self._last_sequence, "")

    def _recorded(self, value: Any, inputs: list[int]) -> Argument:
        import torch

        if isinstance(value, torch.Tensor):
            number = self._number(value)
            inputs.append(number)
            return Ref(number)
        if isinstance(value, list | tuple):
            return tuple(self._recorded(item, inputs) for item in value)
        if isinstance(value, bool | int | float | str | None.__class__):
            return value
        return str(value)

    def _number(self, tensor: torch.Tensor) -> int:
        """The number of a tensor that was seen before, as it is now."""
        found = self._by_geometry.get(_geometry(tensor))
        if found is not None:
            return found
        earlier = self._last_of_storage.get(tensor.untyped_storage()._cdata)
        if earlier is None:
            return self._new_tensor(tensor, Origin.CONSTANT)
        known = self.trace.tensors[earlier]
        number = self._new_tensor(tensor, known.origin, parameter=known.parameter, is_index=known.is_index)
        sequence, module = self._provenance()
        # Another look at a storage that was written in place: a view of its latest value.
        self.trace.ops.append(
            TracedOp(
                target="aten.as_strided",
                args=(Ref(earlier),),
                inputs=(earlier,),
                outputs=(number,),
                module=module,
                is_backward=self.is_backward,
                sequence=sequence,
            )
        )
        return number

    def _forget(self, tensor: torch.Tensor) -> None:
        """Drop what is known of a storage that is being written in place."""
        storage = tensor.untyped_storage()._cdata
        for geometry in self._geometries_of_storage.pop(storage, []):
            self._by_geometry.pop(geometry, None)

    def _new_tensor(
        self, tensor: torch.Tensor, origin: Origin, parameter: str = "", is_index: bool = False
    ) -> int:
        storage = tensor.untyped_storage()
        number = len(self.trace.tensors)
        distinct = 1
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
            distinct *= size if stride else min(size, 1)
        self.trace.tensors.append(
            TracedTensor(
                shape=tuple(tensor.shape),
                dtype=str(tensor.dtype).removeprefix("torch."),
                element_bytes=tensor.element_size(),
                storage=storage._cdata,
                storage_bytes=storage.nbytes(),
                origin=Origin.PARAMETER if parameter else origin,
                num_distinct=distinct,
                parameter=parameter,
                is_index=is_index,
            )
        )
        self._kept.append(tensor)
        geometry = _geometry(tensor)
        self._by_geometry[geometry] = number
        self._geometries_of_storage[storage._cdata].append(geometry)
        self._last_of_storage[storage._cdata] = number
        return number


def _stores_gradient() -> bool:
    """Whether autograd is storing a finished gradient: a copy made only because we hold on to tensors."""
    import torch

    node = torch._C._current_autograd_node()
    return node is not None and "AccumulateGrad" in node.name()


def _geometry(tensor: torch.Tensor) -> Geometry:
    return (
        tensor.untyped_storage()._cdata,
        tensor.storage_offset(),
        tuple(tensor.shape),
        tensor.stride(),
        tensor.dtype,
    )


def _in_schema_order(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Positional and keyword arguments as one list; missing ones take their defaults."""
    values = list(args)
    for argument in func._schema.arguments[len(args) :]:
        if argument.name in kwargs:
            values.append(kwargs[argument.name])
        else:
            values.append(argument.default_value if argument.has_default_value() else None)
    return values
