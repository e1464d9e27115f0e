"""``rephaze bill``: what a cluster of a chip takes, and how many chips keep to a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rephaze.cli.output import ExitCode, JsonOption, MisuseError, print_json, stdout
from rephaze.types.system import MAX_BUDGET
from rephaze.units import MM2_PER_M2, USD_PER_MUSD, W_PER_MW


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("bill", short_help="What a cluster takes in silicon, power and dollars.")(bill)


def bill(
    chip: Annotated[str, typer.Argument(help="A preset's name or a chip file (.toml, .json).")],
    scenario: Annotated[str, typer.Option(help="default, coarse, or a scenario file (.toml).")] = "default",
    chips: Annotated[
        int | None, typer.Option(help="Chips to bill; by default what fits, or the scenario's.", min=1)
    ] = None,
    system: Annotated[
        Path | None, typer.Option(help="A file with [system], one value a field, and [budget].")
    ] = None,
    power_mw: Annotated[float | None, typer.Option(help="Limit: megawatts the building draws.")] = None,
    musd: Annotated[float | None, typer.Option(help="Limit: million dollars.")] = None,
    silicon_m2: Annotated[float | None, typer.Option(help="Limit: square metres of dies.")] = None,
    chip_w: Annotated[
        float | None, typer.Option(help="Watts a chip is held to, instead of the most it can draw.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Bill a cluster of a chip, item by item, and say how many chips keep to a budget and which limit binds.

    Limits replace those of the file's [budget]. With any and without --chips, the most chips that fit are billed.
    Not in it: margins, design and masks, the building, electricity over the years. Exit code 3: not even one
    chip fits.

    Examples:  rephaze bill tpuv4   |   rephaze bill tpuv4 --power-mw 2 --musd 50   |
    rephaze bill my-chip.toml --system examples/one-system.toml --chips 512 --json
    """
    from rephaze.api import bill_cluster

    found = bill_cluster(
        chip,
        scenario=scenario,
        num_chips=chips,
        system=system,
        silicon_mm2=_scaled("--silicon-m2", silicon_m2, MM2_PER_M2),
        power_w=_scaled("--power-mw", power_mw, W_PER_MW),
        cost_usd=_scaled("--musd", musd, USD_PER_MUSD),
        chip_w=_scaled("--chip-w", chip_w, 1.0),
    )
    if json_output:
        print_json(found.record())
    else:
        stdout.print(str(found))
    if found.most_chips == 0:
        raise typer.Exit(ExitCode.INFEASIBLE)


def _scaled(option: str, value: float | None, unit: float) -> float | None:
    if value is not None and not 0 < value <= MAX_BUDGET:
        raise MisuseError(option, value, f"must be above zero and at most {MAX_BUDGET:g}")
    return None if value is None else value * unit
