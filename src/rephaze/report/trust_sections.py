"""What the numbers rest on: every assumption with source and grade, and how far prices were from measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from rephaze.report.page import details, paragraph, table
from rephaze.types.assumption import GRADES, Assumption
from rephaze.types.truth import ExpectedError, Stability


def assumptions_body(assumptions: Sequence[Assumption]) -> str:
    """A folded table for each group; placeholders are counted first."""
    weak = [one for one in assumptions if one.grade == "P"]
    legend = "; ".join(f"{grade} {words}" for grade, words in GRADES.items())
    said = f"{len(assumptions)} values. Grades: {legend}."
    if weak:
        named = ", ".join(f"{one.name} ({one.group})" for one in weak)
        said += f" {len(weak)} of them have no source: {named}."
    body = paragraph(said)
    for group, listed in groupby(sorted(assumptions, key=lambda one: one.group), key=lambda one: one.group):
        rows = [
            [one.name, one.value, one.grade or "-", one.source + (f" ({one.note})" if one.note else "")]
            for one in listed
        ]
        title = f"{group[:1].upper()}{group[1:]} ({len(rows)})"
        body += details(title, table(["value", "is", "grade", "source"], rows, texts=(1, 2, 3)))
    return body


NONE_NEAR = "No run that others measured is near these plans: measurements do not tell what error to expect."


def expected_body(
    expected: Mapping[str, ExpectedError | None], stability: Stability | None = None, losses: str = ""
) -> str:
    """A row for each model: how long runs near its plan took, over what the rates of the page give.

    Args:
        expected: By model.
        stability: Of the choice of the chip.
        losses: What calibrated rates are; empty: the page is at data-sheet rates.
    """
    rows = [
        [model, "none is near", "", "", "", ""]
        if near is None
        else [
            model,
            f"{near.num_rows:,}, chips of family {near.family}",
            *_ratios(near),
            f"{near.calibrated_error_share:.0%}",
            ", ".join(near.sources),
        ]
        for model, near in expected.items()
    ]
    header = ["model", "measured runs near", "measured over price", "most of them", "calibrated error", "sources"]
    rates = f"Times on this page: {losses}." if losses else "Times on this page are at data-sheet rates."
    said = (
        f"{rates} Runs that others measured with plans like these took so many times as long; the error is that "
        "of the physics calibrated on such runs."
    )
    if any(expected.values()):
        body = paragraph(said) + table(header, rows, texts=(1, 5))
    else:
        body = paragraph(f"{rates} {NONE_NEAR}")
    if stability is not None:
        body += paragraph(f"{stability.sentence().capitalize()} (chips that the search solved exactly).")
    return body


def _ratios(near: ExpectedError) -> list[str]:
    """Measured over the price: the middle, and most of them."""
    if near.is_calibrated:
        low, high = near.measured_over_calibrated_low_ratio, near.measured_over_calibrated_high_ratio
        return [f"{near.measured_over_calibrated_ratio:.2f}", f"{low:.2f} to {high:.2f}"]
    low, high = near.measured_over_ideal_low_ratio, near.measured_over_ideal_high_ratio
    return [f"{near.measured_over_ideal_ratio:.2f}", f"{low:.2f} to {high:.2f}"]
