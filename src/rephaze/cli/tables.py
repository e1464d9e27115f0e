"""Tables in one style: narrow margins, and room enough when they go to a pipe or file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rephaze.cli.output import stdout

if TYPE_CHECKING:
    from rich.table import Table

PIPED_WIDTH = 140
"""Columns of a table when no terminal says how many it has."""


def new_table(title: str) -> Table:
    """An empty table under a title."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))


def has_room_for(width: int) -> bool:
    """Whether tables may be this wide."""
    return not stdout.is_terminal or stdout.width >= width


def print_table(table: Table) -> None:
    """Print a table as wide as the terminal, or as a person would want it in a file."""
    width = stdout.width
    try:
        if not stdout.is_terminal:
            stdout.width = max(width, PIPED_WIDTH)
        stdout.print(table)
    finally:
        stdout.width = width
