"""What every command shares: consoles, JSON lines, exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console

T = TypeVar("T")
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


def show_error(label: str, message: str) -> None:
    """One line on standard error about one of several problems."""
    stderr.print(f"[bold red]error:[/] {label}: ", end="")
    stderr.print(message, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def step_status(first: str, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A line on the terminal that says what is being done; yields what to call when that changes."""
    if quiet:
        yield lambda _step: None
        return
    from rich.markup import escape

    with stderr.status(escape(first)) as status:
        yield lambda step: status.update(escape(step))


def one_by_one(answers: Iterable[T], doing: str, *, quiet: bool) -> Iterator[T]:
    """The answers, under a line on the terminal while the next is worked out and none while it is shown."""
    remaining = iter(answers)
    while True:
        with step_status(doing, quiet=quiet):
            try:
                found = next(remaining)
            except StopIteration:
                return
        yield found


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no JSON form")
