"""Values that are known though tensors have none: numbers of a made-up batch, positions, masks, sizes of images.

A model on the meta device has shapes only. Some code asks for more: how many image tokens a text holds, how large an
image is, whether a mask hides anything. All of that follows from the batch and from constants, so the values of those
are worked out beside the run, storage by storage. What follows from weights is not known, and asking for it is an
error: an answer would be made up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rephaze.errors import UnsupportedError

if TYPE_CHECKING:
    import torch
    from torch._ops import OpOverload

MAX_KNOWN_ELEMENTS = 2**22
"""Larger constants (masks of long sequences) are not worked out: nobody asks for their values."""

_ASKS_NUMBER = frozenset({"_local_scalar_dense", "item", "is_nonzero", "equal"})
_SIZED_BY_VALUES = frozenset(
    {"nonzero", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive", "bincount"}
    | {"repeat_interleave"}
)
_RANDOM = frozenset(
    {"rand", "randn", "rand_like", "randn_like", "randint", "randperm", "bernoulli", "multinomial"}
)


_OF_EVEN = frozenset({"eq", "ne", "sum"})


class KnownValues:
    """The values of storages on the meta device, as far as they are known."""

    def __init__(self) -> None:
        self._by_storage: dict[int, tuple[torch.Tensor, torch.UntypedStorage]] = {}
        """The tensor is held on to: storages are told apart by address."""

        self._even: dict[int, tuple[torch.Tensor, float]] = {}
        """Storages with one number everywhere, too large to be written down."""

    def give_even(self, tensor: torch.Tensor, value: float) -> None:
        """Say that a tensor, however large, holds one number everywhere."""
        self._even[tensor.untyped_storage()._cdata] = (tensor, value)

    def give(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        """Say what a tensor on the meta device holds."""
        import torch

        storage = torch.UntypedStorage(tensor.untyped_storage().nbytes())
        self._by_storage[tensor.untyped_storage()._cdata] = (tensor, storage)
        known = self.of(tensor)
        assert known is not None
        known.copy_(value)

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """What a tensor holds; None if that is not known."""
        import torch

        if tensor.device.type != "meta":
            return tensor
        found = self._by_storage.get(tensor.untyped_storage()._cdata)
        if found is None:
            return None
        with torch.no_grad():
            empty = torch.empty(0, dtype=tensor.dtype, device="cpu")
            return empty.set_(found[1], tensor.storage_offset(), tensor.shape, tensor.stride())

    def run(
        self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], *, is_backward: bool = False
    ) -> tuple[Any, tuple[Any, ...]]:
        """What an operator returns, and the arguments it ran with; results follow from known arguments."""
        name = func._opname
        if name in _ASKS_NUMBER:
            return self._on_known(func, args, kwargs), args
        if name in _SIZED_BY_VALUES:
            return self._meta_like(self._on_known(func, args, kwargs)), args
        if name == "masked_select":
            return self._masked_select(*args), args
        if name == "index":
            args = (args[0], self._as_numbers(args[1]))
        if name == "_to_copy" and _leaves_meta(args[0], kwargs):
            if is_backward:  # the gradient of a number that was on no device of the model
                return args[0].new_empty(args[0].shape, device=kwargs["device"]), args
            return self._on_known(func, args, kwargs), args
        before = self._known(args, kwargs)
        out = func(*args, **kwargs)
        if self._even and name in _OF_EVEN and self._note_even(func, args, out):
            return out, args
        self._note(func, args, kwargs, before, out, is_backward)
        return out, args

    def _note_even(self, func: OpOverload, args: tuple[Any, ...], out: torch.Tensor) -> bool:
        """Work out what follows from one number everywhere: an image is not all zeros."""
        import torch

        source = self._even.get(args[0].untyped_storage()._cdata)
        if source is None or any(isinstance(value, torch.Tensor) for value in args[1:]):
            return False
        number = torch.tensor(source[1], dtype=args[0].dtype, device="cpu")
        if func._opname == "sum":
            count = args[0].numel() // max(out.numel(), 1)
            self.give(out, torch.full(out.shape, number.item() * count, dtype=out.dtype, device="cpu"))
        else:
            self.give_even(out, float(func(number, *args[1:])))
        return True

    def _note(
        self,
        func: OpOverload,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        known: tuple[Any, Any] | None,
        out: Any,
        is_backward: bool,
    ) -> None:
        """Work out what an operator's results hold, or forget what it wrote over."""
        import torch
        from torch.utils._pytree import tree_leaves

        if known is None and not func._schema.is_mutable:
            return
        made = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
        if not made or any(t.device.type != "meta" for t in made):
            return
        if func.is_view and not func._schema.is_mutable:
            return  # the storage is known or not, whatever looks at it
        is_small = all(t.numel() <= MAX_KNOWN_ELEMENTS for t in made)
        is_gradient = is_backward and any(t.is_floating_point() for t in made)
        is_random = func._opname.removesuffix("_") in _RANDOM or torch.Tag.nondeterministic_seeded in func.tags
        # What was never written is not known.
        is_blank = func._opname.startswith(("empty", "new_empty"))
        values: list[Any] | None = None
        if func._opname == "rand" and made[0].numel() == 1:
            # Drawn to skip a layer now and then; the chance is set to 0, so that any number does.
            values = [torch.full(made[0].shape, 0.5, dtype=made[0].dtype, device="cpu")]
        elif known is not None and is_small and not is_gradient and not is_random and not is_blank:
            try:
                values = tree_leaves(func(*known[0], **known[1]))
            except (RuntimeError, NotImplementedError, IndexError):
                values = None  # no kernel for it here: the value stays unknown
        if values is None:
            if func._schema.is_mutable:
                self._forget_written(func, args, kwargs)
            return
        values = [t for t in values if isinstance(t, torch.Tensor)]
        for tensor, value in zip(made, values, strict=False):
            if tensor.untyped_storage()._cdata not in self._by_storage and tensor.shape == value.shape:
                self.give(tensor, value)

    def _known(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
        """The arguments with values instead of tensors; None if one of them is not known."""
        import torch
        from torch.utils._pytree import tree_map

        if not self._are_known(args) or not self._are_known(kwargs.values()):
            return None

        def known(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return self.of(value)
            is_meta = isinstance(value, torch.device) and value.type == "meta"
            return torch.device("cpu") if is_meta else value

        found: tuple[Any, Any] = tree_map(known, (args, kwargs))
        return found

    def _are_known(self, values: Iterable[Any]) -> bool:
        """Whether all tensors among some arguments are known; lists are looked into."""
        import torch

        for value in values:
            if isinstance(value, torch.Tensor):
                is_meta = value.device.type == "meta"
                if is_meta and value.untyped_storage()._cdata not in self._by_storage:
                    return False
                if value.numel() > MAX_KNOWN_ELEMENTS:
                    return False
            elif isinstance(value, list | tuple) and not self._are_known(value):
                return False
        return True

    def _on_known(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        known = self._known(args, kwargs)
        if known is None:
            raise UnsupportedError(
                f"{func._opname.strip('_')} asks for a value that follows from the weights: it has none before training"
            )
        return func(*known[0], **known[1])

    def _meta_like(self, values: Any) -> Any:
        import torch
        from torch.utils._pytree import tree_map

        def made(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            tensor = torch.empty(value.shape, dtype=value.dtype, device="meta")
            self.give(tensor, value)
            return tensor

        return tree_map(made, values)

    def _masked_select(self, tensor: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        import torch

        known = self.of(mask)
        if known is None:
            raise UnsupportedError("masked_select chooses by a mask that follows from the weights")
        shape = torch.broadcast_shapes(tensor.shape, mask.shape)
        chosen = tensor.new_empty(int(known.expand(shape).sum()))
        values = self.of(tensor)
        if values is not None:
            self.give(chosen, torch.masked_select(values, known))
        return chosen

    def _as_numbers(self, indices: Any) -> list[Any]:
        """Indices with masks replaced by the positions they choose: their number is the result's size."""
        import torch

        found: list[Any] = []
        for index in indices:
            if isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8):
                known = self.of(index)
                if known is None:
                    raise UnsupportedError("a tensor is indexed by a mask that follows from the weights")
                found += [self._meta_like(where) for where in known.nonzero(as_tuple=True)]
            else:
                found.append(index)
        return found

    def _forget_written(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        import torch
        from torch.utils._pytree import tree_leaves

        for position, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            for tensor in tree_leaves(value):
                if isinstance(tensor, torch.Tensor):
                    self._by_storage.pop(tensor.untyped_storage()._cdata, None)


def _leaves_meta(source: torch.Tensor, kwargs: dict[str, Any]) -> bool:
    device = kwargs.get("device")
    return source.device.type == "meta" and device is not None and device.type != "meta"


def value_questions(known: KnownValues) -> dict[Callable[..., Any], Callable[..., Any]]:
    """Functions of torch that ask for values before any operator runs, and what answers them instead."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes
    from torch.utils._pytree import tree_map

    def ask(tensor: torch.Tensor) -> torch.Tensor:
        with _disable_current_modes():  # looking is no operator of the model
            value = known.of(tensor)
        if value is None:
            raise UnsupportedError("a tensor that follows from the weights is read in Python")
        return value.detach()

    def tolist(tensor: torch.Tensor) -> Any:
        return ask(tensor).tolist()

    def numpy(tensor: torch.Tensor, **kwargs: Any) -> Any:
        return ask(tensor).numpy(**kwargs)

    def tensor(data: Any, **kwargs: Any) -> torch.Tensor:
        data = tree_map(lambda item: ask(item).item() if isinstance(item, torch.Tensor) else item, data)
        made: torch.Tensor = torch.tensor(data, **kwargs)
        if made.device.type == "meta":
            kwargs = {key: value for key, value in kwargs.items() if key != "requires_grad"}
            value = torch.tensor(data, **{**kwargs, "device": "cpu"})
            known.give(made, value)
        return made

    return {torch.Tensor.tolist: tolist, torch.Tensor.numpy: numpy, torch.tensor: tensor}


@contextmanager
def watching(known: KnownValues) -> Iterator[None]:
    """Note the values of all constants that are made while the context is open."""
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    questions = value_questions(known)

    class Functions(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            return questions.get(func, func)(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            return known.run(func, args, kwargs or {})[0]

    with Functions(), Operators():  # type: ignore[no-untyped-call]
        yield
