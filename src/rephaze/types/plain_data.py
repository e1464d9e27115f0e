"""What plain data may be, whatever it is for: how deep, how large its numbers, which text.

Data that passes can be walked by recursion, its numbers fit 64 bits, and its text can be written to any file.
"""

from __future__ import annotations

import math
from typing import Any

from rephaze.errors import FileError

MAX_DEPTH = 64
"""Lists and objects within each other."""
MAX_WHOLE = 2**63
"""Whole numbers are smaller than this, with or without a sign."""
MAX_KEY_CHARS = 500
MAX_TEXT_CHARS = 100_000
MAX_PLACE_CHARS = 200
"""Of the path to a field in a message."""


def check_plain(data: Any, source: str, *, is_finite: bool = True) -> None:
    """Raise ``FileError`` at the first thing no file of ours can mean.

    Args:
        data: What a parser made of a file.
        source: Shown first in messages.
        is_finite: Whether numbers must be finite.
    """
    level, depth = [data], 0
    while level:
        depth += 1
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                for key in item:
                    _check_text(key, MAX_KEY_CHARS, "a key", source)
                below += item.values()
            elif kind is list:
                below += item
            elif kind is str:
                _check_text(item, MAX_TEXT_CHARS, "a text", source)
            elif kind is int:
                if not -MAX_WHOLE < item < MAX_WHOLE:
                    said = f"is a whole number of {item.bit_length():,} bits; {_DIGITS}"
                    raise FileError(f"{source}: {_place_of(data, item)} {said}")
            elif kind is float and is_finite and not math.isfinite(item):
                said = f"is {item}: is no number to reckon with; leave the field out for no limit"
                raise FileError(f"{source}: {_place_of(data, item)} {said}")
        if below and depth > MAX_DEPTH:
            raise FileError(f"{source}: lists and objects within each other over {MAX_DEPTH} deep")
        level = below


def _place_of(data: Any, wanted: Any) -> str:
    """Where a value is, as ``cluster.levels.0.bytes_per_s``; found by walking again, once something is wrong."""
    level: list[tuple[str, Any]] = [("", data)]
    while level:
        below: list[tuple[str, Any]] = []
        for path, item in level:
            if item is wanted:
                return path if len(path) <= MAX_PLACE_CHARS else f"...{path[-MAX_PLACE_CHARS:]}"
            inner = item.items() if type(item) is dict else enumerate(item) if type(item) is list else ()
            below += [(f"{path}.{key}".lstrip("."), value) for key, value in inner]
        level = below
    return "a value"


_DIGITS = "63, about 9.2e18, are the most"


def _check_text(text: str, at_most: int, what: str, source: str) -> None:
    if len(text) > at_most:
        raise FileError(
            f"{source}: {what} of {len(text):,} characters ({text[:20]!r}...); the most is {at_most:,}"
        )
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise FileError(f"{source}: {what} holds half of a character ({text[:40]!a})") from None
