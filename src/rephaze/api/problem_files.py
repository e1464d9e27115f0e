"""Problem files: several ``.json`` files, or ``.jsonl`` with a problem a line, answered in order.

A problem that cannot be read or breaks a rule is an answer too, of status ``error``; the others are still solved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rephaze.errors import FileError, RephazeError
from rephaze.types.files import parse_json, read_text

Problem = dict[str, Any]
MAX_PROBLEMS = 100_000
"""Lines of a ``.jsonl`` file."""


class Answer(Protocol):
    """What every answer to a problem can tell."""

    @property
    def status(self) -> str:
        """``optimal``, ``infeasible``, ``error`` and so on."""

    def record(self) -> dict[str, Any]:
        """The answer as plain data, ready to be written as JSON."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BadProblem:
    """A problem that has no answer because something is wrong with the problem."""

    message: str
    label: str
    """Of the problem: its file and, of several in a file, its line."""

    @property
    def status(self) -> str:
        """Always ``error``."""
        return "error"

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return {"status": self.status, "problem": self.label, "message": self.message}


AnswerT = TypeVar("AnswerT", bound=Answer)


def answer_all(
    paths: Iterable[str | Path], solve: Callable[[str, Problem], AnswerT]
) -> Iterator[tuple[str, AnswerT | BadProblem]]:
    """Yield (label, answer) for every problem in the files, in order.

    Args:
        paths: ``.json`` (one problem) or ``.jsonl`` (a problem a line; blank lines are passed over) files.
        solve: Answers a problem, given its label and its data; may raise ``RephazeError``.
    """
    for path in map(Path, paths):
        try:
            texts = list(_texts(path))
        except FileError as error:
            yield str(path), BadProblem(message=str(error), label=str(path))
            continue
        for label, text in texts:
            try:
                yield label, solve(label, parse_json(text, label))
            except RephazeError as error:
                yield label, BadProblem(message=str(error), label=label)


def _texts(path: Path) -> Iterator[tuple[str, str]]:
    text = read_text(path)
    if path.suffix != ".jsonl":
        yield path.name, text
        return
    lines = text.split("\n")
    if len(lines) > MAX_PROBLEMS:
        raise FileError(f"{path}: has {len(lines):,} lines; the most is {MAX_PROBLEMS:,}")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield f"{path.name} line {number}", line
