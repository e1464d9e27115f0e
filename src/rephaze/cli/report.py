"""``rephaze report``: a recorded run as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rephaze.cli.output import JsonOption, print_json, stdout, step_status


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(
    run: Annotated[Path, typer.Argument(help="The run folder a search wrote to.", metavar="RUN")],
    out: Annotated[
        Path | None, typer.Option(help="Page to write; by default report.html in the run.", metavar="FILE.html")
    ] = None,
    known_chips: Annotated[
        float,
        typer.Option(
            help="Seconds for measuring known chips that the run does not hold yet; it holds them then.",
            metavar="SECONDS",
            min=0.0,
        ),
    ] = 0.0,
    json_output: JsonOption = False,
) -> None:
    """Write a run's page: the answer, its certificate, the designs, known chips, the plans, a block's schedule.

    The page holds everything it needs and opens without a network.

    Example:  rephaze report runs/gpt2-xl --out gpt2-xl.html
    """
    from rephaze.api import open_run

    with step_status("reading the run", quiet=json_output) as on_step:
        path = open_run(run).report(out, known_chips_s=known_chips, on_step=on_step)
    if json_output:
        print_json({"run": str(run), "out": str(path)})
    else:
        stdout.print(f"report in {path}", soft_wrap=True)
