"""Area and access energy of SRAM of any size, from CACTI's table.

Between the table's sizes both follow a power law (straight lines in log-log); beyond its ends they go on
with the slope of the nearest segment.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.sourced_data import data_file

Floats = NDArray[np.float64]


@cache
def _columns() -> tuple[Floats, Floats, Floats]:
    table = np.array(data_file("components.toml")["sram"]["table"], dtype=np.float64)
    return table[:, 0], table[:, 1], table[:, 2]


def sram_um2(num_bytes: NDArray[np.int64] | Floats) -> Floats:
    """Area at 22 nm; at the table's sizes, exactly CACTI's value."""
    sizes, areas, _ = _columns()
    return _power_law(num_bytes, sizes, areas)


def sram_read_pj(num_bytes: NDArray[np.int64] | Floats) -> Floats:
    """Energy of a 64-bit read at 22 nm."""
    sizes, _, reads = _columns()
    return _power_law(num_bytes, sizes, reads)


@cache
def _banked_density() -> tuple[Floats, Floats]:
    """Area per byte, made to fall with size: CACTI's organisation jumps at two sizes, silicon need not."""
    sizes, areas, _ = _columns()
    density = np.maximum.accumulate((areas / sizes)[::-1])[::-1]
    return sizes, density


def banked_um2(num_bytes: NDArray[np.int64] | Floats, num_banks: NDArray[np.int64] | Floats) -> Floats:
    """Area at 22 nm of a memory split into equal banks; more banks never take less area."""
    sizes, density = _banked_density()
    return num_bytes * _power_law(np.asarray(num_bytes, dtype=np.float64) / num_banks, sizes, density)


def _power_law(at: NDArray[np.int64] | Floats, sizes: Floats, values: Floats) -> Floats:
    at = np.asarray(at, dtype=np.float64)
    segment = np.clip(np.searchsorted(sizes, at, side="right") - 1, 0, len(sizes) - 2)
    low, high = sizes[segment], sizes[segment + 1]
    fraction = np.log2(at / low) / np.log2(high / low)
    interpolated = values[segment] * (values[segment + 1] / values[segment]) ** fraction
    # The table's own values come back unrounded: the paper's design space is decided by exact equality.
    position = np.minimum(np.searchsorted(sizes, at), len(sizes) - 1)
    return np.where(sizes[position] == at, values[position], interpolated)
