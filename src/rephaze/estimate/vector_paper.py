"""Vector-core cycles by the paper's formulas: lane throughput alone, no memory term.

``lanes`` is the number of lanes of all cores an operator runs on; every function takes and returns arrays over
lane counts (or scalars).
"""

from __future__ import annotations

import numpy as np

from rephaze.estimate.arrays import Floats, Ints
from rephaze.estimate.vector_weights import paper_lane_cycles

SOFTMAX_START_CYCLES = 10
_ROW_FUNCTIONS = {"softmax": 10, "log_softmax": 13}


def elementwise_cycles(num_elements: int, lanes: Ints, cycles_per_element: float) -> Floats:
    """Every lane one element at a time."""
    return np.ceil(num_elements / lanes) * cycles_per_element


def softmax_cycles(num_elements: int, row_length: int, lanes: Ints, cycles_per_element: float) -> Floats:
    """A pass along the rows, a start-up, and the exponentials; forward only."""
    num_rows = -(-num_elements // max(row_length, 1))
    rows = num_rows * np.ceil(row_length / lanes)
    return rows + SOFTMAX_START_CYCLES + np.ceil(num_elements / lanes) * cycles_per_element


def mean_cycles(num_rows: int, row_length: int, lanes: Ints) -> Floats:
    """A mean over rows: each row is added up along the lanes, then divided.

    The paper's program divides the number of rows by the row length once more; that slip is not repeated.
    """
    return num_rows * (np.ceil(row_length / lanes) + paper_lane_cycles("mean"))


def work_cycles(function: str, num_elements: int, row_length: int, lanes: Ints) -> Floats:
    """One recorded vector function; backward functions are named ``..._backward``."""
    if function in _ROW_FUNCTIONS:
        return softmax_cycles(num_elements, row_length, lanes, _ROW_FUNCTIONS[function])
    if function == "mean":
        return mean_cycles(-(-num_elements // max(row_length, 1)), row_length, lanes)
    return elementwise_cycles(num_elements, lanes, paper_lane_cycles(function))
