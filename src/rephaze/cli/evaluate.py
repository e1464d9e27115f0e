"""``rephaze evaluate``: time and memory of a plan someone has in mind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rephaze.cli.exporting import OutOption, ToOption, check_out, only_one, write_exported
from rephaze.cli.output import JsonOption, exit_code_of, print_json, show_error, stdout


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate", short_help="Price a given plan: time, memory, what to change.")(evaluate)


def evaluate(
    plans: Annotated[
        list[Path],
        typer.Argument(
            help="Plan files (a problem and a plan): .json, or .jsonl with one a line.", metavar="PLAN"
        ),
    ],
    chip: Annotated[
        str | None,
        typer.Option(
            "--chip",
            help="Preset or chip file the problem was made for: adds what measured runs near the plan say and how "
            "stable the choice is (cost model full).",
        ),
    ] = None,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Show what every stage does when (not of cost model paper).")
    ] = False,
    to: ToOption = None,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """Price a plan: the time of a batch, memory stage by stage, and what to change if it does not fit.

    A plan file is {"format": "rephaze.placement-plan/1", "problem": {...}, "plan": {"tp": 8, "dp": 16,
    "stages": [{"layers": ["embed", "block0"], "recompute": "stage"}]}}, the problem as rephaze place takes
    it. Exit code 3: the plan does not fit.

    Examples: [bold]rephaze evaluate expert.json[/] |
    [bold]rephaze evaluate expert.json --to perfetto --out trace.json[/]
    """
    from rephaze.api import export_plan
    from rephaze.api.full_plans import FullAnswer
    from rephaze.api.plans import evaluate_plans
    from rephaze.api.problem_files import BadProblem

    check_out(to, out, json=json, num_files=len(plans))
    statuses = []
    for label, answer in only_one(evaluate_plans(plans, timeline=timeline, chip=chip), to):
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
        else:
            from rephaze.cli.plan_view import show_evaluated

            show_evaluated(stdout, label, answer)
    raise typer.Exit(exit_code_of(statuses))
