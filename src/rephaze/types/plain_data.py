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


def check_plain(data: Any, source: str) -> None:
    """Raise ``FileError`` at the first thing no file of ours can mean.

    Args:
        data: What a parser made of a file.
        source: Shown first in messages.
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
                    raise FileError(f"{source}: holds a whole number of {item.bit_length():,} bits; {_DIGITS}")
            elif kind is float and not math.isfinite(item):
                raise FileError(f"{source}: {item} is no number to reckon with; leave the field out for no limit")
        if below and depth > MAX_DEPTH:
            raise FileError(f"{source}: lists and objects within each other over {MAX_DEPTH} deep")
        level = below


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
