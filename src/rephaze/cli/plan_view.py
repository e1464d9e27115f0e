"""Plans in colours: stages with their loads and memory bars, where the time goes, what is left of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from rephaze.api.plan_views import (
    FREE,
    LEGEND,
    STAGE_HEADINGS,
    STAGE_WORDS,
    TOO_MUCH,
    alternative_sentence,
    alternative_table,
    choices_asked,
    memory_sentence,
    plan_sentence,
    proof_sentence,
    replay_sentence,
    stage_cells,
    time_sentence,
)
from rephaze.cli.tables import bare_table, filled

if TYPE_CHECKING:
    from rich.console import Console

    from rephaze.api.plan_results import EvaluatedPlan, Event, PlacedModel
    from rephaze.types.placement import PlacementProblem, PricedPlan

_MOST_ROWS = 40
_TIMELINE_WIDTH = 72
_LETTERS = {"forward": "F", "backward": "B", "sync": "S", "tied": "T", "step": "O"}
_LETTER_STYLES = {"F": "cyan", "B": "green", "S": "yellow", "T": "yellow", "O": "magenta", FREE: "dim"}
_MEMORY_STYLES = {
    "W": "cyan", "G": "blue", "O": "magenta", "A": "green", "R": "yellow", "w": "bright_black",
    FREE: "dim", TOO_MUCH: "bold red",
}  # fmt: skip


def show_placement(console: Console, found: PlacedModel) -> None:
    """Print an answer, and the alternative asked about."""
    console.rule(Text(found.label))
    placement = found.placement
    if placement.best is None:
        console.print(f"[bold red]{placement.status}[/] ", end="")
        console.print(placement.reason, markup=False, highlight=False)
    else:
        _show_plan(console, found.problem, placement.best, proof_sentence(found))
    if found.alternative is not None:
        _show_alternative(console, found)


def show_evaluated(console: Console, label: str, found: EvaluatedPlan) -> None:
    """Print a given plan, its timeline if asked for, and what would help if it does not fit."""
    console.rule(Text(label))
    replayed = "" if found.replay_s is None else replay_sentence(found.replay_s)
    _show_plan(console, found.problem, found.priced, replayed)
    if found.timeline is not None:
        _show_timeline(console, found.timeline)
    for remedy in found.remedies:
        console.print(f"- {remedy}", markup=False, highlight=False)


def _show_plan(console: Console, problem: PlacementProblem, priced: PricedPlan, note: str) -> None:
    headline = Text(plan_sentence(problem, priced))
    headline.highlight_regex(r"^\S+ s|tp \d+, pp \d+, dp \d+", "bold")
    console.print(headline)
    if note:
        console.print(note, style="dim", highlight=False)
    console.print(_stage_table(priced))
    left = Text(memory_sentence(priced))
    left.highlight_regex(r"\S+ GiB over", "red")
    console.print(LEGEND, style="dim", highlight=False)
    console.print(left)
    console.print(time_sentence(priced.time), highlight=False)


def _show_timeline(console: Console, events: Sequence[Event]) -> None:
    """Print what each stage does when, one letter a time slice."""
    end_s = max(event.end_s for event in events) or 1.0
    num_stages = 1 + max(event.stage for event in events)
    rows = [[FREE] * _TIMELINE_WIDTH for _ in range(num_stages)]
    for event in events:
        first = int(event.start_s / end_s * _TIMELINE_WIDTH)
        last = max(first + 1, round(event.end_s / end_s * _TIMELINE_WIDTH))
        for column in range(first, min(last, _TIMELINE_WIDTH)):
            rows[event.stage][column] = _LETTERS[event.activity]
    console.print(
        f"timeline, {end_s:.6g} s: F forward, B backward, S gradient sync, T tied weights, O optimizer step"
    )
    for stage, row in enumerate(rows):
        line = Text(f"{stage:>4} ")
        line.append(_styled("".join(row), _LETTER_STYLES))
        console.print(line)


def _stage_table(priced: PricedPlan) -> Table:
    table = bare_table()
    for heading in STAGE_HEADINGS:
        table.add_column(heading, justify="left" if heading in STAGE_WORDS else "right", no_wrap=True)
    slowest = max(stage.load_s for stage in priced.stages)
    for position, stage in enumerate(priced.stages):
        if position == _MOST_ROWS // 2 and len(priced.stages) > _MOST_ROWS:
            table.add_row("...", f"({len(priced.stages) - _MOST_ROWS} more; --json lists all)")
        if len(priced.stages) > _MOST_ROWS and (
            _MOST_ROWS // 2 <= position < len(priced.stages) - _MOST_ROWS // 2
        ):
            continue
        number, layers, chips, replay, load, held, size, bar = stage_cells(
            position, stage, priced.device_memory_bytes
        )
        table.add_row(
            number, Text(layers), chips, replay, Text(load, style="bold" if stage.load_s == slowest else ""),
            held, Text(size, style="" if stage.fits else "bold red"), _styled(bar, _MEMORY_STYLES),
        )  # fmt: skip
    return table


def _show_alternative(console: Console, found: PlacedModel) -> None:
    alternative = found.alternative
    assert alternative is not None, "shown only if it was asked for"
    console.print(f"\n[bold]Why not {choices_asked(alternative)}?[/] ", end="", highlight=False)
    console.print(alternative.text, markup=False, highlight=False)
    content = alternative_table(found.placement, alternative)
    if content is not None:
        console.print(filled(bare_table(), content))
        console.print(alternative_sentence(alternative), highlight=False)


def _styled(letters: str, styles: dict[str, str]) -> Text:
    """The letters, each in its colour."""
    line = Text()
    for letter in letters:
        line.append(letter, style=styles[letter])
    return line
