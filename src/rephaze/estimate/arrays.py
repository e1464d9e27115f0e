"""Types of the arrays in signatures of this room; the letters at the end of a name are an array's axes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = NDArray[np.void]
"""Rows with named fields."""
