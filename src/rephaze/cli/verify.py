"""``rephaze verify``: a recorded answer derived again, slowly and independently."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rephaze.cli.output import ExitCode, JsonOption, print_json, stderr, stdout
from rephaze.cli.tables import new_table, print_table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify")(verify)


def verify(
    run: Annotated[Path, typer.Argument(help="The run folder a search wrote to.")],
    sample: Annotated[
        int, typer.Option(help="Dropped designs to solve exactly, for each bound.", metavar="N", min=0)
    ] = 3,
    json_output: JsonOption = False,
) -> None:
    """Check a run's answer: area, operators, schedules, plans, certificate, and a sample of what was dropped.

    Everything is derived again by the slow, independent evaluators. Exit code 0: all holds; 1: something does
    not, or there is no answer to check.

    Example:  rephaze verify RUN --sample 10
    """
    with stderr.status("loading the compiled kernels") as status:
        if json_output:
            status.stop()
        from rephaze.verify.run_check import verify_run

        checks = verify_run(run, sample=sample, on_progress=lambda doing: status.update(f"checking {doing}"))
    holds = all(check.passed for check in checks)
    if json_output:
        print_json({"run": str(run), "holds": holds, "checks": [asdict(check) for check in checks]})
    else:
        table = new_table(f"{run}")
        table.add_column("check")
        table.add_column("")
        table.add_column("looked at", justify="right")
        table.add_column("found", overflow="fold")
        from rich.markup import escape

        for check in checks:
            mark = "[green]pass[/]" if check.passed else "[bold red]FAIL[/]"
            table.add_row(escape(check.name), mark, f"{check.num_checked:,}", escape(check.detail))
        print_table(table)
        failed = sum(not check.passed for check in checks)
        said = (
            f"[green]all {len(checks)} checks hold[/]" if holds else f"[bold red]{failed} of {len(checks)} fail[/]"
        )
        stdout.print(said, highlight=False)
    if not holds:
        raise typer.Exit(ExitCode.ERROR)
