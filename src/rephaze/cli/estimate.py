"""``rephaze estimate``: a model's operators on a chip, or GEMM mapping problems."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rephaze.cli.output import (
    JsonOption,
    MisuseError,
    exit_code_of,
    print_json,
    refuse_given,
    show_error,
    stdout,
    step_status,
    styled,
)
from rephaze.cli.tables import print_content
from rephaze.types.output_files import HTML_PAGE, check_output

if TYPE_CHECKING:
    from rephaze.api.operators import Estimate


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("estimate")(estimate)


def estimate(
    ctx: typer.Context,
    sources: Annotated[
        list[str],
        typer.Argument(
            help="A model of the zoo or a graph file, with --chip; or GEMM problems (.json, .jsonl).",
            metavar="MODEL|PROBLEM...",
        ),
    ],
    chip: Annotated[
        str | None, typer.Option("--chip", help="Preset or chip file; estimates a model's operators.")
    ] = None,
    microbatch: Annotated[int, typer.Option("--microbatch", help="Samples at once.")] = 1,
    tp: Annotated[int, typer.Option("--tp", help="Tensor-parallel degree.")] = 1,
    attention: Annotated[
        str, typer.Option("--attention", help="fused or eager, for models of the zoo.")
    ] = "fused",
    cost_model: Annotated[str, typer.Option("--cost-model", help="default or paper.")] = "default",
    scenario: Annotated[
        str, typer.Option("--scenario", help="Whose network the collectives run over.")
    ] = "default",
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the roofline to this file.", metavar="FILE")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Time and energy of a model's operators on a chip, or of GEMM mapping problems.

    Example: [bold]rephaze estimate gpt2-xl --chip tpuv4 --microbatch 4 --html roofline.html[/]
    """
    if html is not None:
        check_output(html, HTML_PAGE, (*sources, chip or "", scenario))
    from rephaze.api import estimate_model, list_models

    if chip is None:
        _answer_problems(ctx, [Path(source) for source in sources], json)
        return
    if len(sources) != 1:
        raise MisuseError("MODEL", sources, "one model at a time with --chip")
    if sources[0] not in list_models():
        refuse_given(ctx, ["attention"], "is for models of the zoo; a graph file has its own")

    with step_status("mapping operators", quiet=json):
        found = estimate_model(
            sources[0],
            chip,
            microbatch=microbatch,
            tp=tp,
            attention=attention,
            cost_model=cost_model,
            scenario=scenario,
        )
    if html is not None:
        found.write_roofline(html)
    if not json:
        _show_estimate(found)
        return
    for one in found.operators:
        print_json(asdict(one))


def _answer_problems(ctx: typer.Context, paths: list[Path], json: bool) -> None:
    from rephaze.api.operators import map_gemms
    from rephaze.api.problem_files import BadProblem

    for path in paths:
        if path.suffix not in (".json", ".jsonl"):
            raise MisuseError(
                "PROBLEM", str(path), "must be a .json or .jsonl file", "for a model, name the chip: --chip tpuv4"
            )
    of_models = ["microbatch", "tp", "attention", "cost_model", "scenario", "html"]
    refuse_given(ctx, of_models, "is for a model with --chip", "GEMM problems say all of it themselves")
    statuses = []
    for label, answer in map_gemms(paths):
        statuses.append(answer.status)
        if json:
            print_json(answer.record())
        elif isinstance(answer, BadProblem):
            show_error(label, answer.message)
        else:
            _show_answer(label, answer.record())
    raise typer.Exit(exit_code_of(statuses))


def _show_estimate(found: Estimate) -> None:
    from rephaze.api.views import estimate_sentences, operator_table

    print_content(operator_table(found))
    first, *more = estimate_sentences(found)
    stdout.print(styled((found.model, "bold"), first.removeprefix(found.model)))
    for sentence in more:
        stdout.print(sentence)


def _show_answer(label: str, answer: dict[str, Any]) -> None:
    if answer["status"] == "infeasible":
        stdout.print(styled((label, "bold"), f": infeasible: {answer['reason']}"))
    else:
        said = (
            f": {answer['cycles']:,.0f} cycles (bound {answer['bound_cycles']:,.0f}), "
            f"{answer['energy_pj'] * 1e-6:,.4g} uJ; mapped in {answer['solve_s'] * 1e3:.1f} ms"
        )
        stdout.print(styled((label, "bold"), said))
        for name, value in answer["mapping"].items():
            stdout.print(f"  {name.replace('_', ' ')}: {_plain(value)}")


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(inner)}" for key, inner in value.items())
    return f"{value:,.0f}" if isinstance(value, float) else str(value)
