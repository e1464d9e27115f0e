"""``rephaze place``: the optimal plan for placement problems."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from rephaze.cli.exporting import OutOption, ToOption, check_out, only_one, write_exported
from rephaze.cli.nearest import show_nearest
from rephaze.cli.output import (
    JsonOption,
    MisuseError,
    exit_code_of,
    one_by_one,
    print_json,
    refuse_given,
    show_error,
    stdout,
    step_status,
)
from rephaze.cli.physics_option import PhysicsOption

if TYPE_CHECKING:
    from rephaze.api.plan_results import PlacedModel
    from rephaze.api.problem_files import BadProblem


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("place", short_help="Spread a model's layers over a cluster, optimally.")(place)


def place(
    ctx: typer.Context,
    problems: Annotated[
        list[str],
        typer.Argument(
            help="Problem files (.json, .jsonl with a problem a line); or one model, with --chip.",
            metavar="PROBLEM...|MODEL",
        ),
    ],
    chip: Annotated[
        str | None, typer.Option("--chip", help="Preset or chip file: estimates, schedules and places a model.")
    ] = None,
    devices: Annotated[int | None, typer.Option("--devices", help="Chips in the cluster, with --chip.")] = None,
    global_batch: Annotated[int | None, typer.Option("--global-batch", help="Samples in a batch.")] = None,
    scenario: Annotated[
        str, typer.Option("--scenario", help="Network, training and models of cost, with --chip.")
    ] = "default",
    family: Annotated[
        str | None,
        typer.Option(
            "--family",
            help="Plans that can be launched: any, exact, megatron, torchtitan, maxtext; not with scenario coarse "
            "or paper.",
        ),
    ] = None,
    physics: PhysicsOption = None,
    why: Annotated[
        str,
        typer.Option(
            "--why",
            help="Compare with the best plan under these choices: tp, pp, dp, microbatch, recompute; of scenario "
            "default and files of format 2 any decision, or family for what it costs that plans can be launched.",
        ),
    ] = "",
    to: ToOption = None,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """Find the fastest plan: tensor, data and pipeline degrees, stages, microbatch size, recompute.

    Every answer is proven optimal, or says what is not proven and how far from the optimum it may be. Exit code 3:
    nothing fits; 4: the work limit was reached before a plan was found.

    Examples: [bold]rephaze place gpt3.json --why tp=8,pp=4[/] |
    [bold]rephaze place llama.json --why sharding=weights,schedule=1f1b[/] |
    [bold]rephaze place gpt3-175b --chip tpuv4 --devices 1024 --global-batch 4096[/] |
    [bold]rephaze place llama3-70b --chip h100 --family megatron --to megatron --out launch.sh[/]
    """
    from rephaze.api import export_plan, place_model
    from rephaze.api.full_plans import FullAnswer
    from rephaze.api.plans import place_problems
    from rephaze.api.problem_files import BadProblem

    if not why.strip():
        refuse_given(ctx, ["why"], "must name a choice", "for example --why tp=8,pp=4")
    if chip is None:
        of_models = ["devices", "global_batch", "scenario", "family", "physics"]
        refuse_given(ctx, of_models, "is for a model with --chip", "problem files say all of it themselves")
    elif len(problems) != 1:
        raise MisuseError("MODEL", problems, "must be one model with --chip")
    check_out(to, out, json=json, num_files=len(problems))
    statuses = []
    with step_status("preparing the solver (compiled once, then cached)", quiet=json) as on_step:
        answers: Iterable[tuple[str, PlacedModel | FullAnswer | BadProblem]]
        if chip is None:
            answers = place_problems(problems, why=why, on_step=on_step)
        else:
            placed = place_model(
                problems[0],
                chip,
                num_devices=devices,
                global_batch=global_batch,
                scenario=scenario,
                why=why or None,
                family=family,
                physics=physics,
                on_step=on_step,
            )
            answers = [(placed.label, placed)]
    for label, answer in only_one(one_by_one(answers, "placing", quiet=json), to):
        statuses.append(answer.status)
        if to is not None and not isinstance(answer, BadProblem):
            write_exported(export_plan(answer, to), out)
            if out is None:
                continue
        if json:
            print_json(answer.record())
        elif isinstance(answer, BadProblem):
            show_error(label, answer.message)
        elif isinstance(answer, FullAnswer):
            from rephaze.cli.plan_view import show_full

            show_full(stdout, answer)
            show_nearest(stdout, answer)
        else:
            from rephaze.cli.plan_view import show_placement

            show_placement(stdout, answer)
            show_nearest(stdout, answer)
    raise typer.Exit(exit_code_of(statuses))
