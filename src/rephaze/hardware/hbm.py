"""Stacks of HBM by generation and height: what one holds and moves, and what it costs the chip."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from rephaze.errors import SpecError
from rephaze.hardware.sourced_data import data_file
from rephaze.types.checks import check_choice
from rephaze.types.system import HbmChoice
from rephaze.units import J_PER_PJ

BITS_PER_BYTE = 8

TODAYS_HBM = HbmChoice(generation="hbm2e", num_layers=8)
"""What area, energy and price of every stack are taken for where nothing is chosen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HbmStack:
    """One stack."""

    stack_bytes: int
    stack_bytes_per_s: float
    interface_um2: float
    """PHY and controller on the chip."""
    j_per_byte: float
    added_idle_w: float
    """Beyond today's stack, whose idle power is in the chip's: of layers above the eighth."""
    usd_per_gib: float


def hbm_choices(generation: str | None = None) -> tuple[HbmChoice, ...]:
    """Every generation and height there is, or those of one generation, in order of both."""
    return tuple(
        HbmChoice(generation=name, num_layers=num_layers)
        for name, entry in _generations().items()
        if generation in (None, name)
        for num_layers in entry["layers"]["value"]
    )


@cache
def hbm_stack(choice: HbmChoice) -> HbmStack:
    """One stack of this generation and height; ``SpecError`` if there is none."""
    generations = _generations()
    check_choice("hbm", choice.generation, generations)
    entry = generations[choice.generation]
    heights = entry["layers"]["value"]
    if choice.num_layers not in heights:
        made = ", ".join(str(height) for height in heights)
        raise SpecError("hbm_layers", choice.num_layers, f"{choice.generation} is made with {made} layers")
    added_layers = max(0, choice.num_layers - TODAYS_HBM.num_layers)
    return HbmStack(
        stack_bytes=choice.num_layers * entry["layer_bytes"]["value"],
        # A stack is as wide as its base, whatever its height.
        stack_bytes_per_s=entry["stack_bytes_per_s"],
        interface_um2=entry["phy_um2"]["value"] + entry["controller_um2"]["value"],
        j_per_byte=entry["pj_per_bit"]["value"] * BITS_PER_BYTE * J_PER_PJ,
        added_idle_w=added_layers * entry["idle_w_per_layer"]["value"],
        usd_per_gib=entry["usd_per_gb"]["value"],
    )


def _generations() -> dict[str, dict[str, Any]]:
    """Those whose height can be chosen, oldest first."""
    return {name: entry for name, entry in data_file("memory.toml").items() if "layers" in entry}
