"""``rephaze schedule``: proven per-layer schedules of problem files."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rephaze.cli.output import JsonOption, exit_code_of, one_by_one, print_json, show_error, stdout, step_status
from rephaze.cli.tables import bare_table, filled
from rephaze.errors import SpecError
from rephaze.types.output_files import HTML_PAGE, check_output
from rephaze.types.schedule import ScheduleStatus
from rephaze.units import S_PER_MS

if TYPE_CHECKING:
    from rephaze.api.problem_files import BadProblem
    from rephaze.api.schedules import ScheduledPass


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
        raise SpecError("MODEL", problems, "must be one model with --chip")
    solved: dict[str, ScheduledPass] = {}
    statuses = []
    with step_status("loading the compiled search", quiet=json) as on_step:
        answers: Iterable[tuple[str, ScheduledPass | BadProblem]]
        if chip is None:
            answers = schedule_problems(
                problems,
                time_limit_s=time_limit,
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
                time_limit_s=time_limit,
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
    if html is not None:
        write_gantt(html, list(solved.values()))
    raise typer.Exit(exit_code_of(statuses))


def _show(found: ScheduledPass) -> None:
    from rephaze.api.views import start_table, usage_sentence
    from rephaze.cli.gantt_text import gantt_lines

    problem, schedule = found.problem, found.schedule
    if schedule.status is ScheduleStatus.INFEASIBLE:
        stdout.print(f"[bold]{found.label}[/]: infeasible: {schedule.reason}", highlight=False)
        return
    is_proven = schedule.status is ScheduleStatus.OPTIMAL
    proof = "[green]proven optimal[/]" if is_proven else f"[yellow]gap {found.gap:.3%}[/]"
    stdout.print(
        f"[bold]{found.label}[/]: {schedule.makespan_cycles:,} cycles, {proof} "
        f"(bound {schedule.bound_cycles:,}), {schedule.solve_s / S_PER_MS:.2f} ms",
        highlight=False,
    )
    stdout.print(usage_sentence(found), highlight=False)
    stdout.print(filled(bare_table(), start_table(found)))
    for line in gantt_lines(problem, schedule, width=max(40, stdout.width)):
        stdout.print(line, highlight=False, no_wrap=True)
