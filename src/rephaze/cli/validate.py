"""``rephaze validate``: measured training runs beside what is predicted of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rephaze.cli.output import JsonOption, print_json, stderr, stdout
from rephaze.types.output_files import HTML_PAGE, check_output
from rephaze.types.truth import ErrorSummary, Validation


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("validate", short_help="Set predictions beside measured training runs.")(validate)


def validate(
    files: Annotated[
        list[Path], typer.Argument(help="CSV files of measured runs (docs/validation.md).", metavar="FILE")
    ],
    physics: Annotated[
        str, typer.Option("--physics", help="calibrated, or ideal: machines that reach their data sheets.")
    ] = "calibrated",
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a page with the scatter and the worst rows.", metavar="PAGE"),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Predict the time and memory of every run, and say how far off that is, source by source.

    Also whether plans of one model on one cluster come out in the measured order, what the plan we would pick
    loses, whether plans fit that ran and do not that failed, and every row not modelled, with the reason.

    Example: [bold]rephaze validate runs.csv --html page.html[/]
    """
    from rephaze.api.validating import validate as validate_tables
    from rephaze.api.validating import write_validation_page

    if html is not None:
        check_output(html, HTML_PAGE, files)
    found = validate_tables(files, physics=physics)
    if html is not None:
        write_validation_page(found, html, reads=files)
        stderr.print(f"wrote {html}")
    if json:
        print_json(found.record())
        return
    _show(found)


def _show(found: Validation) -> None:
    from rich.table import Table

    for title, summaries in (("source", found.by_source), ("chip", found.by_chip), ("kind", found.by_kind)):
        table = Table(title=f"Step time, predicted against measured, by {title} ({found.constants})")
        for name in (title, "rows", "modelled", "mean %", "median %", "signed %"):
            table.add_column(name, justify="left" if name == title else "right")
        for name, summary in summaries.items():
            table.add_row(name, *_cells(summary))
        if title == "source":
            table.add_row("all rows", *_cells(found.overall), style="bold")
            if found.mean_over_sources is not None:
                table.add_row(
                    "mean over sources", "", "", f"{100 * found.mean_over_sources:.1f}", "", "", style="bold"
                )
        stdout.print(table)
    _show_ranking(found)
    _show_memory(found)
    reasons: dict[tuple[str, str], int] = {}
    for row in found.rows:
        if row.reason:
            reasons[row.source, row.reason] = reasons.get((row.source, row.reason), 0) + 1
    for (source, reason), count in reasons.items():
        stdout.print(f"not modelled: {source}, {count} rows: {reason}", markup=False)


def _cells(summary: ErrorSummary) -> list[str]:
    shares = (summary.mean_absolute_error, summary.median_absolute_error, summary.signed_error)
    figures = ["-" if share is None else f"{100 * share:.1f}" for share in shares]
    return [str(summary.num_rows), str(summary.num_modelled), *figures]


def _show_ranking(found: Validation) -> None:
    from rich.table import Table

    if not found.ranking:
        return
    table = Table(title="Plans of one model on one cluster")
    for name in ("group", "plans", "tau", "regret %", "of three %", "we would pick"):
        table.add_column(name, justify="left" if name in ("group", "we would pick") else "right")
    for one in found.ranking:
        figures = (f"{one.tau:.2f}", f"{100 * one.regret_share:.1f}", f"{100 * one.regret_of_three_share:.1f}")
        table.add_row(one.group, str(one.num_plans), *figures, one.pick)
    stdout.print(table)


def _show_memory(found: Validation) -> None:
    for source, error in found.memory_median.items():
        stdout.print(f"memory, {source}: {100 * error:.1f} % in the median", markup=False)
    table = found.fit_table
    if table.share_right is not None:
        stdout.print(
            f"fits or not: {100 * table.share_right:.1f} % right; {table.num_fit_but_out_of_memory} plans that we "
            f"thought to fit ran out of memory, {table.num_refused_but_ran} that we refused ran",
            markup=False,
        )
