"""``rephaze area``: the silicon area of the chips in a CSV file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rephaze.api.present import TextTable
from rephaze.cli.output import JsonOption, print_json
from rephaze.cli.tables import print_content
from rephaze.units import MIB, UM2_PER_MM2


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("area")(area)


def area(
    file: Annotated[Path, typer.Argument(help="CSV with a chip a row.")],
    model: Annotated[str, typer.Option(help="Area model: paper or corrected.")] = "corrected",
    json_output: JsonOption = False,
) -> None:
    """Compute the area of each chip in a CSV file, itemised.

    Columns: num_tensor_cores, num_vector_cores, width, depth, global_buffer_bytes; optional: vector_lanes (as
    wide as the array if absent) and num_hbm_stacks (4 if absent; free of area in the paper's model).

    Example:  rephaze area designs.csv --model paper --json
    """
    from rephaze.api.spaces import design_areas

    found = design_areas(file, model)
    chips, columns = found.chips, found.parts_um2_c
    if json_output:
        for row in range(len(chips)):
            items = {f"{part}_um2": float(columns[part][row]) for part in columns if part != "total"}
            print_json({"area_um2": float(columns["total"][row]), **items, "model": model})
        return
    headings = ("tensor cores", "vector cores", "buffer MiB", *(part.replace("_", " ") for part in columns))
    rows = tuple(
        (
            f"{chips.num_tensor_cores[row]} x {chips.tensor_width[row]}x{chips.tensor_depth[row]}",
            f"{chips.num_vector_cores[row]} x {chips.vector_lanes[row]}",
            f"{chips.global_buffer_bytes[row] / MIB:g}",
            *(f"{columns[part][row] / UM2_PER_MM2:,.2f}" for part in columns),
        )
        for row in range(len(chips))
    )
    content = TextTable(headings=headings, rows=rows, title=f"Area, {model} model (mm²)")
    print_content(content, shown={heading: heading.replace(" ", "\n") for heading in headings})
