"""What a comparison shows: every baseline, the gain by cause, what sharing one chip costs each model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rephaze.api.plan_rates import OBJECTIVE_UNITS
from rephaze.api.present import Block, TextTable
from rephaze.units import gap_text

if TYPE_CHECKING:
    from rephaze.types.comparison import Baseline, Comparison, GainSplit, Sharing

LEGEND = (
    "gap: how much more schedules that are not proven might give; vs: over tpuv4 with the expert and the "
    "searched plan; chips: looked at"
)


def comparison_blocks(found: Comparison) -> list[Block]:
    """Baselines with their notes, the gain by cause, and what sharing costs."""
    headline = f"{', '.join(found.settings.models)}, scenario {found.settings.scenario.name}"
    blocks: list[Block] = [headline, baseline_table(found), LEGEND, *baseline_notes(found)]
    if found.gains is not None:
        blocks += [f"gain over {found.gains.start}  {gain_product(found.gains)}", *gain_notes(found.gains)]
    return blocks + ([sharing_table(found.sharing)] if found.sharing else [])


def baseline_table(found: Comparison) -> TextTable:
    """Every baseline: objective, gap, and how many times TPUv4's."""
    settings = found.settings
    unit = OBJECTIVE_UNITS[settings.objective]
    title = unit if len(settings.models) == 1 else f"{settings.aggregate} {unit}"
    expert, searched = (one.objective for one in found.references)
    rows = tuple(
        (
            one.name,
            _value(one.objective) if one.objective > 0 else "none",
            _gap(one),
            *(
                f"{one.objective / base:.3f}x" if base > 0 and one.objective > 0 else "-"
                for base in (expert, searched)
            ),
            f"{one.num_evaluations:,}",
            f"{one.search_s:.1f}",
        )
        for one in found.baselines
    )
    headings = ("baseline", title, "gap", "vs expert", "vs searched", "chips", "s")
    return TextTable(headings=headings, rows=rows, left=frozenset({"baseline"}))


def baseline_notes(found: Comparison) -> list[str]:
    """What is to be said of single baselines."""
    return [f"{one.name}: {one.note}" for one in found.baselines if one.note]


def gain_product(gains: GainSplit) -> str:
    """The gain as a product over its causes."""
    factors = " x ".join(
        f"{step.cause} {step.gain_factor:.3f}"
        f"{'*' if step.exceeds_area_limit else ''}{'' if step.is_proven else '~'}"
        for step in gains.steps
    )
    return f"{gains.total_gain_factor:.3f}{'' if gains.is_proven else '~'} = {factors}"


def gain_notes(gains: GainSplit) -> list[str]:
    """What the marks in the product mean, and what else is to be said of it."""
    notes = []
    if any(step.exceeds_area_limit for step in gains.steps):
        notes.append("* a chip on the way that is over the area limit: counted, not offered")
    if not (gains.is_proven and all(step.is_proven for step in gains.steps)):
        notes.append("~ rests on an objective that is not proven: its gap is in the table or --json")
    return notes + ([gains.note] if gains.note else [])


def sharing_table(sharing: tuple[Sharing, ...]) -> TextTable:
    """What each model gives up on the chip common to all."""
    rows = tuple(
        (
            one.model,
            f"{one.common_samples_per_s:,.1f}",
            f"{one.own_samples_per_s:,.1f}",
            f"{one.lost_fraction:.1%}" + ("" if one.is_proven else " (not proven)"),
            f"{one.own_chip.num_tensor_cores} x {one.own_chip.tensor_width}x{one.own_chip.tensor_depth}, "
            f"{one.own_chip.num_lanes} lanes",
        )
        for one in sharing
    )
    headings = ("model", "common chip samples/s", "own best samples/s", "lost by sharing", "own chip")
    return TextTable(headings=headings, rows=rows, left=frozenset({"model", "own chip"}))


def _gap(one: Baseline) -> str:
    if one.answer is None:
        return "-"
    if one.is_proven:
        return "proven" if one.objective > 0 else "-"
    return gap_text(one.answer.gap) if one.objective > 0 else "not proven"


def _value(objective: float) -> str:
    """Samples a second with one digit; per area, watt or dollar with the digits it has."""
    return f"{objective:,.1f}" if objective >= 10 else f"{objective:.4g}"
