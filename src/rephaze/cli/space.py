"""``rephaze space``: how large a design space is, and what each limit removes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from rephaze.cli.output import ExitCode, JsonOption, print_json, stdout
from rephaze.units import UM2_PER_MM2

if TYPE_CHECKING:
    from rephaze.hardware.space import DesignCensus
    from rephaze.types.scenario import Scenario

NUM_BINS = 10
BAR_CELLS = 40


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("space")(space)


def space(
    scenario: Annotated[str, typer.Option(help="default, paper, or a scenario file (.toml).")] = "default",
    json_output: JsonOption = False,
) -> None:
    """Count the designs of a space: how many there are, how many fall to each limit, how large they are.

    Examples:  rephaze space   |   rephaze space --scenario paper --json
    """
    from rephaze.hardware.scenarios import load_scenario
    from rephaze.hardware.space import enumerate_designs

    found = load_scenario(scenario)
    census = enumerate_designs(found.space)
    if json_output:
        print_json(_record(found, census))
    else:
        _print(found, census)
    if not census.num_designs:
        raise typer.Exit(ExitCode.INFEASIBLE)


def _record(scenario: Scenario, census: DesignCensus) -> dict[str, Any]:
    return {
        "scenario": scenario.name,
        "num_designs": census.num_designs,
        "num_grid_points": census.num_grid_points,
        "area_model": str(scenario.space.area_model),
        "area_limit_um2": scenario.space.area_limit_um2,
        "area_floor_um2": scenario.space.area_floor_um2,
        "num_above_area_limit": census.num_above_area_limit,
        "num_below_area_floor": census.num_below_area_floor,
        "num_above_power_limit": census.num_above_power_limit,
        "num_against_constraints": census.num_against_constraints,
    }


def _print(scenario: Scenario, census: DesignCensus) -> None:
    limit_mm2 = scenario.space.area_limit_um2 / UM2_PER_MM2
    floor_mm2 = scenario.space.area_floor_um2 / UM2_PER_MM2
    stdout.print(f"[bold]Scenario {scenario.name}[/]: {scenario.title}", highlight=False)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(justify="right")
    table.add_column()
    model = scenario.space.area_model
    floor = f"floor {floor_mm2:,.2f} mm²" if floor_mm2 else "no floor"
    stdout.print(f"area limit {limit_mm2:,.2f} mm² ({model} model), {floor}", highlight=False)
    table.add_row(f"{census.num_grid_points:,}", "grid points")
    removed = [
        (census.num_above_area_limit, f"above the area limit of {limit_mm2:,.2f} mm² ({model} model)"),
        (census.num_below_area_floor, f"below the floor of {floor_mm2:,.2f} mm² (single-core chips stay)"),
        (census.num_above_power_limit, f"above {scenario.space.power_limit_w:,.0f} W at full use"),
        (
            census.num_against_constraints,
            "; ".join(f"not {rule.text}" for rule in scenario.space.constraints),
        ),
    ]
    for count, reason in removed:
        if count:
            table.add_row(f"-{count:,}", reason)
    table.add_row(f"[bold]{census.num_designs:,}[/]", "[bold]designs[/]")
    stdout.print(table, highlight=False)
    if census.num_designs:
        stdout.print(_histogram(census.area_um2_c / UM2_PER_MM2), highlight=False)
    else:
        stdout.print("No design keeps to the limits: raise area_limit or list smaller values.")


def _histogram(area_mm2: NDArray[np.float64]) -> Table:
    counts, edges = np.histogram(area_mm2, bins=NUM_BINS)
    table = Table(title="Designs by area", box=None, pad_edge=False, title_justify="left")
    table.add_column("mm²", justify="right")
    table.add_column("")
    table.add_column("designs", justify="right")
    for count, low, high in zip(counts, edges[:-1], edges[1:], strict=True):
        bar = "█" * round(BAR_CELLS * count / counts.max())
        table.add_row(f"{low:,.0f} - {high:,.0f}", f"[cyan]{bar}[/]", f"{count:,}")
    return table
