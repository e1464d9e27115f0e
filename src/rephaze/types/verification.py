"""What a verification of a recorded run says."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One claim of a run, derived again."""

    name: str
    passed: bool
    num_checked: int
    """Things looked at: designs, operators, stages."""
    detail: str
    """What was found; if it failed, the first things that are wrong."""
