"""What every command shares: consoles, JSON lines, exit codes, and what is no use to ask for."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console, ConsoleDimensions
from rich.segment import Segment
from rich.text import Text

from rephaze.api.present import printable
from rephaze.errors import SpecError

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderableType

T = TypeVar("T")
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON (one object a line) instead of a table.")]

PIPED_WIDTH = 100_000
"""Columns where no terminal says how many it has: sentences stay on one line, tables are as wide as they are."""
LINE_EVERY_S = 10.0
"""Progress that is redirected is a line now and then."""


class PlainConsole(Console):
    """A console that shows text as it is: names that users chose are neither markup nor commands to a terminal.

    Every character that a terminal would obey is replaced as it is drawn, so that no print needs to think of it.
    What has a style is a ``Text`` (``styled``).
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)
        # What ``COLUMNS`` says is asked for at each print: it may change while a process lives.
        self._width = self._height = None

    @property
    def size(self) -> ConsoleDimensions:
        """Of the terminal, or as ``COLUMNS`` says; wide enough for anything if neither does."""
        found = super().size
        told = self.is_terminal or os.environ.get("COLUMNS", "").isdigit()
        return found if told else ConsoleDimensions(PIPED_WIDTH, found.height)

    @size.setter
    def size(self, size: tuple[int, int]) -> None:
        self._width, self._height = size

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Everything that is printed comes through here, piece by piece."""
        for piece in super().render(renderable, options):
            if piece.control or piece.text.isprintable() or piece.text == "\n":
                yield piece
            else:
                shown = "\n".join(map(printable, piece.text.split("\n")))
                yield Segment(shown, piece.style)


# Results go to stdout; progress and errors to stderr, so that pipes stay clean.
stdout = PlainConsole()
stderr = PlainConsole(stderr=True)


def styled(*parts: str | tuple[str, str]) -> Text:
    """One text of pieces, each as it is or with a style."""
    return Text.assemble(*parts)


class MisuseError(SpecError):
    """Options that contradict each other, or that what was given has no use for; exit code 2."""


def refuse_given(ctx: typer.Context, names: Iterable[str], rule: str, fix: str = "") -> None:
    """Raise if one of these options was given: what is asked for and not heeded would be a wrong answer.

    Args:
        ctx: Of the command.
        names: Parameters of the command.
        rule: What they are for.
        fix: What to do instead.
    """
    by_name = {param.name: param for param in ctx.command.params}
    for name in names:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT"):
            option = max(by_name[name].opts, key=len)
            raise MisuseError(option, ctx.params[name], rule, fix)


def seconds(option: str, value: float | None) -> float:
    """A time limit as it was given; infinity if there is none."""
    if value is None:
        return math.inf
    if not value >= 0:
        raise MisuseError(option, value, "must be zero or more seconds")
    return value


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
    stderr.print(styled(("error:", "bold red"), f" {label}: {message.removeprefix(f'{label}: ')}"), soft_wrap=True)


@contextmanager
def step_status(first: str, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A line on the terminal that says what is being done; yields what to call when that changes.

    Where progress is redirected, a line is written when the step changes, at most one every ten seconds.
    """
    if quiet:
        yield lambda _step: None
        return
    if not stderr.is_terminal:
        last = monotonic()

        def write(step: str) -> None:
            nonlocal last
            if monotonic() - last >= LINE_EVERY_S:
                last = monotonic()
                stderr.print(step, soft_wrap=True)

        yield write
        return
    with stderr.status(Text(first)) as status:
        yield lambda step: status.update(Text(step))


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
