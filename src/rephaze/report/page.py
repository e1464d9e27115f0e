"""A self-contained HTML page: sections of text, tables and figures; nothing is fetched when it is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from rephaze.types.output_files import HTML_PAGE, write_whole

# Whatever a page may come to hold, a browser that opens it asks the network for nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"

# Plotly offers to upload a chart to its makers' cloud unless told not to: a chip under design stays here.
PLOT_CONFIG = {
    "displaylogo": False,
    "showSendToCloud": False,
    "plotlyServerURL": "",
    "modeBarButtonsToRemove": ["lasso2d", "select2d"],
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One block of a page; ``body`` is HTML made by the functions below."""

    title: str
    body: str


def paragraph(text: str, css_class: str = "") -> str:
    """Text as a paragraph, escaped."""
    return f'<p class="{escape(css_class)}">{escape(text)}</p>'


def cards(items: Sequence[tuple[str, str]]) -> str:
    """Numbers that stand out: (value, what it is)."""
    inner = "".join(
        f'<div class="card"><b>{escape(value)}</b><span>{escape(label)}</span></div>' for value, label in items
    )
    return f'<div class="cards">{inner}</div>'


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of text cells, escaped; the first column is left-aligned."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def status_line(status: str, text: str) -> str:
    """A coloured word that says how things stand, and a sentence beside it."""
    name = escape(status)
    return f'<p><span class="status {name}">{name}</span> {escape(text)}</p>'


def heading(text: str) -> str:
    """A heading inside a section."""
    return f"<h3>{escape(text)}</h3>"


def details(summary: str, body: str) -> str:
    """HTML made by these functions, folded away under a line of text."""
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"


def preformatted(text: str) -> str:
    """Text as it is, in a fixed-width face."""
    return f"<pre>{escape(text)}</pre>"


def plot_text(text: str) -> str:
    """Text as a Plotly label shows it: Plotly reads tags, and of named entities only a few (not quotes)."""
    return escape(text, quote=False)


def figure(plot: Any) -> str:
    """A Plotly figure without its library: the page carries that once."""
    html: str = plot.to_html(full_html=False, include_plotlyjs=False, config=PLOT_CONFIG)
    return html


def write_page(path: Path, *, title: str, lead: str, sections: Sequence[Section]) -> Path:
    """Write the page and return its path; readers see the old page or the new one, never half of one."""
    from plotly.offline import get_plotlyjs

    style = files("rephaze.report").joinpath("data", "page.css").read_text("utf-8")
    blocks = "".join(f"<section><h2>{escape(s.title)}</h2>{s.body}</section>" for s in sections)
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style><script>{get_plotlyjs()}</script></head>"
        f'<body><main><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>{blocks}</main></body></html>'
    )
    write_whole(path, page, HTML_PAGE)
    return path
