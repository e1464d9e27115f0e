"""``rephaze pareto``: the trade-offs a recorded run shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from rephaze.cli.output import ExitCode, JsonOption, print_json, stderr, stdout
from rephaze.cli.tables import print_table
from rephaze.units import UM2_PER_MM2

if TYPE_CHECKING:
    from rephaze.study.settle_budgets import BudgetProgress, OnBudget
    from rephaze.types.pareto import AreaBudget, ParetoFront, ParetoPoint

_COLUMNS = ("samples/s", "mm²", "J/sample", "US$", "full power W", "chip")
_LEFT = ("chip", "proven for its area", "best of its budget")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("pareto")(pareto)


def pareto(
    run: Annotated[Path, typer.Argument(help="The run folder a search wrote to.")],
    coarse: Annotated[
        bool, typer.Option("--coarse", help="Prove rows by the cheapest bound only: quicker, fewer proven.")
    ] = False,
    solve: Annotated[
        bool, typer.Option("--solve", help="Solve designs until the best of every area budget is proven.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Processes on this machine, with --solve.", min=1)] = 2,
    json_output: JsonOption = False,
) -> None:
    """Show the designs of a run that nothing beats in throughput, area, energy and cost, and the best per area.

    Designs a bound dropped were never solved, so the front of a finished search is sure at its fast end and may
    lack designs elsewhere. A point is proven if no design of its own area or less, solved or not, can be faster.
    The best of a budget is proven if no design within the budget can be; else the row says how much faster one
    might be. --solve settles that for every budget (the run is not changed); a run made with --exhaustive has
    the whole front.

    Example:  rephaze search gpt2-xl --out run1 && rephaze pareto run1
    """
    if coarse and solve:
        raise typer.BadParameter("--coarse and --solve exclude each other")
    from rephaze.store.run_store import RunStore
    from rephaze.study.pareto import front_of_run

    with RunStore.read(run) as store, _progress(quiet=json_output) as show:
        front = front_of_run(store, finer=not coarse, solve=solve, num_workers=workers, on_progress=show)
    if json_output:
        print_json(_record(front))
    else:
        _print(front)
    if not front.points:
        is_known = all(budget.is_proven for budget in front.budgets)
        raise typer.Exit(ExitCode.INFEASIBLE if is_known else ExitCode.UNKNOWN)


@contextmanager
def _progress(quiet: bool) -> Iterator[OnBudget]:
    if quiet:
        yield lambda _state: None
        return
    with stderr.status("bounding the designs that were not solved") as status:

        def show(state: BudgetProgress) -> None:
            status.update(
                f"budget {state.area_um2 / UM2_PER_MM2:,.1f} mm²: best {state.samples_per_s:,.5g} samples/s, "
                f"{state.num_open:,} designs open, {state.num_solved:,} solved"
            )

        yield show


def _record(front: ParetoFront) -> dict[str, Any]:
    record = asdict(front)
    for row, budget in zip(record["budgets"], front.budgets, strict=True):
        row["gap"] = budget.gap if isfinite(budget.gap) else None
    return record


def _print(front: ParetoFront) -> None:
    if not front.points:
        stdout.print("[yellow]no design of this run was solved and has a plan[/]")
        _offer_proof(front)
        return
    solved_now = front.num_solved_exactly - front.num_recorded
    stdout.print(
        f"[bold]{len(front.points):,} non-dominated[/] of {front.num_solved_exactly:,} designs solved exactly"
        + (f", {solved_now:,} of them now" if solved_now else "")
        + f"; {front.num_designs - front.num_solved_exactly:,} of {front.num_designs:,} were not solved",
        highlight=False,
    )
    table = _table((*_COLUMNS, "proven for its area"))
    for point in front.points:
        table.add_row(*_cells(point), "yes" if point.is_proven else "no")
    print_table(table)
    stdout.print("\n[bold]Best chip per area budget[/]")
    table = _table(("budget mm²", *_COLUMNS, "best of its budget"))
    for budget in front.budgets:
        cells = _cells(budget.best) if budget.best else ("none", *[""] * (len(_COLUMNS) - 1))
        table.add_row(f"{budget.area_um2 / UM2_PER_MM2:,.1f}", *cells, _proof(budget))
    print_table(table)
    _offer_proof(front)


def _offer_proof(front: ParetoFront) -> None:
    if not all(budget.is_proven for budget in front.budgets):
        said = "--solve finds and proves the best chip of every area budget, unless a schedule cannot be proven"
        stdout.print(said, highlight=False)


def _proof(budget: AreaBudget) -> str:
    if budget.is_proven:
        return "proven" if budget.best else "proven: nothing fits"
    at_most = f"at most {budget.bound_samples_per_s:,.1f}"
    return f"{at_most} (gap {budget.gap:.1%})" if budget.best else f"not solved; {at_most}"


def _table(columns: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="left" if name in _LEFT else "right")
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
    )
