"""What passes make of a layer, kept: cuts of a model share most of their layers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Made = TypeVar("Made")


class MadeOnce(Generic[Made]):
    """What was made of a record, found again by the record itself and by how it was made.

    By the record, not by what it says: comparing two layers takes longer than many passes. The record is kept, so
    that no other takes its place.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[int, Hashable], tuple[object, Made]] = {}

    def get(self, source: object, how: Hashable, make: Callable[[], Made]) -> Made:
        """What was made of ``source`` this way; made now if it was not yet."""
        key = (id(source), how)
        if key not in self._made:
            self._made[key] = (source, make())
        return self._made[key][1]
