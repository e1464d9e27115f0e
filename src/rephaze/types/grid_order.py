"""The order of values on the grid of a design space: what positions, and recorded boxes of them, refer to."""

from __future__ import annotations

from rephaze.types.space import DesignSpace

SIDES = ("tensor_width", "tensor_depth")


def value_runs(space: DesignSpace, field: str) -> list[list[int]]:
    """The values of a field in the order of the grid, in runs of which a box may have any range."""
    listed = getattr(space, field)
    if listed is None:
        return [[0]]
    values = sorted(listed)
    if field not in SIDES:
        return [values]
    # A side of another kind may be slower when it grows a little.
    regular = [value for value in values if is_regular_side(value)]
    others = [[value] for value in values if not is_regular_side(value)]
    return [regular, *others] if regular else others


def is_regular_side(side: int) -> bool:
    """Whether every longer side of an array is as fast: 2^i and 3 * 2^i are."""
    odd = side
    while odd % 2 == 0:
        odd //= 2
    return odd in (1, 3)
