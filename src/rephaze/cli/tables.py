"""Tables in one style: narrow margins, and room enough when they go to a pipe or file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rephaze.cli.output import stdout

if TYPE_CHECKING:
    from rich.table import Table

    from rephaze.api.present import TextTable

PIPED_WIDTH = 140
"""Columns of a table when no terminal says how many it has."""


def new_table(title: str) -> Table:
    """An empty table under a title."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))


def bare_table() -> Table:
    """An empty table without lines."""
    from rich.table import Table

    return Table(box=None, pad_edge=False, header_style="bold")


def filled(
    table: Table,
    content: TextTable,
    *,
    no_wrap: frozenset[str] = frozenset(),
    shown: Mapping[str, str] | None = None,
) -> Table:
    """The table with a result's headings and cells.

    Args:
        table: Without columns.
        content: What to show.
        no_wrap: Headings of columns that stay on one line.
        shown: Headings as they are to appear, where that is otherwise.
    """
    from rich.markup import escape

    for heading in content.headings:
        table.add_column(
            escape((shown or {}).get(heading, heading)),
            justify="left" if heading in content.left else "right",
            no_wrap=heading in no_wrap,
            overflow="ellipsis" if heading in no_wrap else "fold",
        )
    for row in content.rows:
        table.add_row(*(escape(cell) for cell in row))
    return table


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
