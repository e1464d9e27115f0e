"""``rephaze verify``: a recorded answer derived again, slowly and independently."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rephaze.cli.output import ExitCode, JsonOption, print_json, stdout, step_status, styled
from rephaze.cli.tables import print_content

if TYPE_CHECKING:
    from rephaze.api.search_results import Verification


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify")(verify)


def verify(
    run: Annotated[Path, typer.Argument(help="The run folder a search wrote to.")],
    sample: Annotated[
        int, typer.Option(help="Dropped designs to solve exactly, for each bound.", metavar="N", min=0)
    ] = 3,
    digest: Annotated[
        str | None,
        typer.Option(
            help="The run's last digest as verify showed it before, or its beginning (8 digits or more): "
            "then no change at all passes.",
            metavar="HEX",
        ),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Check a run: its rows by their digests, its answer, plans and certificate by deriving them again.

    Everything is derived by the slow, independent evaluators, also a sample of what was dropped. Exit code 0: all
    holds; 1: something does not, or there is no answer to check.

    Example:  rephaze verify RUN --sample 10
    """
    from rephaze.api import open_run

    if digest is not None and not re.fullmatch("[0-9a-fA-F]{8,64}", digest):
        raise typer.BadParameter("must be 8 to 64 hexadecimal digits", param_hint="--digest")
    with step_status("loading the compiled kernels", quiet=json_output) as on_step:
        found = open_run(run).verify(sample, digest=digest, on_step=lambda doing: on_step(f"checking {doing}"))
    if json_output:
        checks = [asdict(check) for check in found.checks]
        print_json({"run": str(run), "holds": found.holds, "checks": checks})
    else:
        _show(run, found)
    if not found.holds:
        raise typer.Exit(ExitCode.ERROR)


def _show(run: Path, found: Verification) -> None:
    from rephaze.api.search_views import check_table, verdict

    print_content(replace(check_table(found), title=str(run)))
    stdout.print(styled((verdict(found), "green" if found.holds else "bold red")))
