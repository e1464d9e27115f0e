"""What a check found, as a record: what is wrong in a few words, or what holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from rephaze.errors import RephazeError
from rephaze.types.verification import Check

Wrong = Iterator[str]

TOLERANCE = 1e-9
"""Relative: sums of the same terms in another order."""
_MAX_SHOWN = 3
UNDERIVABLE = (ValueError, TypeError, LookupError, AssertionError, ArithmeticError, AttributeError, MemoryError)
"""What deriving from numbers that make no sense may end in: the record is at fault, and the check fails."""


def checked(name: str, num_checked: int, wrong: Iterable[str], fine: str) -> Check:
    """The outcome of a check: passed if nothing is wrong."""
    found: list[str] = []
    try:
        found.extend(wrong)
    except RephazeError as error:  # a record that is no plan of this problem: a finding, not a failure of ours
        found.append(str(error))
    except UNDERIVABLE as error:  # a record that makes no sense at all
        found.append(underivable(error))
    shown = "; ".join(found[:_MAX_SHOWN])
    more = f"; and {len(found) - _MAX_SHOWN} more" if len(found) > _MAX_SHOWN else ""
    return Check(name=name, passed=not found, num_checked=num_checked, detail=shown + more if found else fine)


def underivable(error: BaseException) -> str:
    """What is said of a record that derivations end at."""
    return f"cannot be derived from what is recorded ({type(error).__name__}: {' '.join(str(error).split()):.80})"


def differs(first: float, second: float) -> bool:
    """Whether two numbers of the same quantity disagree by more than rounding."""
    return not math.isclose(first, second, rel_tol=TOLERANCE)
