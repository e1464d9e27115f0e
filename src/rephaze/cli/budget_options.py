"""Options of commands that search: what the whole cluster may take."""

from __future__ import annotations

from typing import Annotated, Any

import typer

BudgetWatts = Annotated[
    float | None, typer.Option(help="Most the whole cluster may draw, building included.", metavar="W")
]
BudgetUsd = Annotated[float | None, typer.Option(help="Most it may cost to make and join.", metavar="USD")]
BudgetMm2 = Annotated[float | None, typer.Option(help="Most silicon its chips may have together.", metavar="MM2")]


def budget_changes(watts: float | None, usd: float | None, silicon_mm2: float | None) -> dict[str, dict[str, Any]]:
    """The budget of options, if any is given."""
    given = {"power_w": watts, "usd": usd, "silicon_mm2": silicon_mm2}
    limits = {name: limit for name, limit in given.items() if limit is not None}
    return {"budget": limits} if limits else {}
