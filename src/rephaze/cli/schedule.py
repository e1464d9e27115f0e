"""``rephaze schedule``: proven per-layer schedules of problem files."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rephaze.cli.output import (
    JsonOption,
    MisuseError,
    exit_code_of,
    one_by_one,
    print_json,
    refuse_given,
    seconds,
    show_error,
    stdout,
    step_status,
    styled,
)
from rephaze.cli.tables import print_content
from rephaze.types.output_files import HTML_PAGE, check_output
from rephaze.types.schedule import ScheduleStatus

if TYPE_CHECKING:
    from rephaze.api.problem_files import BadProblem
    from rephaze.api.schedules import ScheduledPass


WIDEST_GANTT = 160


class SolverChoice(StrEnum):
    """Methods a user can ask for."""

    AUTO = "auto"
    SEARCH = "search"
    CPSAT = "cpsat"
    ILP = "ilp"


class BackendChoice(StrEnum):
    """Solvers of the integer program."""

    SCIP = "scip"
    HIGHS = "highs"
    CP_SAT = "cp_sat"
    GUROBI = "gurobi"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("schedule")(schedule)


def schedule(
    ctx: typer.Context,
    problems: Annotated[
        list[str],
        typer.Argument(
            help="Problem files (.json, .jsonl with a problem a line); or one model, with --chip.",
            metavar="PROBLEM...|MODEL",
        ),
    ],
    chip: Annotated[
        str | None, typer.Option("--chip", help="Preset or chip file: schedules a layer of the model on it.")
    ] = None,
    layer: Annotated[
        int | None, typer.Option("--layer", help="Which layer of the model; default: the kind that repeats most.")
    ] = None,
    microbatch: Annotated[int, typer.Option("--microbatch", help="Samples at once, with --chip.")] = 1,
    tp: Annotated[int, typer.Option("--tp", help="Tensor-parallel degree, with --chip.")] = 1,
    scenario: Annotated[
        str, typer.Option("--scenario", help="Cost model, rules and network, with --chip.")
    ] = "default",
    time_limit: Annotated[
        float,
        typer.Option(
            "--time-limit", help="Seconds a problem; a valid schedule comes back in any case.", metavar="S"
        ),
    ] = 10.0,
    solver: Annotated[
        SolverChoice,
        typer.Option("--solver", help="auto: search and CP-SAT in turns. ilp: the paper's integer program."),
    ] = SolverChoice.AUTO,
    backend: Annotated[
        BackendChoice, typer.Option("--backend", help="Solver of the integer program.")
    ] = BackendChoice.SCIP,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the Gantt charts to this file.", metavar="FILE")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Schedule the operators of a layer on the cores of a chip, with a proof.

    Examples: [bold]rephaze schedule block.json --html block.html[/] |
    [bold]rephaze schedule llama2-7b --chip tpuv4 --microbatch 2[/]
    """
    from rephaze.api import schedule_model
    from rephaze.api.problem_files import BadProblem
    from rephaze.api.schedules import schedule_problems, write_gantt

    if html is not None:
        check_output(html, HTML_PAGE, (*problems, chip or "", scenario))
    if chip is not None and len(problems) != 1:
        raise MisuseError("MODEL", problems, "must be one model with --chip")
    if chip is None:
        refuse_given(ctx, ["layer", "microbatch", "tp", "scenario"], "is for a model with --chip")
    if solver is not SolverChoice.ILP:
        refuse_given(ctx, ["backend"], "is for --solver ilp")
    limit_s = seconds("--time-limit", time_limit)
    solved: dict[str, ScheduledPass] = {}
    statuses = []
    with step_status("loading the compiled search", quiet=json) as on_step:
        answers: Iterable[tuple[str, ScheduledPass | BadProblem]]
        if chip is None:
            answers = schedule_problems(
                problems,
                time_limit_s=limit_s,
                solver=solver.value,
                backend=backend.value,
                on_step=on_step,
            )
        else:
            found = schedule_model(
                problems[0],
                chip,
                layer=layer,
                microbatch=microbatch,
                tp=tp,
                scenario=scenario,
                time_limit_s=limit_s,
                solver=solver.value,
                backend=backend.value,
                on_step=on_step,
            )
            answers = ((one.label, one) for one in found.passes)
    for label, answer in one_by_one(answers, "scheduling", quiet=json):
        statuses.append(answer.status)
        if not isinstance(answer, BadProblem):
            solved[label] = answer
        if json:
            print_json(answer.record())
        elif isinstance(answer, BadProblem):
            show_error(label, answer.message)
        else:
            _show(answer)
    if html is not None and solved:
        write_gantt(html, list(solved.values()))
    raise typer.Exit(exit_code_of(statuses))


def _show(found: ScheduledPass) -> None:
    from rephaze.api.views import headline_parts, start_table, usage_sentence
    from rephaze.cli.gantt_text import gantt_lines

    problem, schedule = found.problem, found.schedule
    if schedule.status is ScheduleStatus.INFEASIBLE:
        stdout.print(styled((found.label, "bold"), f": infeasible: {schedule.reason}"))
        return
    is_proven = schedule.status is ScheduleStatus.OPTIMAL
    length, proof, rest = headline_parts(found)
    stdout.print(
        styled((found.label, "bold"), f": {length}, ", (proof, "green" if is_proven else "yellow"), f" {rest}")
    )
    stdout.print(usage_sentence(found))
    print_content(start_table(found))
    for line in gantt_lines(problem, schedule, width=min(max(40, stdout.width), WIDEST_GANTT)):
        stdout.print(line, no_wrap=True)
