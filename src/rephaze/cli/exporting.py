"""Options ``--to`` and ``--out``, and how what is exported is written: to a file, or to standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from rephaze.cli.output import stderr
from rephaze.errors import SpecError
from rephaze.types.launch import ExportTarget

if TYPE_CHECKING:
    from rephaze.api.exports import Exported

Answer = TypeVar("Answer")
ToOption = Annotated[
    ExportTarget | None,
    typer.Option(
        "--to",
        help="Also write the plan: settings of a framework, a trace, the chip for Timeloop, a table, JSON. "
        "Without --out to standard output, instead of the answer.",
    ),
]
OutOption = Annotated[Path | None, typer.Option("--out", help="File for --to; replaced if it is there.")]


def check_out(to: ExportTarget | None, out: Path | None, *, json: bool, num_files: int) -> None:
    """Raise unless there is a place for what is asked for."""
    if to is None:
        if out is not None:
            raise SpecError("--out", str(out), "is for --to", f"add --to with one of {', '.join(ExportTarget)}")
        return
    _check_single(num_files)
    if out is None and to is ExportTarget.PARQUET:
        raise SpecError("--to", str(to), "cannot go to standard output", "add --out FILE")
    if out is None and json:
        raise SpecError("--json", "on", "prints the answer where --to would write", "add --out FILE")


def only_one(answers: Iterable[Answer], to: ExportTarget | None) -> Iterator[Answer]:
    """The answers; with ``--to`` the only one, refused before anything is written: a file takes one plan."""
    if to is None:
        yield from answers
        return
    first = list(islice(answers, 2))
    _check_single(len(first))
    yield from first


def _check_single(num_plans: int) -> None:
    if num_plans > 1:
        raise SpecError("--to", num_plans, "writes one plan, there are several", "give one problem at a time")


def write_exported(found: Exported, out: Path | None) -> None:
    """Write it, and say on standard error what it does not say."""
    if out is None:
        sys.stdout.write(found.text)
        sys.stdout.flush()
    else:
        found.write(out)
    for note in found.notes:
        stderr.print(f"{found.target}: {note}", markup=False, highlight=False, soft_wrap=True)
