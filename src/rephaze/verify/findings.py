"""What a check found, as a record: what is wrong in a few words, or what holds."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rephaze.errors import RephazeError
from rephaze.types.verification import Check

Wrong = Iterator[str]

TOLERANCE = 1e-9
"""Relative: sums of the same terms in another order."""
_MAX_SHOWN = 3


def checked(name: str, num_checked: int, wrong: Wrong, fine: str) -> Check:
    """The outcome of a check: passed if nothing is wrong."""
    try:
        found = list(wrong)
    except RephazeError as error:  # a record that is no plan of this problem: a finding, not a failure of ours
        found = [str(error)]
    shown = "; ".join(found[:_MAX_SHOWN])
    more = f"; and {len(found) - _MAX_SHOWN} more" if len(found) > _MAX_SHOWN else ""
    return Check(name=name, passed=not found, num_checked=num_checked, detail=shown + more if found else fine)


def differs(first: float, second: float) -> bool:
    """Whether two numbers of the same quantity disagree by more than rounding."""
    return not math.isclose(first, second, rel_tol=TOLERANCE)
