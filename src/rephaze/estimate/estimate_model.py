"""Estimate models as parameter sets: ``default`` and ``paper``.

The mapper, the tables and the bounds take one of these; nothing else tells the models apart. A change of any
number here, or of a formula that reads it, must raise ``version``: caches and stored runs are keyed by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rephaze.types.checks import check_choice


class Tiling(StrEnum):
    """Which tiles a mapping may use."""

    PADDED = "padded"
    """Any size; edge tiles are partly empty."""
    DIVISORS = "divisors"
    """Every tile divides the next; the energy-delay product decides."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimateModel:
    """Everything the estimates need beside chip and operator."""

    name: str
    version: str
    tiling: Tiling
    has_memory_terms: bool
    """Vector operators, gathers and fused ones wait for HBM, not only for lanes."""
    has_network_latency: bool
    """Collectives pay a message time a step; trees and several network levels are considered."""
    register_words: int = 32
    """One register file of the array (divisor tiling)."""
    array_words_per_cycle: float = 64.0
    """Between all scratchpads and arrays (divisor tiling; the padded one reads the chip's rates)."""
    buffer_words_per_cycle: float = 256.0
    dram_words_per_cycle: float = 128.0
    mac_pj: float = 2.2
    """One multiply-accumulate (divisor tiling; the padded one reads the chip's energy)."""


DEFAULT = EstimateModel(
    name="default", version="5", tiling=Tiling.PADDED, has_memory_terms=True, has_network_latency=True
)
PAPER = EstimateModel(
    name="paper", version="2", tiling=Tiling.DIVISORS, has_memory_terms=False, has_network_latency=False
)
ESTIMATE_MODELS = {model.name: model for model in (DEFAULT, PAPER)}


def named_estimate_model(name: str) -> EstimateModel:
    """The parameter set of this name."""
    check_choice("cost_model", name, ESTIMATE_MODELS)
    return ESTIMATE_MODELS[name]
