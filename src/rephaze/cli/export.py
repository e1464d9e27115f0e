"""``rephaze export``: a run's tables as CSV or Parquet files."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from rephaze.cli.output import JsonOption, print_json, stderr, stdout
from rephaze.errors import SpecError
from rephaze.store.export import FileFormat
from rephaze.store.tables import TableName


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export")(export)


def export(
    run: Annotated[Path, typer.Argument(help="The run folder a search wrote to.")],
    out: Annotated[Path, typer.Option(help="File to write; replaced if it is there.")],
    file_format: Annotated[
        FileFormat | None, typer.Option("--format", help="By default, by the ending of the file's name.")
    ] = None,
    table: Annotated[TableName, typer.Option(help="Which table of the run.")] = TableName.EVALUATIONS,
    json_output: JsonOption = False,
) -> None:
    """Write what a search found to a CSV or Parquet file, for a notebook or a spreadsheet.

    Columns carry their units. A run may be exported while its search goes on. Parquet needs the extra
    "parquet".

    Examples:  rephaze export RUN --out designs.csv   |   rephaze export RUN --table plans --out plans.parquet
    """
    from rephaze.store.export import export_table
    from rephaze.store.run_store import RunStore

    chosen = file_format or _format_of(out)
    progress = nullcontext() if json_output else stderr.status(f"writing {table}")
    with RunStore.read(run) as store, progress:
        num_rows = export_table(store, table, out, chosen)
    if json_output:
        record = {"run": str(run), "table": table, "format": chosen, "out": str(out), "num_rows": num_rows}
        print_json(record)
    else:
        stdout.print(f"{num_rows:,} rows of {table} in {out}", highlight=False, markup=False, soft_wrap=True)


def _format_of(out: Path) -> FileFormat:
    ending = out.suffix.removeprefix(".").lower()
    if ending not in list(FileFormat):
        raise SpecError("out", str(out), "ends in neither .csv nor .parquet", "add --format csv or parquet")
    return FileFormat(ending)
