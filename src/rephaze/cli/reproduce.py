"""``rephaze reproduce``: published claims beside our figures, written as a page."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rephaze.api.reproducing import PAPER_TIME_LIMIT_S
from rephaze.cli.compare import step_progress
from rephaze.cli.output import JsonOption, print_json, stdout, step_status

if TYPE_CHECKING:
    from rephaze.api.reproducing import ReproducedPaper
    from rephaze.api.reproducing_nest import ReproducedNest


class Work(StrEnum):
    """What can be reproduced."""

    PAPER = "paper"
    NEST = "nest"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("reproduce")(reproduce)


def reproduce(
    what: Annotated[Work, typer.Argument(help="paper: the ICML 2024 paper's claims; nest: NEST's scenarios.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder that keeps the work; runs/reproduce-WHAT unless given.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Markdown page to write; docs/WHAT.md unless given.", metavar="FILE")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Only this model; give it again for more. All unless given.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            help="Of paper: only this setting (paper, 'paper, mixed units', 'default, gpt2-xl', default, "
            "'calibrated, gpt2-xl', calibrated); give it again for more."
        ),
    ] = None,
    max_chips: Annotated[int | None, typer.Option(help="Of nest: leave larger clusters out.", min=1)] = None,
    time_limit: Annotated[
        float, typer.Option(help="Of paper: seconds for all settings; searches it cuts have a gap.", metavar="S")
    ] = PAPER_TIME_LIMIT_S,
    workers: Annotated[int, typer.Option(help="Of paper: processes of each search.", min=1)] = 2,
    json_output: JsonOption = False,
) -> None:
    """Set published claims beside what we find, and write docs/paper.md or docs/nest.md.

    What is done is kept in the folder: called again, proven searches and planned cells are read, the rest goes on.

    Examples:  rephaze reproduce paper   |   rephaze reproduce nest --max-chips 256 --page nest.md
    """
    folder = out or Path("runs") / f"reproduce-{what}"
    to = page or Path("docs") / f"{what}.md"
    if what is Work.PAPER:
        _refuse(max_chips is not None, "--max-chips", "nest")
        from rephaze.api.reproducing import reproduce_paper

        with step_progress(quiet=json_output) as on_step:
            paper = reproduce_paper(
                folder,
                to,
                models=model or (),
                settings=setting or (),
                num_workers=workers,
                time_limit_s=time_limit,
                on_step=on_step,
            )
        print_json(paper.record()) if json_output else stdout.print(
            str(paper), highlight=False, markup=False, soft_wrap=True
        )
        return
    _refuse(setting is not None, "--setting", "paper")
    _refuse(time_limit != PAPER_TIME_LIMIT_S, "--time-limit", "paper")
    from rephaze.api.reproducing_nest import reproduce_nest

    with step_status("reading NEST's scenarios", quiet=json_output) as on_cell:
        nest = reproduce_nest(folder, to, models=model or (), max_devices=max_chips, on_step=on_cell)
    print_json(nest.record()) if json_output else stdout.print(
        str(nest), highlight=False, markup=False, soft_wrap=True
    )


def _show(found: ReproducedPaper | ReproducedNest, json_output: bool) -> None:
    if json_output:
        print_json(found.record())
    else:
        stdout.print(str(found), highlight=False, markup=False, soft_wrap=True)


def _refuse(is_given: bool, option: str, only_of: str) -> None:
    if is_given:
        raise typer.BadParameter(f"is for reproduce {only_of}", param_hint=option)
