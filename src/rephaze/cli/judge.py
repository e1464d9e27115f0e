"""``rephaze judge``: how far a given chip or plan is from the proven best."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rephaze.cli.output import ExitCode, JsonOption, MisuseError, print_json, stdout, step_status

if TYPE_CHECKING:
    from rephaze.api.judging import Judgement


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("judge", short_help="How far a chip or a plan is from the proven best.")(judge)


def judge(
    plans: Annotated[list[Path] | None, typer.Argument(help="Plan files of format 2.", metavar="PLAN...")] = None,
    run: Annotated[Path | None, typer.Option(help="The run folder of a search, with --chip.")] = None,
    chip: Annotated[
        list[str] | None, typer.Option(help="Preset or chip file; may be given more than once.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Say how far a chip (with its own best plans) or a plan is from anything of its space, proven.

    A chip is set beside the bound of a recorded search, a plan beside the fastest of its problem's options and
    family. Exit code 3: nothing of it fits.

    Examples:  rephaze judge --run runs/gpt2-xl --chip tpuv4 --chip h100   |   rephaze judge plan.json
    """
    from rephaze.api.judging import judge_chip, judge_plan

    if bool(plans) == bool(chip):
        raise MisuseError("PLAN", [str(plan) for plan in plans or []], "give plan files, or --run and --chip")
    if bool(chip) != (run is not None):
        raise MisuseError(
            "--run",
            None if run is None else str(run),
            "goes with --chip",
            "rephaze judge --run FOLDER --chip tpuv4",
        )
    found: list[Judgement] = []
    with step_status("loading the compiled kernels", quiet=json_output) as on_step:
        found.extend(judge_plan(plan) for plan in plans or ())
        if run is not None:
            found.extend(judge_chip(run, name, on_step=on_step) for name in chip or ())
    for one in found:
        if json_output:
            print_json(one.record())
        else:
            stdout.print(str(one))
    if not all(one.objective for one in found):
        raise typer.Exit(ExitCode.INFEASIBLE)
