"""A line of a table of measured runs, with errors that say where."""

from __future__ import annotations

import re

from rephaze.errors import SpecError
from rephaze.types.checks import check_count, whole_number

MOST = 1e24
"""Of any number; times and bytes of it stay finite."""
LEAST_S = 1e-9
LEAST_RATE = 1e-6
_LEAST = {"derived_iter_time_s": LEAST_S, "step_s": LEAST_S}
MAY_BE_ZERO = ("zero", "tp", "pp", "dp", "cp", "ep", "ffn")
"""Counts that tables leave at 0 for what is not used."""
MOST_BLOCKS = 4096
MOST_COUNT = 2**30
_NO_NUMBERS = ("nan", "inf", "-inf", "+inf", "infinity", "-infinity")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?|[+-]?\.[0-9]+", re.ASCII)


def is_numeric(text: str) -> bool:
    """Whether it reads as a number, or as what stands for one that is none."""
    return bool(_NUMBER.fullmatch(text)) or text.lower() in _NO_NUMBERS


def _most(column: str) -> int:
    return MOST_BLOCKS if column == "layers" else MOST_COUNT


class Row:
    """One line, with errors that say where."""

    def __init__(self, values: dict[str, str], file: str, line: int) -> None:
        self.values, self.file, self.line = values, file, line
        self.blanks: list[str] = []
        """Of what a run needs: it cannot be modelled."""

    def text(self, name: str) -> str:
        """Blank where the table has no such column."""
        return (self.values.get(name) or "").strip()

    def number(self, name: str, default: float | None = None) -> float:
        """What a blank stands for is ``default``; without one the run cannot be modelled."""
        text = self.text(name)
        if not text:
            if default is None:
                self.blanks.append(name)
                return 1.0
            return default
        if not _NUMBER.fullmatch(text):
            raise SpecError(f"{self.file}:{self.line} {name}", text, "is not a number")
        found = float(text)
        least = _LEAST.get(name, 0.0)
        if found and not least <= found <= MOST:
            rule = f"must be 0, or from {least:g} to {MOST:g}" if least else f"must be from 0 to {MOST:g}"
            raise SpecError(f"{self.file}:{self.line} {name}", text, rule)
        return found

    def count(self, name: str, default: int | None = None) -> int:
        """A whole number within the limits of its column."""
        field, found = f"{self.file}:{self.line} {name}", self.number(name, default)
        if found != int(found):
            raise SpecError(field, self.text(name), "must be a whole number")
        if self.text(name):
            check_count(field, int(found), at_least=0 if name in MAY_BE_ZERO else 1, at_most=_most(name))
        return int(found)

    def degree(self, name: str) -> int:
        """A count of which 0 says that it is not used."""
        return max(1, self.count(name))

    def rate(self, name: str) -> float:
        """A number that something is divided by."""
        found = self.number(name)
        if not found >= LEAST_RATE:
            rule = f"must be {LEAST_RATE:g} or more: a rate"
            raise SpecError(f"{self.file}:{self.line} {name}", self.text(name), rule)
        return found

    def note(self, pattern: str) -> str:
        """The first group of a pattern in the notes; blank where they do not have it."""
        found = re.search(pattern, self.text("notes") + "; " + self.text("remark"))
        return found.group(1) if found else ""

    def noted(self, pattern: str, default: int, *, at_least: int = 0) -> int:
        """A number that the notes state."""
        text = self.note(pattern)
        return self.stated("notes", text, at_least=at_least) if text else default

    def stated(self, name: str, text: str, *, at_least: int = 0) -> int:
        """A number within the text of a column."""
        field, found = f"{self.file}:{self.line} {name}", whole_number(text)
        if found is None:
            raise SpecError(field, text, "must be a whole number")
        check_count(field, found, at_least=at_least, at_most=MOST_COUNT)
        return found

    def word(self, name: str, *numbers: str) -> str:
        """Text of a column for words, in which these numbers alone mean something."""
        text = self.text(name)
        if text not in numbers and is_numeric(text):
            raise SpecError(f"{self.file}:{self.line} {name}", text, " or ".join(("must be a word", *numbers)))
        return text
