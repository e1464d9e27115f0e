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
    rates_said,
    replay_sentence,
    stage_cells,
    time_sentence,
)
from rephaze.cli.output import styled
from rephaze.cli.tables import bare_table, print_content

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

    from rephaze.api.full_plans import FullAnswer
    from rephaze.api.plan_results import EvaluatedPlan, PlacedModel
    from rephaze.types.placement import PlacementProblem, PricedPlan

_MOST_ROWS = 40
_TIMELINE_WIDTH = 72
_LETTERS = {
    "forward": ("F", "forward"), "backward": ("B", "backward"), "weight": ("W", "weight part of it"),
    "message": ("m", "message between stages"), "scatter": ("s", "gradients left to sum"),
    "sync": ("S", "gradient sync"), "tied": ("T", "tied weights"), "step": ("O", "optimizer step"),
    "regather": ("G", "weights gathered again"),
}  # fmt: skip
"""What a device does, and the letter it is drawn with."""
_LETTER_STYLES = {
    "F": "cyan", "B": "green", "W": "blue", "m": "yellow", "s": "yellow", "S": "yellow", "T": "yellow",
    "O": "magenta", "G": "yellow", FREE: "dim",
}  # fmt: skip
_MEMORY_STYLES = {
    "W": "cyan", "G": "blue", "O": "magenta", "A": "green", "R": "yellow", "w": "bright_black",
    FREE: "dim", TOO_MUCH: "bold red",
}  # fmt: skip


def show_placement(console: Console, found: PlacedModel) -> None:
    """Print an answer, and the alternative asked about."""
    placement = found.placement
    console.print(Text(found.label, style="bold"))
    if placement.best is None:
        console.print(styled((str(placement.status), "bold red"), f" {placement.reason}"))
    else:
        notes = [*rates_said(found.rates, found.source), proof_sentence(found)]
        _show_plan(console, found.problem, placement.best, notes)
    if found.alternative is not None:
        _show_alternative(console, found)


def show_evaluated(console: Console, label: str, found: EvaluatedPlan) -> None:
    """Print a given plan, its timeline if asked for, and what would help if it does not fit."""
    console.print(Text(label, style="bold"))
    replayed = [] if found.replay_s is None else [replay_sentence(found.replay_s)]
    _show_plan(console, found.problem, found.priced, [*rates_said(found.rates), *replayed])
    if found.timeline is not None:
        rows = [(event.stage, str(event.activity), event.start_s, event.end_s) for event in found.timeline]
        _show_timeline(console, rows)
    for remedy in found.remedies:
        console.print(f"- {remedy}")


def _show_plan(console: Console, problem: PlacementProblem, priced: PricedPlan, notes: list[str]) -> None:
    headline = Text(plan_sentence(problem, priced))
    headline.highlight_regex(r"^\S+ s|tp \d+, pp \d+, dp \d+", "bold")
    console.print(headline)
    for note in notes:
        console.print(note, style="dim")
    console.print(_stage_table(priced))
    left = Text(memory_sentence(priced))
    left.highlight_regex(r"\S+ GiB over", "red")
    console.print(LEGEND, style="dim")
    console.print(left)
    console.print(time_sentence(priced.time))


def show_full(console: Console, found: FullAnswer) -> None:
    """Print an answer of cost model ``full``, and its timeline if asked for."""
    console.print(str(found))
    if found.timeline is not None:
        rows = [(event.device, str(event.kind), event.start_s, event.end_s) for event in found.timeline]
        _show_timeline(console, rows)


def _show_timeline(console: Console, events: Sequence[tuple[int, str, float, float]]) -> None:
    """Print what each stage or device does when, one letter a time slice.

    Args:
        console: Where to.
        events: Stage or device, what it does, start and end in seconds.
    """
    end_s = max((end for *_, end in events), default=0.0) or 1.0
    rows = [[FREE] * _TIMELINE_WIDTH for _ in range(1 + max((row for row, *_ in events), default=0))]
    for row, activity, start_s, stop_s in events:
        first = int(start_s / end_s * _TIMELINE_WIDTH)
        last = max(first + 1, round(stop_s / end_s * _TIMELINE_WIDTH))
        for column in range(first, min(last, _TIMELINE_WIDTH)):
            rows[row][column] = _LETTERS[activity][0]
    seen = {activity for _, activity, *_ in events}
    legend = ", ".join(" ".join(told) for activity, told in _LETTERS.items() if activity in seen)
    console.print(f"timeline, {end_s:.6g} s: {legend}")
    for number, letters in enumerate(rows):
        line = Text(f"{number:>4} ")
        line.append(_styled("".join(letters), _LETTER_STYLES))
        console.print(line)


def _stage_table(priced: PricedPlan) -> Table:
    table = bare_table()
    for heading in STAGE_HEADINGS:
        # Only names give way where there is little room: a number or a bar that is cut says something else.
        is_names = heading == "layers"
        justify: JustifyMethod = "left" if heading in STAGE_WORDS else "right"
        table.add_column(heading, justify=justify, no_wrap=not is_names, overflow="fold")
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
    console.print()
    console.print(styled((f"Why not {choices_asked(alternative)}?", "bold"), f" {alternative.text}"))
    content = alternative_table(found.placement, alternative)
    if content is not None:
        print_content(content)
        console.print(alternative_sentence(alternative))


def _styled(letters: str, styles: dict[str, str]) -> Text:
    """The letters, each in its colour."""
    line = Text()
    for letter in letters:
        line.append(letter, style=styles[letter])
    return line
