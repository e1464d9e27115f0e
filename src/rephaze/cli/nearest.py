"""How an answer ends: the nearest alternatives, what each loses and where, and how to launch it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rephaze.cli.output import step_status

if TYPE_CHECKING:
    from rich.console import Console

    from rephaze.api.full_plans import FullAnswer
    from rephaze.api.plan_results import PlacedModel
    from rephaze.api.search_results import Exploration

LAUNCH = "--to megatron, torchtitan, deepspeed, maxtext or nemo writes its settings, --to perfetto a trace"


def show_nearest(console: Console, answer: FullAnswer | PlacedModel) -> None:
    """Print what comes next to a plan; nothing without one, or beside an alternative that was asked about."""
    from rephaze.api.nearest import nearest_plans

    if answer.plan is None:
        return
    if answer.alternative is None:
        with step_status("looking at alternatives", quiet=False):
            near = nearest_plans(answer)
        told = [one.text for one in near.plans] + ([near.skipped] if near.skipped else [])
        _show(console, told)
    console.print(f"launch it: the same command with {LAUNCH}", highlight=False)


def show_near_designs(console: Console, result: Exploration, out: Path | None) -> None:
    """Print what comes next to the answer of a search; nothing without one."""
    from rephaze.api.near_designs import near_designs

    if result.chip is None:
        return
    with step_status("looking at alternatives", quiet=False):
        told = near_designs(result, out)
    _show(console, told)
    if out is not None:
        text = f"launch it: rephaze export {out} {LAUNCH}"
        console.print(text, highlight=False, markup=False)


def _show(console: Console, told: list[str]) -> None:
    if told:
        console.print("nearest alternatives", style="bold", highlight=False)
    for line in told:
        console.print(f"- {line}", highlight=False, markup=False)
