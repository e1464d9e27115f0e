"""``rephaze chips``: the known chips, or one with every value's source."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from rephaze.cli.output import JsonOption, print_json, stdout
from rephaze.units import FLOPS_PER_TFLOPS, GB, GHZ, GIB, MIB, UM2_PER_MM2

if TYPE_CHECKING:
    from rephaze.api.chips import KnownChip
    from rephaze.types.chip import Chip

BLANK = "[dim]—[/]"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("chips")(chips)


def chips(
    name: Annotated[str | None, typer.Argument(help="A preset's name or a chip file (.toml, .json).")] = None,
    json_output: JsonOption = False,
) -> None:
    """List the known chips, or show one with grade and source of every value.

    Blanks were found in no source; using one is an error that says so. A chip of your own is a TOML file with
    the same fields, or with base = "tpuv4" and those that differ.

    Examples:  rephaze chips   |   rephaze chips tpuv4   |   rephaze chips my-chip.toml --json
    """
    from rephaze.api import load_chip
    from rephaze.api.chips import known_chips

    known = {one.name: one for one in known_chips()}
    if name is None:
        _list(list(known.values()), json_output)
    elif name.lower() in known:
        _show_known(known[name.lower()], json_output)
    else:
        _show_chip(load_chip(name), json_output)


def _list(known: list[KnownChip], json_output: bool) -> None:
    if json_output:
        for one in known:
            print_json(_known_record(one))
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
    for one in known:
        table.add_row(one.name, *_list_cells(one))
    stdout.print(table)


def _table(title: str, caption: str) -> Table:
    return Table(title=title, caption=caption, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)


def _list_cells(known: KnownChip) -> list[str]:
    def value(field: str) -> Any:
        found = known.values.get(field)
        return None if found is None else found.value

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


def _show_known(known: KnownChip, json_output: bool) -> None:
    if json_output:
        print_json(_known_record(known))
        return
    from rich.markup import escape

    grades = "grades: A vendor, B secondary, C recalled, D derived, P placeholder"
    table = _table(known.title, grades)
    table.add_column("field", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("source", overflow="fold")
    for field, found in known.values.items():
        shown = found.value if isinstance(found.value, str) else f"{found.value:,.6g}"
        note = f" [dim]{escape(found.note)}[/]" if found.note else ""
        table.add_row(field, shown, f"[bold]{found.grade}[/] {escape(found.source)}{note}")
    for field in known.blanks:
        table.add_row(field, BLANK, "[yellow]not found: using it is an error[/]")
    stdout.print(table)
    if known.chip is not None:
        _print_derived(known.chip)


def _show_chip(chip: Chip, json_output: bool) -> None:
    if json_output:
        from rephaze.api.chip_facts import chip_facts

        print_json(asdict(chip) | asdict(chip_facts(chip)))
        return
    table = Table("field", "value", title=chip.name)
    for field, value in asdict(chip).items():
        if field != "name":
            table.add_row(field, f"{value:,.10g}")
    stdout.print(table)
    _print_derived(chip)


def _print_derived(chip: Chip) -> None:
    from rephaze.api.views import facts_sentence

    stdout.print(facts_sentence(chip), highlight=False)


def _known_record(known: KnownChip) -> dict[str, Any]:
    values = {field: asdict(found) for field, found in known.values.items()}
    return {"name": known.name, "title": known.title, "figures": values, "blanks": list(known.blanks)}
