"""Checks shared by records: each raises ``SpecError`` with field, value, rule and fix."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from rephaze.errors import SpecError

_MOST_DIGITS = 18
_LONG = 10_000
"""Numbers from here are told with commas."""


def check_count(field: str, value: Any, *, at_least: int = 1, at_most: int = 2**40) -> None:
    """Raise unless ``value`` is a whole number in ``[at_least, at_most]`` (bools are not numbers)."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise SpecError(field, value, "must be a whole number")
    if not at_least <= value <= at_most:
        most = f"{at_most:,}" if at_most >= _LONG else str(at_most)
        raise SpecError(field, value, f"must be from {at_least} to {most}")


def whole_number(text: str) -> int | None:
    """The number that plain digits write, at most 18 of them; None of anything else.

    ``str.isdigit`` also takes superscripts, which ``int`` does not read, and thousands of digits, which it
    refuses.
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def check_number(
    field: str, value: Any, *, at_least: float = 0.0, at_most: float = math.inf, fix: str = ""
) -> None:
    """Raise unless ``value`` is a finite number in ``[at_least, at_most]``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SpecError(field, value, "must be a number", fix)
    if not math.isfinite(value):
        raise SpecError(field, value, "must be finite", fix)
    if not at_least <= value <= at_most:
        upper = "" if math.isinf(at_most) else f" and at most {at_most:g}"
        raise SpecError(field, value, f"must be at least {at_least:g}{upper}", fix)


def check_choice(field: str, value: Any, choices: Iterable[str]) -> None:
    """Raise unless ``value`` is one of ``choices``; the message proposes the nearest."""
    known = list(choices)
    if value not in known:
        raise SpecError(field, value, f"must be one of {', '.join(known)}", did_you_mean(value, known))


def did_you_mean(value: Any, known: Iterable[str]) -> str:
    """``did you mean 'x'?`` for the nearest known name, or an empty string."""
    near = get_close_matches(str(value), list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else ""


@contextmanager
def under(prefix: str) -> Iterator[None]:
    """What the block finds wrong is said with ``prefix`` before the field: ``run.toml: space.``."""
    try:
        yield
    except SpecError as error:
        raise SpecError(prefix + error.field, error.value, error.rule, error.fix) from None
