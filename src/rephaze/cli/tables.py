"""Tables in one style, whole at any width: words wrap, numbers never; rows that have no room are stacked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from rephaze.cli.output import stdout

if TYPE_CHECKING:
    from rich.table import Table

    from rephaze.api.present import TextTable

GAP = 2
LONGEST_WORD = 36
"""Words up to this length are not broken; where that leaves no room, rows are stacked instead."""


def bare_table() -> Table:
    """An empty table without lines."""
    from rich.table import Table

    return Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))


def filled(table: Table, content: TextTable, *, shown: Mapping[str, str] | None = None) -> Table:
    """The table with a result's headings and cells.

    Args:
        table: Without columns.
        content: What to show.
        shown: Headings as they are to appear, where that is otherwise.
    """
    for heading in content.headings:
        table.add_column(
            Text((shown or {}).get(heading, heading)),
            justify="left" if heading in content.left else "right",
            no_wrap=heading not in content.left,
            overflow="fold",
            min_width=_longest_word(content, heading) if heading in content.left else None,
        )
    for row in content.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def print_content(
    content: TextTable, *, shown: Mapping[str, str] | None = None, title_style: str = "bold"
) -> None:
    """Print a table side by side if it has room for that, else row by row.

    Args:
        content: What to show.
        shown: Headings as they are to appear, where that is otherwise; they may have several lines.
        title_style: Of the title.
    """
    if content.title:
        stdout.print(Text(content.title, style=title_style))
    if _least_width(content, shown or {}) <= stdout.width:
        stdout.print(filled(bare_table(), content, shown=shown))
        return
    for row in content.rows:
        stdout.print(_stacked(content, row))


def _least_width(content: TextTable, shown: Mapping[str, str]) -> int:
    """Columns that a table needs: of numbers all, of words some."""
    total = GAP * (len(content.headings) - 1)
    for at, heading in enumerate(content.headings):
        lines = shown.get(heading, heading).split("\n")
        cells = max((len(row[at]) for row in content.rows), default=0)
        least = _longest_word(content, heading) if heading in content.left else cells
        total += max(least, *map(len, lines))
    return total


def _longest_word(content: TextTable, heading: str) -> int:
    """Letters of the longest word of a column."""
    at = content.headings.index(heading)
    words = (len(word) for row in content.rows for word in row[at].split())
    return min(max(words, default=1), LONGEST_WORD)


def _stacked(content: TextTable, row: tuple[str, ...]) -> Text:
    """A row as lines of heading and cell; none is broken in itself unless it is longer than a line."""
    pairs = [(heading, cell) for heading, cell in zip(content.headings, row, strict=True) if cell]
    text, used = Text(), 0
    for at, (heading, cell) in enumerate(pairs):
        size = len(heading) + 1 + len(cell)
        if at and used + GAP + 1 + size > stdout.width:
            text.append("\n  ")
            used = 2
        elif at:
            text.append(", ")
            used += 2
        if heading and (at or heading not in content.left):
            text.append(f"{heading} ", style="dim")
            text.append(cell)
        else:
            text.append(cell, style="bold" if not at else "")
        used += size
    return text
