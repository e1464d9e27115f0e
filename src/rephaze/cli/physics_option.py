"""Option ``--physics`` of commands that plan."""

from __future__ import annotations

from typing import Annotated

import typer

PhysicsOption = Annotated[
    str | None,
    typer.Option(
        "--physics",
        help="ideal: chips and links reach their figures; calibrated: what measured ones of their family reach "
        "(docs/validation.md); else as the scenario says.",
        metavar="ideal|calibrated",
    ),
]
