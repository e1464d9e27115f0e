"""``rephaze chips``: the known chips, or one with every figure's source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from rephaze.cli.output import JsonOption, print_json, stdout
from rephaze.units import FLOPS_PER_TFLOPS, GB, GHZ, GIB, MIB, UM2_PER_MM2

if TYPE_CHECKING:
    from rephaze.hardware.presets import Preset
    from rephaze.types.chip import Chip

BLANK = "[dim]—[/]"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("chips")(chips)


def chips(
    name: Annotated[str | None, typer.Argument(help="A preset's name or a chip file (.toml, .json).")] = None,
    json_output: JsonOption = False,
) -> None:
    """List the known chips, or show one with grade and source of every figure.

    Blanks were found in no source; using one is an error that says so. A chip of your own is a TOML file with
    the same fields, or with base = "tpuv4" and those that differ.

    Examples:  rephaze chips   |   rephaze chips tpuv4   |   rephaze chips my-chip.toml --json
    """
    from rephaze.hardware.presets import find_preset, load_presets

    if name is None:
        _list(list(load_presets().values()), json_output)
    elif name.lower() in load_presets():
        _show_preset(find_preset(name), json_output)
    else:
        from rephaze.hardware.chip_file import load_chip

        _show_chip(load_chip(name), json_output)


def _list(presets: list[Preset], json_output: bool) -> None:
    if json_output:
        for preset in presets:
            print_json(_preset_record(preset))
        return
    caption = "rephaze chips NAME shows every source"
    table = _table("Known chips", caption)
    table.add_column("name", style="bold", no_wrap=True)
    headings = (
        "tensor cores",
        "vector",
        "GHz",
        "TFLOP/s",
        "buffer\nMiB",
        "HBM\nGiB",
        "HBM\nGB/s",
        "die\nmm²",
    )
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for preset in presets:
        table.add_row(preset.name, *_list_cells(preset))
    stdout.print(table)


def _table(title: str, caption: str) -> Table:
    return Table(title=title, caption=caption, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)


def _list_cells(preset: Preset) -> list[str]:
    def value(field: str) -> Any:
        figure = preset.values.get(field)
        return None if figure is None else figure.value

    def scaled(field: str, unit: float) -> str:
        found = value(field)
        return BLANK if found is None else f"{found / unit:,.4g}"

    cores = value("num_tensor_cores"), value("tensor_width"), value("tensor_depth")
    lanes = value("num_vector_cores"), value("vector_lanes")
    return [
        BLANK if None in cores else f"{cores[0]} x {cores[1]}x{cores[2]}",
        BLANK if None in lanes else f"{lanes[0]} x {lanes[1]}",
        scaled("clock_hz", GHZ),
        scaled("peak_flops_per_s", FLOPS_PER_TFLOPS),
        scaled("global_buffer_bytes", MIB),
        scaled("hbm_bytes", GIB),
        scaled("hbm_bytes_per_s", GB),
        scaled("die_um2", UM2_PER_MM2),
    ]


def _show_preset(preset: Preset, json_output: bool) -> None:
    if json_output:
        print_json(_preset_record(preset))
        return
    from rich.markup import escape

    grades = "grades: A vendor, B secondary, C recalled, D derived, P placeholder"
    table = _table(preset.title, grades)
    table.add_column("field", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("source", overflow="fold")
    for field, figure in preset.values.items():
        shown = figure.value if isinstance(figure.value, str) else f"{figure.value:,.6g}"
        note = f" [dim]{escape(figure.note)}[/]" if figure.note else ""
        table.add_row(field, shown, f"[bold]{figure.grade}[/] {escape(figure.source)}{note}")
    for field in preset.blanks:
        table.add_row(field, BLANK, "[yellow]not found: using it is an error[/]")
    stdout.print(table)
    if not preset.blanks:
        from rephaze.hardware.presets import preset_chip

        _print_derived(preset_chip(preset.name))


def _show_chip(chip: Chip, json_output: bool) -> None:
    from dataclasses import asdict

    if json_output:
        print_json(asdict(chip) | _derived_record(chip))
        return
    table = Table("field", "value", title=chip.name)
    for field, value in asdict(chip).items():
        if field != "name":
            table.add_row(field, f"{value:,.10g}")
    stdout.print(table)
    _print_derived(chip)


def _print_derived(chip: Chip) -> None:
    found = _derived_record(chip)
    stdout.print(
        f"area {found['area_um2']['corrected'] / UM2_PER_MM2:,.1f} mm² (corrected model), "
        f"{found['area_um2']['paper'] / UM2_PER_MM2:,.1f} mm² (paper's); "
        f"peak {chip.peak_flops_per_s / FLOPS_PER_TFLOPS:,.1f} TFLOP/s; "
        f"full-use power {found['full_power_w']:,.0f} W; "
        f"cost {found['cost_usd']:,.0f} USD (die and memory)",
        highlight=False,
    )


def _derived_record(chip: Chip) -> dict[str, Any]:
    from rephaze.hardware.area import chip_area
    from rephaze.hardware.cost import chip_cost
    from rephaze.hardware.energy import full_power
    from rephaze.types.chip import chip_table
    from rephaze.types.space import AreaModel

    table = chip_table([chip])
    area = {str(model): float(chip_area(table, model).total_um2_c[0]) for model in AreaModel}
    corrected = chip_area(table, AreaModel.CORRECTED).total_um2_c
    return {
        "area_um2": area,
        "peak_flops_per_s": chip.peak_flops_per_s,
        "full_power_w": float(full_power(table, AreaModel.CORRECTED).total_w_c[0]),
        "cost_usd": float(chip_cost(corrected, table.hbm_bytes).total_usd_c[0]),
    }


def _preset_record(preset: Preset) -> dict[str, Any]:
    from dataclasses import asdict

    figures = {field: asdict(figure) for field, figure in preset.values.items()}
    return {"name": preset.name, "title": preset.title, "figures": figures, "blanks": list(preset.blanks)}
