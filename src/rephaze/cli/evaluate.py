"""``rephaze evaluate``: time and memory of a plan someone has in mind."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rephaze.cli.output import JsonOption, exit_code_of, print_json, stderr, stdout
from rephaze.cli.problems import answer_all


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
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Show what every stage does when (cost model 1f1b).")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Price a plan: the time of a batch, memory stage by stage, and what to change if it does not fit.

    A plan file is {"format": "rephaze.placement-plan/1", "problem": {...}, "plan": {"tp": 8, "dp": 16,
    "stages": [{"layers": ["embed", "block0"], "recompute": "stage"}]}}, the problem as rephaze place takes
    it. Exit code 3: the plan does not fit.

    Example: [bold]rephaze evaluate expert.json[/]
    """
    statuses = []
    for label, answer in answer_all(plans, lambda data: _answer(data, timeline)):
        statuses.append(answer["status"])
        shown = answer.pop("_shown", None)
        if json:
            print_json(answer)
        elif shown is None:
            stderr.print(f"[bold red]error:[/] {label}: ", end="")
            stderr.print(answer["message"], markup=False, highlight=False, soft_wrap=True)
        else:
            from rich.text import Text

            from rephaze.cli.plan_view import show_plan, show_timeline

            stdout.rule(Text(label))
            problem, priced = shown
            show_plan(stdout, problem, priced, "", answer["replay_s"])
            if "timeline" in answer:
                show_timeline(stdout, answer["timeline"])
            for remedy in answer.get("remedies", []):
                stdout.print(f"- {remedy}", markup=False, highlight=False)
    raise typer.Exit(exit_code_of(statuses))


def _answer(data: dict[str, Any], with_timeline: bool) -> dict[str, Any]:
    from rephaze.place.price import price_plan
    from rephaze.place.problem_file import parse_plan
    from rephaze.place.records import priced_record
    from rephaze.place.remedies import suggest_remedies
    from rephaze.place.simulate import replay_plan, replayed_batch_s

    problem, plan = parse_plan(data)
    priced = price_plan(problem, plan)
    answer = {
        "status": "feasible" if priced.fits else "infeasible",
        "batch_s": priced.batch_s,
        **priced_record(problem, priced),
        "replay_s": replayed_batch_s(problem, plan),
    }
    if not priced.fits:
        answer["remedies"] = suggest_remedies(problem, priced)
        answer["reason"] = answer["remedies"][0]
    if with_timeline and answer["replay_s"] is not None:
        answer["timeline"] = [asdict(event) for event in replay_plan(problem, plan).events]
    answer["_shown"] = (problem, priced)
    return answer
