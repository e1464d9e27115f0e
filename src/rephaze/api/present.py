"""How results look in a terminal and in a notebook: sentences and tables as plain text and as HTML.

What is shown is made once (``views``) and drawn here twice, or a third time with colours by the command line.
Names that users give (models, chips, layers) may hold anything: HTML is escaped, and what a terminal would take
for a command is replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

MAX_ROWS = 40
"""Longer tables lose their middle; the records behind them keep all of it."""
_GAP = "  "


@dataclass(frozen=True, kw_only=True, slots=True)
class TextTable:
    """Cells ready to be read, under headings."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: frozenset[str] = frozenset()
    """Headings of columns that hold words; the others hold numbers and stand to the right."""
    title: str = ""


Block = str | TextTable
"""A sentence or a table; the first sentence of a result is its headline."""


class Shown:
    """A result that draws itself: as text where it is printed, as HTML where a notebook displays it."""

    __slots__ = ()

    def blocks(self) -> Sequence[Block]:
        """What there is to show, headline first."""
        raise NotImplementedError

    def __str__(self) -> str:
        return text_of(self.blocks())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_of(self.blocks())


def text_of(blocks: Sequence[Block]) -> str:
    """The blocks as plain text, one below the other."""
    return "\n".join(_table_text(block) if isinstance(block, TextTable) else printable(block) for block in blocks)


def html_of(blocks: Sequence[Block]) -> str:
    """The blocks as a piece of HTML without scripts or styles of its own."""
    parts = []
    for position, block in enumerate(blocks):
        if isinstance(block, TextTable):
            parts.append(_table_html(block))
        else:
            text = escape(printable(block))
            parts.append(f"<p><b>{text}</b></p>" if position == 0 else f"<p>{text}</p>")
    return "<div>" + "".join(parts) + "</div>"


def printable(text: str) -> str:
    """The text on one line, with a mark for each character that a terminal would obey instead of show."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def _table_text(table: TextTable) -> str:
    rows = [tuple(printable(cell) for cell in row) for row in (table.headings, *_rows_shown(table))]
    widths = [max(len(row[k]) for row in rows) for k in range(len(table.headings))]
    lines = [printable(table.title)] if table.title else []
    for row in rows:
        cells = (
            cell.ljust(width) if heading in table.left else cell.rjust(width)
            for cell, width, heading in zip(row, widths, table.headings, strict=True)
        )
        lines.append(_GAP.join(cells).rstrip())
    return "\n".join(lines)


def _table_html(table: TextTable) -> str:
    aligns = ["left" if heading in table.left else "right" for heading in table.headings]

    def row_html(row: tuple[str, ...], tag: str) -> str:
        cells = (
            f'<{tag} style="text-align: {align}">{escape(printable(cell))}</{tag}>'
            for cell, align in zip(row, aligns, strict=True)
        )
        return "<tr>" + "".join(cells) + "</tr>"

    caption = f"<caption>{escape(printable(table.title))}</caption>" if table.title else ""
    head = row_html(table.headings, "th")
    body = "".join(row_html(row, "td") for row in _rows_shown(table))
    return f"<table>{caption}<thead>{head}</thead><tbody>{body}</tbody></table>"


def _rows_shown(table: TextTable) -> Sequence[tuple[str, ...]]:
    """All rows, or the first and the last ones around a row that says how many are left out."""
    left_out = len(table.rows) - MAX_ROWS
    if left_out <= 0:
        return table.rows
    first, half = table.headings[0], MAX_ROWS // 2
    said = f"({left_out:,} more)"
    between = tuple(said if heading == first else "" for heading in table.headings)
    return (*table.rows[:half], between, *table.rows[len(table.rows) - half :])
