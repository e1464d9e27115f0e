"""``rephaze place``: the optimal plan for placement problems."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rephaze.cli.output import JsonOption, exit_code_of, print_json, stderr, stdout
from rephaze.cli.problems import answer_all

if TYPE_CHECKING:
    from rephaze.types.placement import PlanLimits


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("place", short_help="Spread a model's layers over a cluster, optimally.")(place)


def place(
    problems: Annotated[
        list[str],
        typer.Argument(help="Problem files: .json, or .jsonl with a problem a line.", metavar="PROBLEM"),
    ],
    why: Annotated[
        str,
        typer.Option(
            "--why", help="Compare with the best plan under these choices: tp, pp, dp, microbatch, recompute."
        ),
    ] = "",
    json: JsonOption = False,
) -> None:
    """Find the fastest plan: tensor, data and pipeline degrees, stages, microbatch size, recompute.

    Every answer is proven optimal, or says how far from it it may be. Exit code 3: nothing fits.

    Example: [bold]rephaze place gpt3.json --why tp=8,pp=4[/]
    """
    with nullcontext() if json else stderr.status("preparing the solver (compiled once, then cached)"):
        from rephaze.place.answer import warm_up
        from rephaze.place.compare import parse_limits

        limits = parse_limits(why) if why else None
        warm_up()
    statuses = []
    answers = answer_all([Path(name) for name in problems], lambda data: _answer(data, limits))
    while True:
        with nullcontext() if json else stderr.status("placing"):
            answered = next(answers, None)
        if answered is None:
            break
        label, answer = answered
        statuses.append(answer["status"])
        shown = answer.pop("_shown", None)
        if json:
            print_json(answer)
        elif shown is None:
            stderr.print(f"[bold red]error:[/] {label}: ", end="")
            stderr.print(answer["message"], markup=False, highlight=False, soft_wrap=True)
        else:
            from rephaze.cli.plan_view import show_placement

            show_placement(stdout, label, *shown)
    raise typer.Exit(exit_code_of(statuses))


def _answer(data: dict[str, Any], limits: PlanLimits | None) -> dict[str, Any]:
    from time import perf_counter

    from rephaze.place.answer import describe_solution
    from rephaze.place.compare import explain_alternative
    from rephaze.place.problem_file import parse_problem
    from rephaze.place.records import placement_record
    from rephaze.place.simulate import replayed_batch_s
    from rephaze.place.solver import Placer

    problem = parse_problem(data)
    start = perf_counter()
    placer = Placer(problem)
    solution = placer.solve()
    solve_s = perf_counter() - start
    placement = describe_solution(placer, solution)
    answer = placement_record(problem, placement) | {"solve_s": solve_s}
    replay_s = replayed_batch_s(problem, placement.best.plan) if placement.best is not None else None
    if placement.best is not None:
        answer["replay_s"] = replay_s
    alternative = None
    if limits is not None:
        alternative = explain_alternative(problem, placement, limits)
        answer["why"] = alternative.record()
    answer["_shown"] = (problem, placement, solve_s, replay_s, alternative)
    return answer
