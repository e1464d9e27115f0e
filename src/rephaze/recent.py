"""Memory with an end: a mapping that forgets what was not asked for in a while."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class Recent(MutableMapping[K, V]):
    """What was put in or asked for lately: at least half of ``most``, at most all of it.

    It is kept in two halves. When the newer is full it becomes the older, and the older is forgotten but for what
    was asked for meanwhile: no entry keeps a record of its own of when that was.

    Args:
        most: Entries.
    """

    __slots__ = ("_half", "_newer", "_older")

    def __init__(self, most: int) -> None:
        assert most >= 2
        self._half = most // 2
        self._newer: dict[K, V] = {}
        self._older: dict[K, V] = {}

    @overload
    def get(self, key: K, default: None = None, /) -> V | None: ...
    @overload
    def get(self, key: K, default: V, /) -> V: ...
    @overload
    def get(self, key: K, default: D, /) -> V | D: ...
    def get(self, key: K, default: object = None, /) -> object:
        """As of any mapping; what is there stays for longer."""
        if key in self._newer:
            return self._newer[key]
        if key not in self._older:
            return default
        value = self._older.pop(key)
        self[key] = value
        return value

    def __getitem__(self, key: K) -> V:
        if key not in self:
            raise KeyError(key)
        return self._newer[key] if key in self._newer else self._older[key]

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self._newer and len(self._newer) == self._half:
            self._newer, self._older = {}, self._newer
        self._older.pop(key, None)
        self._newer[key] = value

    def __delitem__(self, key: K) -> None:
        del (self._newer if key in self._newer else self._older)[key]

    def __contains__(self, key: object) -> bool:
        return key in self._newer or key in self._older

    def __iter__(self) -> Iterator[K]:
        yield from self._older
        yield from self._newer

    def __len__(self) -> int:
        return len(self._older) + len(self._newer)
