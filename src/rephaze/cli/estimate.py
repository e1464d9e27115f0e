"""``rephaze estimate``: operators on a chip, and GEMM mapping problems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rephaze.cli.output import JsonOption, exit_code_of, print_json, stderr, stdout
from rephaze.cli.problems import answer_all


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("estimate")(estimate)


def estimate(
    sources: Annotated[
        list[Path],
        typer.Argument(help="GEMM problems (.json, or .jsonl with a problem a line).", metavar="PROBLEM..."),
    ],
    json: JsonOption = False,
) -> None:
    """Time and energy of operators.

    Example: [bold]rephaze estimate problems.jsonl --json[/]
    """
    from rephaze.estimate.problem_file import answer_gemm_problem

    statuses = []
    for label, answer in answer_all(sources, answer_gemm_problem):
        statuses.append(answer["status"])
        if json:
            print_json(answer)
        else:
            _show_answer(label, answer)
    raise typer.Exit(exit_code_of(statuses))


def _show_answer(label: str, answer: dict[str, Any]) -> None:
    if answer["status"] == "error":
        stderr.print(f"[bold red]error:[/] {label}: ", end="")
        stderr.print(answer["message"], markup=False, highlight=False, soft_wrap=True)
    elif answer["status"] == "infeasible":
        stdout.print(f"[bold]{label}[/]: infeasible: {answer['reason']}", highlight=False)
    else:
        stdout.print(
            f"[bold]{label}[/]: {answer['cycles']:,.0f} cycles (bound {answer['bound_cycles']:,.0f}), "
            f"{answer['energy_pj'] * 1e-6:,.4g} uJ, {answer['solve_s'] * 1e3:.1f} ms",
            highlight=False,
        )
        for name, value in answer["mapping"].items():
            stdout.print(f"  {name.replace('_', ' ')}: {_plain(value)}", highlight=False)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(inner)}" for key, inner in value.items())
    return f"{value:,.0f}" if isinstance(value, float) else str(value)
