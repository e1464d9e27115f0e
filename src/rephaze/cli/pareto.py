"""``rephaze pareto``: the trade-offs a recorded run shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from rephaze.cli.output import (
    ExitCode,
    JsonOption,
    MisuseError,
    print_json,
    refuse_given,
    stdout,
    step_status,
    styled,
)
from rephaze.cli.tables import print_content
from rephaze.types.readable import amount
from rephaze.units import UM2_PER_MM2

if TYPE_CHECKING:
    from rephaze.api.runs import BudgetProgress, OnBudget
    from rephaze.types.pareto import ParetoFront


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("pareto")(pareto)


def pareto(
    ctx: typer.Context,
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
        raise MisuseError("--coarse", True, "and --solve exclude each other")
    if not solve:
        refuse_given(ctx, ["workers"], "is for --solve")
    from rephaze.api import open_run

    with _progress(quiet=json_output) as show:
        front = open_run(run).pareto(coarse=coarse, solve=solve, num_workers=workers, on_progress=show)
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
    with step_status("bounding the designs that were not solved", quiet=False) as on_step:

        def show(state: BudgetProgress) -> None:
            on_step(
                f"budget {state.area_um2 / UM2_PER_MM2:,.1f} mm²: "
                f"best {amount(state.samples_per_s, 5)} samples/s, "
                f"{state.num_open:,} {state.counted} open, {state.num_solved:,} solved"
            )

        yield show


def _record(front: ParetoFront) -> dict[str, Any]:
    record = asdict(front)
    for row, budget in zip(record["budgets"], front.budgets, strict=True):
        row["gap"] = budget.gap if isfinite(budget.gap) else None
    for point in (*record["points"], *(row["best"] for row in record["budgets"])):
        if point is not None and not isfinite(point["chip_usd"]):
            point["chip_usd"] = None  # no such die fits a wafer
    return record


def _print(front: ParetoFront) -> None:
    from rephaze.api.search_views import NO_POINTS, budget_table, front_sentence, point_table, proof_offers

    if front.points:
        headline = Text(front_sentence(front))
        headline.highlight_regex(r"^\S+ non-dominated", "bold")
        stdout.print(headline)
        print_content(point_table(front))
        stdout.print()
        print_content(budget_table(front))
    else:
        stdout.print(styled((NO_POINTS, "yellow")))
    for said in proof_offers(front, "--solve"):
        stdout.print(said)
