"""The system as part of a design: clock, memory stacks, links, node, number of chips; budgets for a cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import product

from rephaze.errors import SpecError
from rephaze.types.checks import check_count, check_number
from rephaze.units import GB, GHZ, W_PER_KW

MAX_LINKS = 4096
MAX_CHIPS = 2**24
MAX_BUDGET = 1e24
"""Watts, dollars or square millimetres of a budget; no limit is none, not a larger one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HbmChoice:
    """A kind of HBM stack."""

    generation: str
    num_layers: int
    """Height: DRAM dies in the stack."""

    def __str__(self) -> str:
        return f"{self.generation}, {self.num_layers} high"


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemChoice:
    """One system; None leaves a field as the scenario has it."""

    clock_hz: float | None = None
    hbm: HbmChoice | None = None
    num_inside_links: int | None = None
    """Of a chip, to the others of its node."""
    num_outside_links: int | None = None
    """Of a chip, to the network that joins nodes."""
    node_size: int | None = None
    """Chips that inside links join."""
    num_chips: int | None = None

    def __post_init__(self) -> None:
        if self.clock_hz is not None:
            check_number("clock_hz", self.clock_hz, at_least=1e7, fix="give hertz, for example 1.05e9")
        for field in ("num_inside_links", "num_outside_links"):
            if getattr(self, field) is not None:
                check_count(field, getattr(self, field), at_most=MAX_LINKS)
        for field in ("node_size", "num_chips"):
            if getattr(self, field) is not None:
                check_count(field, getattr(self, field), at_most=MAX_CHIPS)


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemSpace:
    """Values to try for each field; none leaves the field as the scenario has it."""

    clock_hz: tuple[float, ...] = ()
    hbm: tuple[HbmChoice, ...] = ()
    num_inside_links: tuple[int, ...] = ()
    num_outside_links: tuple[int, ...] = ()
    node_size: tuple[int, ...] = ()
    num_chips: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            values = getattr(self, field.name)
            if len(set(values)) != len(values):
                raise SpecError(field.name, [str(value) for value in values], "lists a value twice")

    @property
    def num_choices(self) -> int:
        """Systems in it."""
        return math.prod(max(1, len(getattr(self, field.name))) for field in fields(self))

    def choices(self) -> tuple[SystemChoice, ...]:
        """Every system, the last field fastest."""
        names = [field.name for field in fields(self)]
        axes = [getattr(self, name) or (None,) for name in names]
        return tuple(SystemChoice(**dict(zip(names, values, strict=True))) for values in product(*axes))


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterBudget:
    """What all chips of a cluster together, and what is around them, may take; by default anything."""

    silicon_mm2: float = math.inf
    """Dies of all chips."""
    power_w: float = math.inf
    """Drawn by the building at full use."""
    cost_usd: float = math.inf
    """To make and join everything, once."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not value > 0:
                raise SpecError(field.name, value, "must be above zero")

    @property
    def is_limited(self) -> bool:
        """Whether anything is."""
        return any(math.isfinite(getattr(self, field.name)) for field in fields(self))


@dataclass(frozen=True, kw_only=True, slots=True)
class BilledSystem:
    """A system with every field known, as the chips of a space are billed for it, and what it must keep to."""

    hbm: HbmChoice
    num_inside_links: float
    """Of a chip; not whole where a scenario gives bytes a second."""
    num_outside_links: float
    num_node_chips: int
    num_chips: int
    nominal_hz: float
    """The clock at which the component data holds: that of the scenario's template."""
    budget: ClusterBudget


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedSystem:
    """One of the systems of a search, as runs record it."""

    clock_hz: float
    hbm: str
    """Generation of its stacks."""
    num_hbm_layers: int
    num_inside_links: float
    num_outside_links: float
    num_node_chips: int
    num_chips: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenSystem:
    """The system of an answer, and what its cluster takes."""

    clock_hz: float
    hbm: HbmChoice
    num_inside_links: float
    num_outside_links: float
    inside_bytes_per_s: float
    """What a chip sends to its node."""
    outside_bytes_per_s: float
    """What it sends to other nodes."""
    num_node_chips: int
    num_chips: int
    silicon_mm2: float
    """Dies of all chips."""
    power_w: float
    """The most the building draws."""
    cost_usd: float
    """To make and join everything."""

    @property
    def in_words(self) -> str:
        """In a few words."""
        inside = f"{self.num_inside_links:g} links inside ({self.inside_bytes_per_s / GB:,.0f} GB/s)"
        outside = f"{self.num_outside_links:g} outside ({self.outside_bytes_per_s / GB:,.0f} GB/s)"
        return (
            f"{self.num_chips:,} chips at {self.clock_hz / GHZ:.4g} GHz with {self.hbm}, nodes of "
            f"{self.num_node_chips:,}, {inside} and {outside}"
        )

    @property
    def bill_in_words(self) -> str:
        """What it takes, in a few words."""
        return (
            f"{self.silicon_mm2:,.0f} mm² of silicon, {self.power_w / W_PER_KW:,.1f} kW at most, "
            f"{self.cost_usd:,.0f} dollars"
        )


class SpeedRule(StrEnum):
    """What a box of designs may conclude from the largest value of a field in it (docs/hardware.md)."""

    NEVER_SLOWER = "never slower"
    """A larger value never makes the best plan slower: the times of the largest bound all others."""
    UP_TO_ROUNDING = "up to rounding"
    """So before times are rounded up to ticks, not after: bound by times not rounded, or do not span."""
    WITH_IDLE_CHIPS = "with idle chips"
    """So where a plan may leave chips idle; families of plans that use the whole cluster must not span it."""
    UNORDERED = "unordered"
    """Neither way: a box must not span it."""


SPEED_RULES: dict[str, SpeedRule] = {
    "clock_hz": SpeedRule.UP_TO_ROUNDING,
    "hbm": SpeedRule.NEVER_SLOWER,
    "num_inside_links": SpeedRule.NEVER_SLOWER,
    "num_outside_links": SpeedRule.NEVER_SLOWER,
    "node_size": SpeedRule.UNORDERED,
    "num_chips": SpeedRule.WITH_IDLE_CHIPS,
}
"""By field of ``SystemChoice``. Of ``hbm``: of two stacks the one with no less bandwidth and no fewer bytes."""
