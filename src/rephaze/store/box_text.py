"""Boxes of designs as text: first and last position of each field, ``0-3 2-2 5-7``."""

from __future__ import annotations

import re

from rephaze.types.boxes import Position

_RANGE = re.compile(r"(\d{1,9})-(\d{1,9})")


def ranges_text(first: Position, last: Position) -> str:
    """The text of a box."""
    return " ".join(f"{low}-{high}" for low, high in zip(first, last, strict=True))


def ranges_of(text: str) -> tuple[Position, Position]:
    """The box of a text; ``ValueError`` if it is none."""
    found = [_RANGE.fullmatch(part) for part in text.split(" ")]
    pairs = [(int(one[1]), int(one[2])) for one in found if one is not None]
    if len(pairs) < len(found) or any(low > high for low, high in pairs):
        raise ValueError(f"{text[:60]!r} is no box of designs")
    return tuple(low for low, _ in pairs), tuple(high for _, high in pairs)
