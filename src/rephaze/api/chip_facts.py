"""What follows from a chip: area, peak, power and cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rephaze.types.chip import Chip, chip_table
from rephaze.types.space import AreaModel


@dataclass(frozen=True, kw_only=True, slots=True)
class ChipFacts:
    """What follows from a chip: its area under each area model, peak, power and cost."""

    area_um2: dict[str, float]
    """By area model."""
    peak_flops_per_s: float
    full_power_w: float
    """With every unit busy, by the corrected area."""
    cost_usd: float | None
    """Die and memory; None where no such die fits a wafer."""


def chip_facts(chip: Chip) -> ChipFacts:
    """Area, peak, power and cost of a chip."""
    from rephaze.hardware.area import chip_area
    from rephaze.hardware.cost import chip_cost
    from rephaze.hardware.energy import full_power

    table = chip_table([chip])
    corrected_um2_c = chip_area(table, AreaModel.CORRECTED).total_um2_c
    cost_usd = float(chip_cost(corrected_um2_c, table.hbm_bytes).total_usd_c[0])
    return ChipFacts(
        area_um2={str(model): float(chip_area(table, model).total_um2_c[0]) for model in AreaModel},
        peak_flops_per_s=chip.peak_flops_per_s,
        full_power_w=float(full_power(table, AreaModel.CORRECTED).total_w_c[0]),
        cost_usd=cost_usd if math.isfinite(cost_usd) else None,
    )
