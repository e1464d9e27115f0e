"""``rephaze chips``: the known chips, or one with every value's source."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rephaze.api.present import TextTable
from rephaze.cli.output import JsonOption, print_json, stdout
from rephaze.cli.tables import print_content
from rephaze.units import FLOPS_PER_TFLOPS, GB, GHZ, GIB, MIB, UM2_PER_MM2

if TYPE_CHECKING:
    from rephaze.api.chips import KnownChip
    from rephaze.types.chip import Chip

BLANK = "—"


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
    headings = (
        "name", "tensor cores", "vector", "GHz", "TFLOP/s", "buffer MiB", "HBM GiB", "HBM GB/s", "die mm²",
    )  # fmt: skip
    rows = tuple((one.name, *_list_cells(one)) for one in known)
    content = TextTable(headings=headings, rows=rows, left=frozenset({"name"}), title="Known chips")
    print_content(content, shown={heading: heading.replace(" ", "\n") for heading in headings})
    stdout.print("rephaze chips NAME shows every source")


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
    rows = [
        (
            field,
            found.value if isinstance(found.value, str) else f"{found.value:,.6g}",
            f"{found.grade} {found.source}" + (f" {found.note}" if found.note else ""),
        )
        for field, found in known.values.items()
    ]
    rows += [(field, BLANK, "not found: using it is an error") for field in known.blanks]
    words = frozenset({"field", "source"})
    print_content(
        TextTable(headings=("field", "value", "source"), rows=tuple(rows), left=words, title=known.title)
    )
    stdout.print("grades: A vendor, B secondary, C recalled, D derived, P placeholder")
    if known.chip is not None:
        _print_derived(known.chip)


def _show_chip(chip: Chip, json_output: bool) -> None:
    if json_output:
        from rephaze.api.chip_facts import chip_facts

        print_json(asdict(chip) | asdict(chip_facts(chip)))
        return
    rows = tuple((field, f"{value:,.10g}") for field, value in asdict(chip).items() if field != "name")
    print_content(TextTable(headings=("field", "value"), rows=rows, left=frozenset({"field"}), title=chip.name))
    _print_derived(chip)


def _print_derived(chip: Chip) -> None:
    from rephaze.api.views import facts_sentence

    stdout.print(facts_sentence(chip))


def _known_record(known: KnownChip) -> dict[str, Any]:
    values = {field: asdict(found) for field, found in known.values.items()}
    return {"name": known.name, "title": known.title, "figures": values, "blanks": list(known.blanks)}
