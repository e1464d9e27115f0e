"""``rephaze estimate``: a model's operators on a chip, or GEMM mapping problems."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rephaze.cli.output import JsonOption, exit_code_of, print_json, stderr, stdout
from rephaze.cli.problems import answer_all
from rephaze.cli.tables import new_table, print_table
from rephaze.errors import SpecError

if TYPE_CHECKING:
    from rich.table import Table

    from rephaze.types.operator_estimate import OperatorEstimate

JOULES_TO_UJ = 1e6
S_TO_US = 1e6


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("estimate")(estimate)


def estimate(
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
    if chip is None:
        _answer_problems([Path(source) for source in sources], json)
    if len(sources) != 1:
        raise SpecError("MODEL", sources, "one model at a time with --chip")
    _estimate_model(sources[0], chip or "", microbatch, tp, attention, cost_model, scenario, html, json)


def _answer_problems(paths: list[Path], json: bool) -> None:
    for path in paths:
        if path.suffix not in (".json", ".jsonl"):
            raise SpecError(
                "PROBLEM", str(path), "must be a .json or .jsonl file", "for a model, name the chip: --chip tpuv4"
            )
    from rephaze.estimate.problem_file import answer_gemm_problem

    statuses = []
    for label, answer in answer_all(paths, answer_gemm_problem):
        statuses.append(answer["status"])
        if json:
            print_json(answer)
        else:
            _show_answer(label, answer)
    raise typer.Exit(exit_code_of(statuses))


def _estimate_model(
    name: str,
    chip_name: str,
    microbatch: int,
    tp: int,
    attention: str,
    cost_model: str,
    scenario: str,
    html: Path | None,
    json: bool,
) -> None:
    from rephaze.hardware.chip_file import load_chip
    from rephaze.hardware.scenarios import load_scenario
    from rephaze.measure.operators import estimate_operators
    from rephaze.types.checks import check_count
    from rephaze.workload import fuse_graph, load_model, shard_graph

    check_count("microbatch", microbatch, at_most=2**20)
    check_count("tp", tp, at_most=2**20)
    chip = load_chip(chip_name)
    graph = fuse_graph(shard_graph(load_model(name, attention), tp))
    with nullcontext() if json else stderr.status("mapping operators", spinner="dots"):
        found = estimate_operators(graph, chip, microbatch, load_scenario(scenario).cluster, cost_model)
    if html is not None:
        from rephaze.report.roofline import write_roofline

        write_roofline(html, f"{graph.name} on {chip.name}, microbatch {microbatch}", chip, found)
    if json:
        for one in found:
            print_json(asdict(one))
        return
    total_s = sum(one.time_s * one.num_times for one in found)
    total_j = sum(one.energy_j * one.num_times for one in found)
    flops = sum(one.num_flops * one.num_times for one in found)
    model_flops = sum(one.num_model_flops * one.num_times for one in found)
    print_table(operator_table(found))
    stdout.print(
        f"[bold]{graph.name}[/] on {chip.name}, microbatch {microbatch}, tp {tp}: one operator after the other "
        f"{total_s * 1e3:,.2f} ms, {flops / total_s / 1e12:,.1f} TFLOP/s "
        f"({flops / total_s / chip.peak_flops_per_s:.1%} of peak), {total_j / microbatch:,.3g} J a sample",
        highlight=False,
    )
    if model_flops > flops:
        stdout.print(
            f"model FLOPs, which count all of a causal square: {model_flops / 1e12:,.1f} T instead of "
            f"the {flops / 1e12:,.1f} T done",
            highlight=False,
        )


def operator_table(found: Sequence[OperatorEstimate]) -> Table:
    """The operators of each layer type, in order."""
    table = new_table("Operators, each on all cores of its engine")
    for heading in ("layer", "pass", "operator", "engine"):
        table.add_column(heading)
    for heading in ("times", "us", "share", "array", "uJ"):
        table.add_column(heading, justify="right")
    table.add_column("bound by")
    last = ("", "")
    for one in found:
        here = (one.layer, one.direction)
        table.add_row(
            one.layer if one.layer != last[0] else "",
            one.direction if here != last else "",
            one.name,
            one.engine.value,
            str(one.num_times),
            f"{one.time_s * S_TO_US:,.1f}",
            f"{one.time_share:.1%}",
            f"{one.tensor_utilization:.0%}" if one.num_flops else "",
            f"{one.energy_j * JOULES_TO_UJ:,.0f}",
            one.bound_by,
        )
        last = here
    return table


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
