"""``rephaze export``: a run's plans as launch settings and traces, its chip, its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rephaze.api.choices import FileFormat, TableName
from rephaze.cli.exporting import write_exported
from rephaze.cli.output import JsonOption, print_json, stdout, step_status
from rephaze.errors import SpecError
from rephaze.types.launch import ExportTarget


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export")(export)


def export(
    run: Annotated[Path, typer.Argument(help="The run folder a search wrote to.")],
    to: Annotated[
        ExportTarget | None,
        typer.Option("--to", help="What to write; by default a table, by the ending of the file's name."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write, replaced if it is there; without it to standard output (no tables)."),
    ] = None,
    file_format: Annotated[
        FileFormat | None, typer.Option("--format", help="The older name of --to for tables.", hidden=True)
    ] = None,
    table: Annotated[
        TableName, typer.Option(help="Which table of the run, for csv and parquet.")
    ] = TableName.EVALUATIONS,
    model: Annotated[
        str | None, typer.Option(help="Whose plan, where the run has several models.", metavar="MODEL")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Write what a search found for another tool: launch settings, traces, the chip, tables.

    Settings of the winner's plan for Megatron-LM, torchtitan, DeepSpeed, MaxText and NeMo; what a framework cannot
    be told is said on standard error and in the file. Traces open in Perfetto and chrome://tracing: the pipeline,
    and the chip's cores during the passes of a block. Tables' columns carry their units; a run may be exported as
    tables while its search goes on. Parquet needs the extra "parquet".

    Examples:  rephaze export RUN --to megatron --out launch.sh   |
    rephaze export RUN --to perfetto --out trace.json   |   rephaze export RUN --table plans --out plans.parquet
    """
    from rephaze.api import open_run
    from rephaze.api.runs import export_format

    if to is not None and file_format is not None:
        raise SpecError("--format", str(file_format), "is the older name of --to", "leave it out")
    if to is not None and not to.is_table:
        if json_output and out is None:
            raise SpecError("--json", "on", "prints where --to would write", "add --out FILE")
        with step_status(f"preparing {to}", quiet=json_output or out is None):
            found = open_run(run).export_plan(to, model=model)
        write_exported(found, out)
        if json_output:
            print_json({"run": str(run), "to": str(to), "out": str(out), "notes": list(found.notes)})
        return
    if out is None:
        raise typer.BadParameter("tables need --out with the file's name")
    if model is not None:
        raise SpecError("--model", model, "is for plans, not for tables", "leave it out, or add --to")
    chosen = export_format(out, str(to) if to is not None else file_format)
    with step_status(f"writing {table}", quiet=json_output):
        num_rows = open_run(run).export(out, table=table, file_format=chosen)
    if json_output:
        record = {"run": str(run), "table": table, "format": chosen, "out": str(out), "num_rows": num_rows}
        print_json(record)
    else:
        stdout.print(f"{num_rows:,} {'row' if num_rows == 1 else 'rows'} of {table} in {out}", soft_wrap=True)
