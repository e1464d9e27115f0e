"""The pages: everything that came from a user is escaped."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from rephaze.serve.folder import RunRow
from rephaze.serve.searches import SCENARIOS
from rephaze.types.readable import amount
from rephaze.types.run_record import minute_of
from rephaze.types.search import Objective
from rephaze.units import UM2_PER_MM2

_STYLE = """
:root{color-scheme:light dark;--ground:#f3f4f8;--paper:#fff;--ink:#1a1d2e;--soft:#565b70;--line:#dfe2ea;
--go:#2457b8;--best:#1f9467;--bound:#cf3a50}
@media (prefers-color-scheme:dark){:root{--ground:#10141b;--paper:#1b1f29;--ink:#e8eaf0;--soft:#a2a7b8;
--line:#343a48;--go:#6f9bf0;--best:#3fbf8f;--bound:#ef6b7d}}
body{font:15px/1.5 system-ui,sans-serif;max-width:68rem;margin:0 auto;padding:1rem;background:var(--ground);
color:var(--ink)}
h1{font-size:1.5rem;margin:.4rem 0 1rem}h2{font-size:1.1rem;margin:0 0 .8rem}a{color:var(--go)}
section{background:var(--paper);border:1px solid var(--line);border-radius:10px;padding:1rem 1.2rem;margin:1rem 0}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
td,th{padding:.35rem .7rem;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap}
td.wide{white-space:normal;min-width:14rem}th{color:var(--soft);font-size:.85rem}.box{overflow-x:auto}
input,select,button{font:inherit;color:inherit;background:var(--ground);border:1px solid var(--line);
border-radius:6px;padding:.3rem .6rem}
button{background:var(--go);border-color:var(--go);color:var(--paper);cursor:pointer}
input[type=radio]{padding:0}form{margin:.8rem 0}
:focus-visible{outline:2px solid var(--go);outline-offset:2px}
.start{display:grid;grid-template-columns:repeat(auto-fill,minmax(13rem,1fr));gap:.8rem 1rem;align-items:end}
.start label{display:grid;gap:.2rem;font-size:.85rem;color:var(--soft)}.start input,.start select{color:var(--ink)}
svg{width:100%;height:18rem}polyline{fill:none;stroke-width:2;vector-effect:non-scaling-stroke}
.bound{stroke:var(--bound)}.best{stroke:var(--best)}
.key b{display:inline-block;width:.8rem;height:.8rem;border-radius:2px;margin:0 .3rem 0 1rem}
.key .of-best{background:var(--best);margin-left:0}.key .of-bound{background:var(--bound)}.key{color:var(--soft)}
.said{padding:.6rem .8rem;border:1px solid var(--bound);border-radius:6px;background:var(--paper)}
"""
LIVE_SCRIPT = """
"use strict";
const box = document.getElementById("live");
let wasOpen = false;
async function look() {
  // A run that is just being written, or a server that starts anew, answers a moment later.
  const answer = await fetch(box.dataset.from).catch(() => null);
  if (!answer || !answer.ok) { setTimeout(look, 3000); return; }
  const found = await answer.json();
  document.getElementById("state").textContent = found.state || found.status;
  const last = found.points.length ? found.points[found.points.length - 1] : null;
  const shown = (value) => value === null ? "none" : value.toLocaleString("en", { maximumSignificantDigits: 5 });
  if (last) document.getElementById("numbers").textContent =
    "after " + last[0].toFixed(1) + " s: best " + shown(last[1]) + ", bound " + shown(last[2]);
  const tops = found.points.flatMap(p => [p[1], p[2]]).filter(v => v !== null);
  const most = Math.max(...tops, 1e-300), end = Math.max(...found.points.map(p => p[0]), 1e-9);
  if (last) document.getElementById("ends").textContent =
    "; from 0 to " + shown(most) + " upwards, 0 to " + end.toFixed(1) + " s across";
  for (const [name, at] of [["best", 1], ["bound", 2]]) {
    // Steps: a value holds until the next is known, the last one to the edge.
    const known = found.points.filter(p => p[at] !== null);
    const steps = known.flatMap((p, n) => {
      const y = (290 - 280 * p[at] / most).toFixed(1);
      const until = n + 1 < known.length ? known[n + 1][0] : end;
      const edge = n + 1 < known.length ? 0 : 40;
      return [960 * p[0] / end, 960 * until / end + edge].map(x => x.toFixed(1) + "," + y);
    });
    box.querySelector("." + name).setAttribute("points", steps.join(" "));
  }
  const isOpen = found.state ? ["running", "stopping"].includes(found.state) : found.status === "no answer yet";
  if (isOpen) setTimeout(look, 1000);
  // The answer, the chip and the report are there now.
  else if (wasOpen) location.reload();
  wasOpen = isOpen;
}
look();
"""


def page(title: str, body: str) -> str:
    """A whole page; ``body`` is HTML, the title is not."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style>"
        f'<p><a href="/">runs</a></p><h1>{escape(title)}</h1>{body}</html>'
    )


def run_url(name: str, rest: str = "") -> str:
    """The address of a run's page."""
    return f"/runs/{quote(name, safe='')}{rest}"


def list_page(rows: Sequence[RunRow], words: str, form_key: str, said: str = "") -> str:
    """All runs, a filter, two to compare, and the form that starts a search."""
    cells = [
        [
            *(
                f'<input type="radio" name="{which}" required aria-label="{place} to compare: {escape(row.name)}" '
                f'value="{escape(row.name)}">'
                for which, place in (("a", "first"), ("b", "second"))
            ),
            f'<a href="{escape(run_url(row.name))}">{escape(row.name)}</a>',
            *map(
                escape,
                (row.models, row.scenario, row.objective, row.status, _value(row), minute_of(row.updated_at)),
            ),
        ]
        for row in rows
    ]
    headings = ("1st", "2nd", "run", "models", "scenario", "objective", "status", "best", "last written")
    told = _said(said)
    found = (
        f'<form action="/compare">{_table(headings, cells)}<p><button>Compare 1st and 2nd</button></p></form>'
        if rows
        else "<p>No runs here, or none with these words.</p>"
    )
    return page(
        "Runs",
        f'{told}<section><form><label>Filter <input name="words" value="{escape(words)}"></label> '
        f"<button>Show</button></form>{found}</section>"
        f"<section><h2>Start a search</h2>{_start_form(form_key)}</section>",
    )


def run_page(row: RunRow, state: str, last_words: str, has_report: bool, form_key: str) -> str:
    """One run: answer, live curve of best and bound, report, stop."""
    facts = [[escape(name), escape(value)] for name, value in _facts(row) if value]
    live = (
        f'<div id="live" data-from="{escape(run_url(row.name, "/progress"))}">'
        f'<p><b id="state">{escape(state or row.status)}'
        '</b> <span id="numbers"></span></p><p class="key"><b class="of-best"></b>best found'
        '<b class="of-bound"></b>bound: nothing does better<span id="ends"></span></p>'
        '<svg viewBox="0 0 1000 300" preserveAspectRatio="none" role="img" '
        'aria-label="best found and bound over time"><polyline class="bound" points=""/>'
        '<polyline class="best" points=""/></svg></div><script src="/live.js"></script>'
    )
    can_report = row.status != "no answer yet"
    report = (
        f'<p><a href="{escape(run_url(row.name, "/report"))}">Report</a></p>'
        if has_report
        else _button(run_url(row.name, "/report"), "Write the report", form_key)
        if can_report
        else ""
    )
    stop = _button(run_url(row.name, "/stop"), "Stop the search", form_key) if state == "running" else ""
    told = f"<section>{_ending(row, state, last_words)}{_table(('', ''), facts)}{report}</section>"
    watched = f"<section>{live}{stop}</section>"
    # What moves stands first as long as it does.
    return page(row.name, watched + told if state in ("running", "stopping") else told + watched)


def _ending(row: RunRow, state: str, last_words: str) -> str:
    """How a search of this server came to its end, if that was not its own, and how to go on."""
    said = {
        "stopping": "The search is stopping: it ends with the best it has and writes its report.",
        "stopped": "The search was stopped and ended with the best it had.",
        "killed": "The search was killed; what it had recorded is here.",
        "failed": "The search failed; what it had recorded is here.",
    }.get(state, "")
    if not said:
        return ""
    if state != "stopping" and row.status != "optimal":
        command = f"rephaze search --out {shlex.quote(row.name)} --resume"
        said += f" {command}, in the folder of the runs, goes on with it."
    return f"<p>{escape(said)}</p>" + (_said(last_words) if state == "failed" else "")


def started_page(name: str, state: str, last_words: str, form_key: str) -> str:
    """A search that has not written anything yet, or never did."""
    if state == "stopping":
        body = "<p>The search is stopping. Nothing is recorded yet.</p>"
    elif state == "running":
        body = "<p>The search is running: it prepares the models. Nothing is recorded yet.</p>"
    else:
        how = "was killed" if state == "killed" else state
        body = f"<p>The search {escape(how)}; nothing was recorded.</p>"
        body += _said(last_words) if state == "failed" else ""
    if state == "stopping":
        body += '<meta http-equiv="refresh" content="1">'
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
    shown = _table(("", escape(one.name), escape(other.name)), cells)
    return page(f"{one.name} and {other.name}", f"<section>{shown}</section>")


def _said(words: str) -> str:
    """What went wrong, if anything did."""
    return f'<p class="said" role="alert">{escape(words)}</p>' if words else ""


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
    return "" if row.value is None else f"{amount(row.value, 5)} (gap {row.gap or 0.0:.3%})"


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
        '<form class="start" method="post" action="/searches">'
        f'<input type="hidden" name="key" value="{escape(form_key)}">'
        '<label>name of the run <input name="name" required></label> <label>models of the zoo '
        '<input name="models" required placeholder="gpt2-xl bert-large"></label> '
        + choices("scenario", SCENARIOS)
        + choices("objective", [str(one) for one in Objective])
        + '<label>area limit (mm²), if any <input name="area_limit_mm2" inputmode="decimal" size="6"></label> '
        '<label>time limit (s), if any <input name="time_limit" inputmode="decimal" size="6"></label> '
        "<button>Start</button></form>"
    )
