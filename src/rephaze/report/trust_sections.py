"""What the numbers rest on: every assumption with source and grade, and how far prices were from measurements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rephaze.report.page import details, paragraph, table
from rephaze.types.assumption import GRADES, Assumption
from rephaze.types.plan_account import ExpectedErrors


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


def expected_body(expected: ExpectedErrors) -> str:
    """A line for each kind of run that was measured."""
    rows = [
        [
            one.what,
            f"{one.num_cases:,}",
            f"{one.median_error_fraction:.1%}",
            f"{one.worst_error_fraction:.1%}",
            one.source,
            one.note,
        ]
        for one in expected.lines
    ]
    header = ["what was predicted", "cases", "median error", "worst error", "source", "note"]
    said = (
        "How far this cost model was from runs that others measured; expect no less of the numbers on this page."
    )
    return paragraph(said) + table(header, rows, texts=(4, 5))
