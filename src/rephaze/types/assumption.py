"""What the numbers of a run rest on, value by value."""

from __future__ import annotations

from dataclasses import dataclass

GRADES = {
    "A": "vendor's text",
    "B": "secondary source or tool run",
    "C": "recalled from the named publication",
    "D": "derived",
    "P": "placeholder: no source found",
    "S": "setting of this run",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Assumption:
    """One value with how good it is and where it comes from."""

    group: str
    """What it is about."""
    name: str
    """With its unit."""
    value: str
    grade: str
    """A key of ``GRADES``; empty where the data has none."""
    source: str
    note: str = ""
