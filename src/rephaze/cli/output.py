"""What every command shares: consoles, JSON lines, exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from enum import IntEnum
from typing import Annotated, Any

import typer
from rich.console import Console

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON (one object a line) instead of a table.")]

# Results go to stdout; progress and errors to stderr, so that pipes stay clean.
stdout = Console()
stderr = Console(stderr=True)


class ExitCode(IntEnum):
    """What the shell sees."""

    FOUND = 0
    ERROR = 1
    USAGE = 2
    INFEASIBLE = 3
    """Proven: nothing fits."""
    UNKNOWN = 4
    """Stopped before anything was found: there may be an answer or not."""


def print_json(record: dict[str, Any]) -> None:
    """Write one JSON object as one line to standard output."""
    sys.stdout.write(json.dumps(record, allow_nan=False, default=_plain) + "\n")
    sys.stdout.flush()


def exit_code_of(statuses: Iterable[str]) -> ExitCode:
    """The exit code for a batch of answers: any error, else anything infeasible, unknown, else found."""
    seen = set(statuses)
    if "error" in seen:
        return ExitCode.ERROR
    if "infeasible" in seen:
        return ExitCode.INFEASIBLE
    return ExitCode.UNKNOWN if seen & {"unknown", "cutoff"} else ExitCode.FOUND


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")
