"""Extra rules on a design space, written as text: ``num_vector_cores * vector_lanes >= 256``.

A rule compares two products of chip fields and numbers. It is parsed, never evaluated as code.
"""

from __future__ import annotations

import re
from dataclasses import fields

from rephaze.errors import SpecError
from rephaze.types.checks import did_you_mean
from rephaze.types.chip import ChipTable
from rephaze.types.space import Comparison, Constraint

KNOWN_FIELDS = (*(field.name for field in fields(ChipTable)), "num_macs", "num_lanes")

# The longer signs first, or "<=" would be read as "<".
_COMPARISON = re.compile("|".join(sorted(Comparison, key=len, reverse=True)))


def parse_constraint(text: str) -> Constraint:
    """The rule a text states; ``SpecError`` if it is not of the form ``product <= product``."""
    parts = _COMPARISON.split(text)
    found = _COMPARISON.findall(text)
    if len(parts) != 2:
        rule = f"must compare two products of chip fields and numbers with one of {', '.join(Comparison)}"
        raise SpecError("constraints", text, rule, "for example 'num_macs <= 131072'")
    left_fields, left_factor = _parse_product(parts[0], text)
    right_fields, right_factor = _parse_product(parts[1], text)
    return Constraint(
        text=text,
        left_fields=left_fields,
        left_factor=left_factor,
        right_fields=right_fields,
        right_factor=right_factor,
        comparison=Comparison(found[0]),
    )


def _parse_product(side: str, text: str) -> tuple[tuple[str, ...], float]:
    names: list[str] = []
    factor = 1.0
    for raw in side.split("*"):
        term = raw.strip()
        if term in KNOWN_FIELDS:
            names.append(term)
            continue
        try:
            factor *= float(term)
        except ValueError:
            rule = f"{term!r} is neither a number nor a chip field"
            raise SpecError("constraints", text, rule, did_you_mean(term, KNOWN_FIELDS)) from None
    return tuple(names), factor
