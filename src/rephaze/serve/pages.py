"""The pages: everything that came from a user is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from rephaze.serve.folder import RunRow
from rephaze.serve.searches import SCENARIOS
from rephaze.types.run_record import minute_of
from rephaze.types.search import Objective
from rephaze.units import UM2_PER_MM2

_STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:1rem auto;padding:0 1rem}
table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:left;border-bottom:1px solid #8884}
.box{overflow-x:auto}input,select,button{font:inherit}form{margin:.8rem 0}svg{width:100%;height:18rem}
.bound{stroke:#c60;fill:none}.best{stroke:#06c;fill:none}.said{padding:.5rem;border:1px solid #c60}
"""
LIVE_SCRIPT = """
"use strict";
const box = document.getElementById("live");
async function look() {
  const answer = await fetch(box.dataset.from);
  if (!answer.ok) return;
  const found = await answer.json();
  document.getElementById("state").textContent = found.state || found.status;
  const last = found.points.length ? found.points[found.points.length - 1] : null;
  if (last) document.getElementById("numbers").textContent =
    "after " + last[0].toFixed(1) + " s: best " + (last[1] === null ? "none" : last[1].toPrecision(6)) +
    ", bound " + (last[2] === null ? "none" : last[2].toPrecision(6));
  const tops = found.points.flatMap(p => [p[1], p[2]]).filter(v => v !== null);
  const most = Math.max(...tops, 1e-300), end = Math.max(...found.points.map(p => p[0]), 1e-9);
  for (const [name, at] of [["best", 1], ["bound", 2]]) {
    const steps = found.points.filter(p => p[at] !== null)
      .map(p => (1000 * p[0] / end).toFixed(1) + "," + (290 - 280 * p[at] / most).toFixed(1));
    box.querySelector("." + name).setAttribute("points", steps.join(" "));
  }
  if (found.state === "running" || (!found.state && found.status === "no answer yet")) setTimeout(look, 1000);
}
look();
"""


def page(title: str, body: str) -> str:
    """A whole page; ``body`` is HTML, the title is not."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f'<p><a href="/">runs</a></p><h1>{escape(title)}</h1>{body}</html>'
    )


def run_url(name: str, rest: str = "") -> str:
    """The address of a run's page."""
    return f"/runs/{quote(name, safe='')}{rest}"


def list_page(rows: Sequence[RunRow], words: str, form_key: str, said: str = "") -> str:
    """All runs, a filter, two to compare, and the form that starts a search."""
    cells = [
        [
            f'<input type="radio" name="a" aria-label="first" value="{escape(row.name)}"> '
            f'<input type="radio" name="b" aria-label="second" value="{escape(row.name)}">',
            f'<a href="{escape(run_url(row.name))}">{escape(row.name)}</a>',
            *map(
                escape,
                (row.models, row.scenario, row.objective, row.status, _value(row), minute_of(row.updated_at)),
            ),
        ]
        for row in rows
    ]
    headings = ("compare", "run", "models", "scenario", "objective", "status", "best", "last written")
    told = f'<p class="said" role="alert">{escape(said)}</p>' if said else ""
    found = (
        f'<form action="/compare">{_table(headings, cells)}<button>Compare the two marked</button></form>'
        if rows
        else "<p>No runs here, or none with these words.</p>"
    )
    return page(
        "Runs",
        f'{told}<form><label>Filter <input name="words" value="{escape(words)}"></label> '
        "<button>Show</button></form>"
        f"{found}<h2>Start a search</h2>{_start_form(form_key)}",
    )


def run_page(row: RunRow, state: str, has_report: bool, form_key: str) -> str:
    """One run: answer, live curve of best and bound, report, stop."""
    facts = [[escape(name), escape(value)] for name, value in _facts(row)]
    live = (
        f'<div id="live" data-from="{escape(run_url(row.name, "/progress"))}">'
        f'<p><b id="state">{escape(state or row.status)}'
        '</b> <span id="numbers"></span></p><svg viewBox="0 0 1000 300" preserveAspectRatio="none" role="img" '
        'aria-label="best (blue) and bound (orange) over time"><polyline class="bound" points=""/>'
        '<polyline class="best" points=""/></svg></div><script src="/live.js"></script>'
    )
    report = (
        f'<p><a href="{escape(run_url(row.name, "/report"))}">Report</a></p>'
        if has_report
        else _button(run_url(row.name, "/report"), "Write the report", form_key)
    )
    stop = _button(run_url(row.name, "/stop"), "Stop the search", form_key) if state == "running" else ""
    return page(row.name, _table(("", ""), facts) + live + stop + report)


def started_page(name: str, state: str, form_key: str) -> str:
    """A search that has not written anything yet, or never did."""
    body = f"<p>The search is {escape(state)}; nothing is recorded yet.</p>"
    if state == "running":
        stop = _button(run_url(name, "/stop"), "Stop the search", form_key)
        body += f'<meta http-equiv="refresh" content="1">{stop}'
    return page(name, body)


def compare_page(one: RunRow, other: RunRow) -> str:
    """Two runs side by side."""
    pairs = zip(_facts(one), _facts(other), strict=True)
    cells = [[escape(name), escape(here), escape(there)] for (name, here), (_, there) in pairs]
    if one.value and other.value and one.objective == other.objective:
        cells.append(["second over first", "", f"{other.value / one.value:.4g} x"])
    return page(f"{one.name} and {other.name}", _table(("", escape(one.name), escape(other.name)), cells))


def _facts(row: RunRow) -> list[tuple[str, str]]:
    return [
        ("models", row.models),
        ("scenario", row.scenario),
        ("objective", row.objective),
        ("status", row.status),
        ("best", _value(row)),
        ("chip", row.chip),
        ("area", f"{row.area_um2 / UM2_PER_MM2:,.1f} mm²" if row.area_um2 else ""),
        ("plans", row.plans),
        ("last written", minute_of(row.updated_at)),
    ]


def _value(row: RunRow) -> str:
    return "" if row.value is None else f"{row.value:,.5g} (gap {row.gap or 0.0:.3%})"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Of cells that are HTML already."""
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="box"><table><tr>{head}</tr>{body}</table></div>'


def _button(action: str, label: str, form_key: str) -> str:
    return (
        f'<form method="post" action="{escape(action)}">'
        f'<input type="hidden" name="key" value="{escape(form_key)}">'
        f"<button>{escape(label)}</button></form>"
    )


def _start_form(form_key: str) -> str:
    def choices(name: str, values: Sequence[str]) -> str:
        options = "".join(f"<option>{escape(value)}</option>" for value in values)
        return f'<label>{name} <select name="{name}">{options}</select></label> '

    return (
        '<form method="post" action="/searches">'
        f'<input type="hidden" name="key" value="{escape(form_key)}">'
        '<label>name <input name="name" required></label> <label>models <input name="models" required '
        'placeholder="gpt2-xl"></label> '
        + choices("scenario", SCENARIOS)
        + choices("objective", [str(one) for one in Objective])
        + '<label>area limit mm² <input name="area_limit_mm2" size="6"></label> '
        '<label>time limit s <input name="time_limit" size="6"></label> <button>Start</button></form>'
    )
