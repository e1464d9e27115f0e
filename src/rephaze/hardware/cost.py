"""Die yield and cost, HBM cost, cost of a chip and of a cluster. No salvage, test or packaging.

Axis letters: c = chip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.errors import SpecError
from rephaze.hardware.sourced_data import data_file
from rephaze.units import GIB, UM2_PER_MM2

Floats = NDArray[np.float64]

MM2_PER_CM2 = 100.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ChipCost:
    """Cost of each chip and what it is made of; ``inf`` where no whole die fits a wafer."""

    dies_per_wafer_c: Floats
    yield_fraction_c: Floats
    die_usd_c: Floats
    hbm_usd_c: Floats
    total_usd_c: Floats


def chip_cost(area_um2_c: Floats, hbm_bytes_c: NDArray[np.int64], node_nm: float = 7) -> ChipCost:
    """Cost of chips of this area and memory, made at ``node_nm``.

    Args:
        area_um2_c: Die areas.
        hbm_bytes_c: Memory of each chip.
        node_nm: One of the nodes with published wafer cost and defect density.
    """
    defects_per_cm2, wafer_usd = _process(node_nm)
    wafer = data_file("cost.toml")["wafer"]
    area_mm2 = np.asarray(area_um2_c, dtype=np.float64) / UM2_PER_MM2
    # A die takes its scribe lane with it: a square of side sqrt(area) + scribe.
    pitch_mm2 = (np.sqrt(area_mm2) + wafer["scribe_mm"]) ** 2
    radius_mm = wafer["diameter_mm"] / 2 - wafer["edge_mm"]
    dies = math.pi * radius_mm**2 / pitch_mm2 - math.pi * 2 * radius_mm / np.sqrt(2 * pitch_mm2)
    dies = np.maximum(0.0, dies)  # an estimate, left fractional so that cost is smooth in area
    alpha = wafer["cluster_alpha"]
    good = (1 + defects_per_cm2 * area_mm2 / MM2_PER_CM2 / alpha) ** -alpha
    with np.errstate(divide="ignore"):
        die_usd = np.where(dies > 0, wafer_usd / (dies * good), np.inf)
    hbm_usd = np.asarray(hbm_bytes_c) / GIB * data_file("cost.toml")["hbm"]["usd_per_gb"]
    return ChipCost(
        dies_per_wafer_c=dies,
        yield_fraction_c=good,
        die_usd_c=die_usd,
        hbm_usd_c=hbm_usd,
        total_usd_c=die_usd + hbm_usd,
    )


def _process(node_nm: float) -> tuple[float, float]:
    table = {row[0]: (row[1], row[2]) for row in data_file("cost.toml")["process"]["table"]}
    if node_nm not in table:
        nodes = ", ".join(str(node) for node in table)
        raise SpecError("node_nm", node_nm, f"must be one of {nodes}")
    return table[node_nm]
