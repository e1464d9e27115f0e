"""Factors to and from the units kept in memory: seconds, joules, bytes, square micrometres, hertz.

Convert once, where a number enters or leaves: ``clock_hz=1.05 * GHZ``, ``hbm_bytes / GIB``.
"""

import math

KIB = 2**10
MIB = 2**20
GIB = 2**30
GB = 10**9

MHZ = 1e6
GHZ = 1e9

UM2_PER_MM2 = 1e6
MM2_PER_M2 = 1e6

S_PER_MS = 1e-3
S_PER_US = 1e-6

J_PER_PJ = 1e-12

FLOPS_PER_TFLOPS = 1e12

W_PER_KW = 1e3
W_PER_MW = 1e6
USD_PER_MUSD = 1e6


def gap_text(gap: float, digits: int = 2) -> str:
    """A gap in percent; in words where nothing bounds the answer yet.

    >>> gap_text(0.0125), gap_text(math.inf)
    ('1.25%', 'unknown')
    """
    return f"{gap:.{digits}%}" if math.isfinite(gap) else "unknown"
