"""A self-contained HTML page: sections of text, tables and figures; nothing is fetched when it is opened."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

from rephaze.types.output_files import HTML_PAGE, write_whole

MOST_IN_NAME = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One block of a page; ``body`` is HTML made by the functions below."""

    title: str
    body: str
    short: str = ""
    """Its title in the list of sections, if that is another."""


def paragraph(text: str, css_class: str = "") -> str:
    """Text as a paragraph, escaped."""
    return f'<p class="{escape(css_class)}">{escape(text)}</p>'


def cards(items: Sequence[tuple[str, str]]) -> str:
    """Numbers that stand out: (value, what it is)."""
    inner = "".join(
        f'<div class="card"><b>{escape(value)}</b><span>{escape(label)}</span></div>' for value, label in items
    )
    return f'<div class="cards">{inner}</div>'


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    own: int | None = None,
    texts: Collection[int] = (),
    hide_empty: bool = False,
) -> str:
    """A table of text cells, escaped, in a box that scrolls.

    Args:
        header: Of the columns.
        rows: Their cells.
        own: The row that is marked.
        texts: Columns that are left-aligned besides the first.
        hide_empty: Leave out columns without a word in any row.
    """
    shown = [at for at in range(len(header)) if not hide_empty or any(row[at] for row in rows)]

    def cells(kind: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{kind} class=text>{escape(cell)}</{kind}>" if at in texts else f"<{kind}>{escape(cell)}</{kind}>"
            for at in shown
            for cell in (row[at],)
        )

    body = "".join(
        f"<tr class=own>{cells('td', row)}</tr>" if at == own else f"<tr>{cells('td', row)}</tr>"
        for at, row in enumerate(rows)
    )
    return (
        '<div class="scroll" tabindex="0" role="group" aria-label="Table">'
        f"<table><thead><tr>{cells('th', header)}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def together(text: str) -> str:
    """Text that is not broken over lines."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


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
    return f'<pre tabindex="0">{escape(text)}</pre>'


def tabs(name: str, panels: Sequence[tuple[str, str]]) -> str:
    """Bodies of which one is shown, each with its title; a single one without a list of titles.

    Without scripts all are shown one after the other.
    """
    if len(panels) == 1:
        return panels[0][1]
    key = identifier(name)
    buttons = "".join(
        f'<button type="button" role="tab" id="{key}-tab-{at}" aria-controls="{key}-panel-{at}" '
        f'aria-selected="{"false" if at else "true"}">{escape(title)}</button>'
        for at, (title, _) in enumerate(panels)
    )
    bodies = "".join(
        f'<div role="tabpanel" id="{key}-panel-{at}" aria-labelledby="{key}-tab-{at}">{body}</div>'
        for at, (_, body) in enumerate(panels)
    )
    return f'<div class="tabs" role="tablist" aria-label="{escape(name)}" hidden>{buttons}</div>{bodies}'


def identifier(text: str) -> str:
    """Text as the name of an element or a file; texts that look alike so are told apart."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:MOST_IN_NAME]
    is_same = plain == text.lower().replace(" ", "-")
    return plain if is_same else f"{plain or 'x'}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def write_page(path: Path, *, title: str, lead: str, sections: Sequence[Section]) -> Path:
    """Write the page and return its path; readers see the old page or the new one, never half of one."""
    folder = files("rephaze.report").joinpath("data")
    style, drawn, script = (
        folder.joinpath(name).read_text("utf-8") for name in ("page.css", "figure.css", "page.js")
    )
    names = [identifier(section.title) for section in sections]
    blocks = "".join(
        f'<section id="{name}"><h2>{escape(section.title)}</h2>{section.body}</section>'
        for name, section in zip(names, sections, strict=True)
    )
    links = "".join(
        f'<li><a href="#{name}">{escape(section.short or section.title)}</a></li>'
        for name, section in zip(names, sections, strict=True)
    )
    listed = f'<nav aria-label="Sections"><ul>{links}</ul></nav>' if len(sections) > 3 else ""
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<title>{escape(title)}</title><style>{style}</style><style id="figure-style">{drawn}</style></head>'
        f'<body><a class="skip" href="#{names[0] if names else ""}">To the answer</a>{listed}'
        f'<main><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>{blocks}</main>'
        f"<script>{script}</script></body></html>"
    )
    write_whole(path, page, HTML_PAGE)
    return path


def _policy(script: str) -> str:
    """Whatever a page may come to hold: its browser asks the network for nothing, and runs this script alone."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
