"""``rephaze calibrate``: fit the constants of the physics to measured runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rephaze.cli.output import JsonOption, print_json, stderr, stdout
from rephaze.types.output_files import FileKind, check_output, write_whole

CALIBRATION = FileKind(name="a file of constants", starts=(b"#constantsofthecalibrated",), endings=(".toml",))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("calibrate", short_help="Fit the physics' constants to measured runs.")(calibrate)


def calibrate(
    files: Annotated[
        list[Path], typer.Argument(help="CSV files of measured runs (docs/validation.md).", metavar="FILE")
    ],
    steps: Annotated[int, typer.Option("--steps", help="Steps of the fit.", min=1, max=20)] = 3,
    out: Annotated[Path | None, typer.Option("--out", help="Write the file of constants.", metavar="TOML")] = None,
    json: JsonOption = False,
) -> None:
    """Fit the constants anew, and judge them with each model and each source left out.

    Takes minutes. The constants in use are those of the package's calibration file; --out writes one like it.

    Example: [bold]rephaze calibrate runs.csv --out calibration.toml[/]
    """
    from rich.table import Table

    from rephaze.api.calibrating import calibrate as fit_tables

    if out is not None:
        check_output(out, CALIBRATION, files)
    found = fit_tables(files, num_steps=steps)
    if out is not None:
        write_whole(out, found.text, CALIBRATION, files)
        stderr.print(f"wrote {out}")
    if json:
        print_json(found.record())
        return
    table = Table(title="Mean absolute error of step times, %")
    for name in ("source", "in sample", "model left out", "source left out"):
        table.add_column(name, justify="left" if name == "source" else "right")
    for source, error in found.in_sample.items():
        others = (found.model_left_out[source], found.source_left_out[source])
        table.add_row(source, *(f"{100 * share:.1f}" for share in (error, *others)))
    stdout.print(table)
    for name, value in found.values.items():
        stdout.print(f"{name} = {value:.4g}", markup=False, highlight=False)
