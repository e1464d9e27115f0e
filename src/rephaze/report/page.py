"""A self-contained HTML page: sections of text, tables and figures; nothing is fetched when it is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from rephaze.errors import FileError

_STYLE = """
:root { color-scheme: light; --ink: #1d2433; --soft: #5b6577; --line: #dfe4ec; --accent: #2456a6; --good: #1c7c43; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); margin: 0; background: #f6f7f9; }
main { max-width: 1080px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 0 0 10px; }
section { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 18px 20px; margin: 18px 0; }
p.lead { color: var(--soft); margin: 0 0 8px; } p.note { color: var(--soft); font-size: 13px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 5px 10px; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; font-size: 13px; }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin: 12px 0 0; }
.card { border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; min-width: 150px; flex: 1; }
.card b { display: block; font-size: 20px; } .card span { color: var(--soft); font-size: 13px; }
.status { color: #fff; background: var(--accent); border-radius: 12px; padding: 1px 10px; font-size: 13px; }
.status.optimal { background: var(--good); }
.scroll { overflow-x: auto; }
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One block of a page; ``body`` is HTML made by the functions below."""

    title: str
    body: str


def paragraph(text: str, css_class: str = "") -> str:
    """Text as a paragraph, escaped."""
    return f'<p class="{escape(css_class)}">{escape(text)}</p>'


def cards(items: Sequence[tuple[str, str]]) -> str:
    """Figures that stand out: (value, what it is)."""
    inner = "".join(
        f'<div class="card"><b>{escape(value)}</b><span>{escape(label)}</span></div>'
        for value, label in items
    )
    return f'<div class="cards">{inner}</div>'


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of text cells, escaped; the first column is left-aligned."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def figure(plot: Any) -> str:
    """A Plotly figure without its library: the page carries that once."""
    html: str = plot.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False})
    return html


def write_page(path: Path, *, title: str, lead: str, sections: Sequence[Section]) -> Path:
    """Write the page and return its path; readers see the old page or the new one, never half of one."""
    from plotly.offline import get_plotlyjs

    blocks = "".join(f"<section><h2>{escape(s.title)}</h2>{s.body}</section>" for s in sections)
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style><script>{get_plotlyjs()}</script></head>"
        f'<body><main><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>{blocks}</main></body></html>'
    )
    partial = path.with_suffix(path.suffix + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(page, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror})") from None
    return path
