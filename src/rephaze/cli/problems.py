"""Problem files: several ``.json`` files, or ``.jsonl`` with a problem a line, solved in order.

A bad problem becomes ``{"status": "error", "message": ...}``; the others are still solved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rephaze.errors import FileError, RephazeError
from rephaze.types.files import parse_json, read_text

Problem = dict[str, Any]
Answer = dict[str, Any]


def answer_all(paths: list[Path], solve: Callable[[Problem], Answer]) -> Iterator[tuple[str, Answer]]:
    """Yield (label, answer) for every problem in the files, in order.

    Args:
        paths: ``.json`` (one problem) or ``.jsonl`` (a problem a line; blank lines are passed over) files.
        solve: Takes a problem, returns an answer with a ``status``; may raise ``RephazeError``.
    """
    for path in paths:
        try:
            texts = list(_texts(path))
        except FileError as error:
            yield str(path), {"status": "error", "message": str(error)}
            continue
        for label, text in texts:
            try:
                yield label, solve(parse_json(text, label))
            except RephazeError as error:
                yield label, {"status": "error", "message": str(error)}


def _texts(path: Path) -> Iterator[tuple[str, str]]:
    text = read_text(path)
    if path.suffix != ".jsonl":
        yield path.name, text
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield f"{path.name} line {number}", line
