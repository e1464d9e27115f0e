"""What the numbers rest on: every assumption with source and grade, and how far prices were from measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from rephaze.report.page import details, paragraph, table
from rephaze.types.assumption import GRADES, Assumption
from rephaze.types.truth import ExpectedError


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


def expected_body(expected: Mapping[str, ExpectedError | None]) -> str:
    """A row for each model: how long runs near its plan took, over what data-sheet rates give."""
    rows = [
        [model, "none is near", "", "", "", ""]
        if near is None
        else [
            model,
            f"{near.num_rows:,}, chips of family {near.family}",
            f"{near.measured_over_ideal_ratio:.2f}",
            f"{near.measured_over_ideal_low_ratio:.2f} to {near.measured_over_ideal_high_ratio:.2f}",
            f"{near.calibrated_error_share:.0%}",
            ", ".join(near.sources),
        ]
        for model, near in expected.items()
    ]
    header = ["model", "measured runs near", "measured over price", "most of them", "calibrated error", "sources"]
    said = (
        "Times on this page are at data-sheet rates, the same for all chips. Runs that others measured with plans "
        "like these took longer by so much; the error is that of the physics calibrated on such runs."
    )
    return paragraph(said) + table(header, rows, texts=(1, 5))
