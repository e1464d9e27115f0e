"""The design space: which chips may be built, and the template that turns a few numbers into a chip."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

from rephaze.errors import SpecError
from rephaze.types.added_later import ADDED_LATER
from rephaze.types.checks import check_count, check_number
from rephaze.types.system import BilledSystem


class AreaModel(StrEnum):
    """How silicon area is computed."""

    PAPER = "paper"
    """The closed form of the ICML 2024 paper's tool chain, exact."""
    CORRECTED = "corrected"
    """7 nm throughout: floating-point MACs, real lanes, banked buffers, HBM and network interfaces."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """What a chip has beyond the numbers a space varies: clock, memory stacks, bandwidth rules."""

    clock_hz: float
    scratchpad_bytes_per_pe: int
    """A core's scratchpad holds this for each of its multipliers or lanes ..."""
    min_scratchpad_bytes: int
    """... but never less than this."""
    scratchpad_bytes_per_cycle: float | None
    """Scratchpad to array, per tensor core; ``None``: what its array needs to run every cycle."""
    buffer_bytes_per_cycle: float | None
    """Global buffer to all cores, whatever its size; ``None``: by the next field."""
    buffer_bytes_per_cycle_per_mib: float
    """Global buffer to all cores, for each MiB of it (it is banked); used if the field above is ``None``."""
    buffer_multicast: int
    """How many cores one read of the global buffer serves."""
    hbm_stack_bytes: int
    hbm_stack_bytes_per_s: float


class Comparison(StrEnum):
    """How the two sides of a constraint are compared."""

    AT_MOST = "<="
    BELOW = "<"
    AT_LEAST = ">="
    ABOVE = ">"
    EQUAL = "=="


@dataclass(frozen=True, kw_only=True, slots=True)
class Constraint:
    """A rule on chips beyond area and power: ``product of left fields * factor  <=  product of right``."""

    text: str
    left_fields: tuple[str, ...]
    left_factor: float
    right_fields: tuple[str, ...]
    right_factor: float
    comparison: Comparison


MOST_OF = {
    "num_tensor_cores": 2**20,
    "tensor_width": 2**16,
    "tensor_depth": 2**16,
    "num_vector_cores": 2**20,
    "vector_lanes": 2**20,
    "num_hbm_stacks": 1024,
}
"""Largest value of a field, as of a chip."""
MOST_BYTES = 2**40
MOST_POINTS = 2**53
"""Of a grid: so that a count is exact as a floating-point number too."""

FIELDS = (
    "num_tensor_cores",
    "tensor_width",
    "tensor_depth",
    "num_vector_cores",
    "vector_lanes",
    "global_buffer_bytes",
    "num_hbm_stacks",
)
"""What a space varies, in the order of its grid."""
_LISTED_FIELDS = (*FIELDS, "hbm_bytes_options")


@dataclass(frozen=True, kw_only=True, slots=True)
class DesignSpace:
    """All combinations of the listed values that keep to the limits."""

    num_tensor_cores: tuple[int, ...]
    tensor_width: tuple[int, ...]
    tensor_depth: tuple[int, ...]
    num_vector_cores: tuple[int, ...]
    vector_lanes: tuple[int, ...] | None
    """``None``: a vector core is as wide as an array (the paper's template)."""
    global_buffer_bytes: tuple[int, ...]
    num_hbm_stacks: tuple[int, ...]
    hbm_bytes_options: tuple[int, ...]
    """Memory sizes that change neither area nor speed, tried per plan; empty: the stacks' capacity."""
    template: Template
    area_model: AreaModel
    area_limit_um2: float
    area_floor_um2: float
    """Chips below it are left out, unless they have a single tensor or vector core."""
    power_limit_w: float = math.inf
    constraints: tuple[Constraint, ...] = ()
    system: BilledSystem | None = field(default=None, metadata=ADDED_LATER)
    """Where the system is part of the search: what area, energy and price of its chips follow, and its budget."""

    def __post_init__(self) -> None:
        for name in _LISTED_FIELDS:
            values = getattr(self, name)
            if values is None or (name == "hbm_bytes_options" and not values):
                continue
            if not values:
                raise SpecError(name, values, "must list at least one value")
            for value in values:
                check_count(name, value, at_most=MOST_OF.get(name, MOST_BYTES))
            if len(set(values)) != len(values):
                raise SpecError(name, list(values), "lists a value twice")
        check_number("area_limit_um2", self.area_limit_um2, at_least=1.0, fix="give um^2: 1 mm^2 is 1e6")
        num_points = math.prod(len(getattr(self, name)) for name in FIELDS if getattr(self, name) is not None)
        if num_points >= MOST_POINTS:
            rule = f"has {num_points:.3g} grid points; {MOST_POINTS:.3g} are the most that can be counted"
            raise SpecError("space", num_points, rule, "take larger steps or fewer values")
        check_number("area_floor_um2", self.area_floor_um2, at_most=self.area_limit_um2)
