"""``rephaze pareto``: the trade-offs a recorded run shows."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from rephaze.cli.output import ExitCode, JsonOption, print_json, stderr, stdout
from rephaze.units import UM2_PER_MM2

if TYPE_CHECKING:
    from rephaze.types.pareto import ParetoFront, ParetoPoint

_COLUMNS = ("samples/s", "mm²", "J/sample", "US$", "full power W", "chip", "proven")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("pareto")(pareto)


def pareto(
    run: Annotated[Path, typer.Argument(help="The run folder a search wrote to.")],
    coarse: Annotated[
        bool, typer.Option("--coarse", help="Prove points by the cheapest bound only: quicker, fewer proven.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Show the designs of a run that nothing beats in throughput, area, energy and cost, and the best per area.

    Only designs the search solved exactly are shown: those dropped by a bound were never solved, so the front of a
    finished search is sure at its fast end and may lack designs elsewhere. A point is proven if no design of its
    area or less, solved or not, can be faster. A run made with --exhaustive has the whole front.

    Example:  rephaze search gpt2-xl --out run1 && rephaze pareto run1
    """
    from rephaze.search.pareto import front_of_run
    from rephaze.store.run import RunStore

    progress = nullcontext() if json_output else stderr.status("bounding the designs that were not solved")
    with RunStore.read(run) as store, progress:
        front = front_of_run(store, finer=not coarse)
    if json_output:
        print_json(asdict(front))
    else:
        _print(front)
    if not front.points:
        raise typer.Exit(ExitCode.INFEASIBLE)


def _print(front: ParetoFront) -> None:
    if not front.points:
        stdout.print("[yellow]no design of this run was solved and has a plan[/]")
        return
    stdout.print(
        f"[bold]{len(front.points):,} non-dominated[/] of {front.num_solved_exactly:,} designs solved exactly; "
        f"{front.num_designs - front.num_solved_exactly:,} of {front.num_designs:,} were not solved",
        highlight=False,
    )
    table = _table(_COLUMNS)
    for point in front.points:
        table.add_row(*_cells(point))
    stdout.print(table)
    stdout.print("\n[bold]Best solved chip per area budget[/]")
    table = _table(("budget mm²", *_COLUMNS))
    for budget in front.budgets:
        cells = _cells(budget.best) if budget.best else ("none solved", *[""] * (len(_COLUMNS) - 1))
        table.add_row(f"{budget.area_um2 / UM2_PER_MM2:,.1f}", *cells)
    stdout.print(table)


def _table(columns: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="left" if name in ("chip", "proven") else "right")
    return table


def _cells(point: ParetoPoint) -> tuple[str, ...]:
    chip = point.chip
    return (
        f"{point.samples_per_s:,.1f}",
        f"{point.area_um2 / UM2_PER_MM2:,.1f}",
        f"{point.energy_per_sample_j:,.3g}",
        f"{point.chip_usd:,.0f}",
        f"{point.full_power_w:,.0f}",
        chip.in_words,
        "yes" if point.is_proven else "no",
    )
