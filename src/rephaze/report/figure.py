"""A figure of a page: its drawing, a legend that switches what is shown, buttons, and its data as CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

Cell = str | int | float | bool | None

FILES = (
    ("png", "PNG", "Save as picture"),
    ("svg", "SVG", "Save as drawing"),
    ("csv", "CSV", "Save the data"),
)
ZOOMS = (
    ("in", "+", "Zoom in (key +)"),
    ("out", "\N{MINUS SIGN}", "Zoom out (key -)"),
    ("all", "All", "Show all (key 0)"),
)
"""What buttons do, their signs, and what is said of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One entry of a legend; marks of it carry its key as ``data-s``."""

    key: str
    name: str
    colour: str
    """Number of a colour of the style sheet, or a name it has a class for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """What is drawn, and the numbers behind it."""

    name: str
    """Of the file that buttons write, and of the element; made safe for both."""
    title: str
    svg: str
    header: Sequence[str]
    """Of the data; columns carry their units."""
    rows: Sequence[Sequence[Cell]]
    legend: Sequence[Series] = field(default_factory=tuple)
    note: str = ""
    is_zoomable: bool = False
    """Along x: its drawing has an inner one with class ``zoom`` and ticks with class ``xticks``."""

    @property
    def key(self) -> str:
        """Its name as an identifier."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-") or "figure"


def figure_html(figure: Figure) -> str:
    """The figure as part of a page."""
    buttons = _buttons(ZOOMS if figure.is_zoomable else ()) + _buttons(FILES, f": {figure.title}")
    entries = "".join(
        f'<button type="button" aria-pressed="true" data-toggle="{escape(one.key)}">'
        f'<i class="b{escape(one.colour)}"></i>{escape(one.name)}</button>'
        for one in figure.legend
    )
    legend = f'<div class="legend" role="group" aria-label="Show or hide">{entries}</div>' if entries else ""
    hint = " Zoom with + and -, move with the arrow keys, 0 shows all." if figure.is_zoomable else ""
    note = f'<p class="note">{escape(figure.note)}</p>' if figure.note else ""
    zoom = " zoomable" if figure.is_zoomable else ""
    return (
        f'<figure class="fig{zoom}" id="fig-{figure.key}" data-name="{figure.key}">'
        f'<div class="head"><figcaption>{escape(figure.title)}</figcaption>'
        f'<div class="tools">{buttons}</div></div>'
        f'{legend}<div class="plot" tabindex="0" role="group" aria-label="{escape(figure.title)}.{hint}">'
        f"{figure.svg}</div>{note}{_data(figure)}</figure>"
    )


def _buttons(listed: Sequence[tuple[str, str, str]], of: str = "") -> str:
    return "".join(
        f'<button type="button" data-act="{act}" title="{said}" aria-label="{escape(said + of)}">{sign}</button>'
        for act, sign, said in listed
    )


def csv_text(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """The data as a file has it: numbers in full, None as a blank."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(["" if cell is None else cell for cell in row] for row in rows)
    return out.getvalue()


def _data(figure: Figure) -> str:
    """The data as text that ends no element, whatever it holds."""
    text = json.dumps(csv_text(figure.header, figure.rows), ensure_ascii=True)
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return f'<script type="application/json" class="csv">{text}</script>'
