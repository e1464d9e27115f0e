"""``rephaze export``: a run's tables as CSV or Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rephaze.api.choices import FileFormat, TableName
from rephaze.cli.output import JsonOption, print_json, stdout, step_status


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
    from rephaze.api import open_run
    from rephaze.api.runs import export_format

    chosen = export_format(out, file_format)
    with step_status(f"writing {table}", quiet=json_output):
        num_rows = open_run(run).export(out, table=table, file_format=chosen)
    if json_output:
        record = {"run": str(run), "table": table, "format": chosen, "out": str(out), "num_rows": num_rows}
        print_json(record)
    else:
        stdout.print(f"{num_rows:,} rows of {table} in {out}", soft_wrap=True)
