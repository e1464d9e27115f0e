"""Bandwidth shares as whole units, so that sums compare exactly.

A share becomes the least number of units not below it. There are 9,009,000,000 units, a number divisible by
10^6 and by everything up to 16: decimals of up to six places and fractions such as 1/3 or 1/12 are exact, and
three operators of a third each do fit together.
"""

from __future__ import annotations

import numpy as np

from rephaze.schedule.tables import Floats, Ints

SHARE_UNITS = 9_009_000_000
# A float share misses the decimal or fraction it stands for by at most 1.1e-16: a millionth of a unit.
_SNAP_UNITS = 1e-3


def share_units(share: float | Floats) -> Ints:
    """Units of ``SHARE_UNITS`` for shares in [0, 1], rounded up; works on numbers and arrays."""
    return np.ceil(np.asarray(share, dtype=np.float64) * SHARE_UNITS - _SNAP_UNITS).astype(np.int64)
