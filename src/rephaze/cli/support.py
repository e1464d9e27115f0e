"""``rephaze support``: what is covered for a model or a chip."""

from __future__ import annotations

from typing import Annotated

import typer

from rephaze.cli.output import JsonOption, print_json, stdout
from rephaze.cli.tables import print_content


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("support")(support)


def support(
    name: Annotated[
        str,
        typer.Argument(
            help="A model (rephaze models), a chip (rephaze chips), or a file of one.", metavar="MODEL|CHIP"
        ),
    ],
    json_output: JsonOption = False,
) -> None:
    """Say what is covered for a model or a chip: extraction, plan options, calibration, exports.

    Each is yes, no, or limited, with the limit.

    Examples:  rephaze support mixtral-8x7b   |   rephaze support h100
    """
    from rephaze.api import support as found_support

    found = found_support(name)
    if json_output:
        print_json(found.record())
    else:
        stdout.print(found.headline)
        print_content(found.table)
