"""``rephaze space``: how large a design space is, and what each limit removes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rephaze.api.present import TextTable
from rephaze.cli.output import ExitCode, JsonOption, print_json, stdout, styled
from rephaze.cli.tables import print_content
from rephaze.units import UM2_PER_MM2

if TYPE_CHECKING:
    from rephaze.api.spaces import DesignCount

NUM_BINS = 10
BAR_CELLS = 40


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("space")(space)


def space(
    scenario: Annotated[str, typer.Option(help="default, coarse, paper, or a scenario file (.toml).")] = "default",
    json_output: JsonOption = False,
) -> None:
    """Count the designs of a space: how many there are, how many fall to each limit, how large they are.

    Examples:  rephaze space   |   rephaze space --scenario paper --json
    """
    from rephaze.api.spaces import count_designs

    found = count_designs(scenario)
    if json_output:
        print_json(_record(found))
    else:
        _print(found)
    if not found.census.num_designs:
        raise typer.Exit(ExitCode.INFEASIBLE)


def _record(found: DesignCount) -> dict[str, Any]:
    scenario, census = found.scenario, found.census
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


def _print(found: DesignCount) -> None:
    from rephaze.api.views import limits_sentence, nothing_sentence, removal_table

    scenario = found.scenario
    stdout.print(styled((f"Scenario {scenario.name}", "bold"), f": {scenario.title}"))
    stdout.print(limits_sentence(found))
    print_content(removal_table(found))
    if found.census.num_designs:
        print_content(_histogram(found))
    else:
        stdout.print(nothing_sentence(found))


def _histogram(found: DesignCount) -> TextTable:
    counts, ends_um2 = found.histogram(NUM_BINS)
    ends_mm2 = ends_um2 / UM2_PER_MM2
    rows = tuple(
        (f"{low:,.0f} - {high:,.0f}", f"{count:,}", "█" * round(BAR_CELLS * count / counts.max()))
        for count, low, high in zip(counts, ends_mm2[:-1], ends_mm2[1:], strict=True)
    )
    return TextTable(headings=("mm²", "designs", ""), rows=rows, left=frozenset({""}), title="Designs by area")
