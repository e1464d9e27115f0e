"""``rephaze schedule``: proven per-layer schedules of problem files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rephaze.cli.output import JsonOption, exit_code_of, print_json, stderr, stdout
from rephaze.cli.problems import answer_all
from rephaze.errors import SpecError
from rephaze.types.schedule import Schedule, ScheduleProblem, ScheduleStatus

if TYPE_CHECKING:
    from rich.table import Table


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
    if not time_limit >= 0:
        raise SpecError("--time-limit", time_limit, "must be at least 0", "give seconds, for example 10")
    with stderr.status("loading the compiled search", spinner="dots") if not json else _Quiet():
        from rephaze.schedule.parts import Solver
        from rephaze.schedule.problem_file import answer_of, problem_from
        from rephaze.schedule.solve import ScheduleMemo, solve_problem
        from rephaze.schedule.warmup import compile_kernels

        compile_kernels()
    memo = ScheduleMemo()
    solved: dict[str, tuple[ScheduleProblem, Schedule]] = {}
    latest: list[tuple[ScheduleProblem, Schedule]] = []

    def solve(data: dict[str, Any]) -> dict[str, Any]:
        return solve_record(problem_from(data))

    def solve_record(problem: ScheduleProblem) -> dict[str, Any]:
        with stderr.status("scheduling", spinner="dots") if not json else _Quiet():
            found = solve_problem(
                problem,
                time_limit_s=time_limit,
                solver=Solver(solver.value),
                backend=backend.value,
                memo=memo,
            )
        latest.append((problem, found))
        return answer_of(found)

    if chip is None:
        answers = answer_all([Path(name) for name in problems], solve)
    else:
        with stderr.status("mapping operators", spinner="dots") if not json else _Quiet():
            found = _model_problems(problems, chip, scenario, layer, microbatch, tp)
        answers = ((label, solve_record(problem)) for label, problem in found)
    statuses = []
    for label, answer in answers:
        statuses.append(answer["status"])
        if answer["status"] != "error":
            solved[label] = latest.pop()
        if json:
            print_json(answer)
        elif answer["status"] == "error":
            stderr.print(f"[bold red]error:[/] {label}: ", end="")
            stderr.print(answer["message"], markup=False, highlight=False, soft_wrap=True)
        else:
            _show(label, *solved[label])
    if html is not None:
        from rephaze.report.gantt import write_gantt_html

        write_gantt_html(html, [(label, *pair) for label, pair in solved.items() if pair[1].starts])
    raise typer.Exit(exit_code_of(statuses))


def _model_problems(
    models: list[str], chip: str, scenario: str, layer: int | None, microbatch: int, tp: int
) -> list[tuple[str, ScheduleProblem]]:
    from rephaze.hardware.chip_file import load_chip
    from rephaze.hardware.scenarios import load_scenario
    from rephaze.measure.model_on_chip import layer_problems
    from rephaze.types.checks import check_count

    if len(models) != 1:
        raise SpecError("MODEL", models, "must be one model with --chip")
    check_count("microbatch", microbatch, at_most=2**20)
    check_count("tp", tp, at_most=2**20)
    chosen = load_chip(chip)
    return layer_problems(models[0], chosen, load_scenario(scenario), tp=tp, microbatch=microbatch, layer=layer)


def _show(label: str, problem: ScheduleProblem, found: Schedule) -> None:
    from rephaze.cli.gantt_text import gantt_lines

    if found.status is ScheduleStatus.INFEASIBLE:
        stdout.print(f"[bold]{label}[/]: infeasible: {found.reason}", highlight=False)
        return
    from rephaze.schedule.usage import usage_of

    usage = usage_of(problem, found)
    gap = 1 - found.bound_cycles / found.makespan_cycles if found.makespan_cycles else 0.0
    proof = "[green]proven optimal[/]" if found.status is ScheduleStatus.OPTIMAL else f"[yellow]gap {gap:.3%}[/]"
    stdout.print(
        f"[bold]{label}[/]: {found.makespan_cycles:,} cycles, {proof} (bound {found.bound_cycles:,}), "
        f"{found.solve_s * 1e3:.2f} ms",
        highlight=False,
    )
    stdout.print(
        f"tensor cores {usage.tensor_mean_utilization:.1%} on average, "
        f"peak {usage.tensor_peak_utilization:.0%}; "
        f"vector cores {usage.vector_mean_utilization:.1%}, peak {usage.vector_peak_utilization:.0%}; "
        f"link {usage.link_mean_utilization:.1%}",
        highlight=False,
    )
    stdout.print(_table(problem, found))
    for line in gantt_lines(problem, found, width=max(40, stdout.width)):
        stdout.print(line, highlight=False, no_wrap=True)


def _table(problem: ScheduleProblem, found: Schedule) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("op", "core", "mode"):
        table.add_column(heading)
    for heading in ("start", "cycles", "end"):
        table.add_column(heading, justify="right")
    ops = {op.name: op for op in problem.ops}
    for start in sorted(found.starts, key=lambda start: start.start_cycles):
        op = ops[start.op]
        cycles = getattr(op, f"{start.mode}_cycles")
        if cycles:
            table.add_row(
                op.name,
                op.engine.value,
                start.mode.replace("_", " "),
                f"{start.start_cycles:,}",
                f"{cycles:,}",
                f"{start.start_cycles + cycles:,}",
            )
    return table


class _Quiet:
    """Stands in for a progress display when output is JSON."""

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...
