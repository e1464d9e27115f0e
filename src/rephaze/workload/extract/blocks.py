"""The repeated blocks of a module: found, told apart, and cut down to the few that must run.

A 96-block model is traced with three blocks: blocks with equal signatures do equal work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

Signature = tuple[tuple[object, ...], ...]
"""For each module of a block: its name, class, settings and parameters' shapes."""

MAX_TRACED_PER_SIGNATURE = 3
"""They run as first, middle and last: gradients are summed a little differently at the ends of a stack."""

_POSITION_NAMES = frozenset({"layer_idx", "layer_id", "layer_number", "layer_index", "block_idx", "idx", "index"})


_PLACE_LISTS = ("fullatt_block_indexes", "deepstack_visual_indexes")
"""Settings of the module around a stack that single out blocks by their place."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A sequence of blocks in a module."""

    path: str
    signatures: tuple[int, ...]
    """For each block, a number that equal blocks share."""
    traced: tuple[int, ...]
    """Positions of the blocks that run in the cut-down module, ascending."""

    @property
    def num_blocks(self) -> int:
        """Blocks in the whole model."""
        return len(self.signatures)


def find_stacks(module: torch.nn.Module) -> tuple[Stack, ...]:
    """The outermost sequences of like blocks, in the order the module holds them."""
    return tuple(_stacks_below(module, ""))


@contextmanager
def only_traced_blocks(module: torch.nn.Module, stacks: tuple[Stack, ...]) -> Iterator[None]:
    """Let the module hold only the blocks to trace while the context is open."""
    removed: list[tuple[torch.nn.Module, dict[str, torch.nn.Module | None]]] = []
    try:
        for stack in stacks:
            holder = module.get_submodule(stack.path)
            blocks = dict(holder._modules)
            removed.append((holder, blocks))
            kept = [block for i, block in enumerate(blocks.values()) if i in stack.traced]
            holder._modules.clear()
            holder._modules.update({str(i): block for i, block in enumerate(kept)})
        yield
    finally:
        for holder, blocks in removed:
            holder._modules.clear()
            holder._modules.update(blocks)


def uncut(stacks: tuple[Stack, ...]) -> tuple[Stack, ...]:
    """The same stacks with every block traced: for modules that cannot run without some of them."""
    return tuple(Stack(path=s.path, signatures=s.signatures, traced=tuple(range(s.num_blocks))) for s in stacks)


def _stacks_below(module: torch.nn.Module, path: str) -> Iterator[Stack]:
    for name, child in module.named_children():
        child_path = f"{path}.{name}" if path else name
        if _is_stack(child):
            stack = _stack(child, child_path)
            # What a block does may depend on its place: then none can stand for another.
            yield uncut((stack,))[0] if any(hasattr(module, key) for key in _PLACE_LISTS) else stack
        else:
            yield from _stacks_below(child, child_path)


def _is_stack(module: torch.nn.Module) -> bool:
    import torch

    if not isinstance(module, torch.nn.ModuleList | torch.nn.Sequential):
        return False
    blocks = list(module.children())
    return (
        len(blocks) >= 2
        and len({type(block) for block in blocks}) == 1
        # A lone linear layer is an operator, not a block.
        and all(any(True for _ in block.children()) for block in blocks)
        and all(any(True for _ in block.parameters()) for block in blocks)
    )


def _stack(module: torch.nn.Module, path: str) -> Stack:
    numbers: dict[Signature, int] = {}
    signatures = tuple(numbers.setdefault(_signature(block), len(numbers)) for block in module.children())
    places: dict[int, list[int]] = defaultdict(list)
    for position, signature in enumerate(signatures):
        places[signature].append(position)
    traced = sorted(p for same in places.values() for p in same[:MAX_TRACED_PER_SIGNATURE])
    return Stack(path=path, signatures=signatures, traced=tuple(traced))


def _signature(block: torch.nn.Module) -> Signature:
    """All that decides which operators a block runs: classes, shapes and settings, but not its position."""
    parts: list[tuple[object, ...]] = []
    for name, child in block.named_modules():
        settings = tuple(
            sorted(
                (key, _plain(value))
                for key, value in vars(child).items()
                if not key.startswith("_") and key not in _POSITION_NAMES and _plain(value) is not None
            )
        )
        shapes = tuple((key, tuple(p.shape)) for key, p in child.named_parameters(recurse=False))
        parts.append((name, type(child).__qualname__, settings, shapes))
    return tuple(parts)


def _plain(value: object) -> str | None:
    """A setting as text if it is a number, a text, a tuple or a function; None for anything else."""
    if isinstance(value, bool | int | float | str | tuple):
        return repr(value)
    return getattr(value, "__qualname__", None) if callable(value) else None
