"""The ``[system]`` and ``[budget]`` sections of a run file: values for each field of a system, and limits."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from rephaze.errors import SpecError
from rephaze.hardware.clock import check_clock
from rephaze.hardware.hbm import hbm_choices, hbm_stack
from rephaze.hardware.ranges import Range, Strict, Values, list_or_range, range_or_list
from rephaze.types.checks import check_choice, check_count, under
from rephaze.types.files import validate
from rephaze.types.system import (
    MAX_BUDGET,
    MAX_CHIPS,
    MAX_LINKS,
    ClusterBudget,
    HbmChoice,
    SystemChoice,
    SystemSpace,
)

MAX_CLOCKS = 1000


class ClockRange(Strict):
    """``{ from = 0.9e9, to = 1.5e9, step = 0.1e9 }``: both ends, and steps between them."""

    start: float = Field(alias="from")
    to: float
    step: float | None = None

    @model_validator(mode="after")
    def _grows(self) -> ClockRange:
        given = {"from": self.start, "to": self.to} | ({} if self.step is None else {"step": self.step})
        if self.step is None:
            raise SpecError("", given, "needs a step: how it grows", "add step = 0.1e9")
        if not all(math.isfinite(value) for value in given.values()) or self.step <= 0 or self.to < self.start:
            raise SpecError("", given, "must grow in steps above zero", "set step = 0.1e9")
        if (self.to - self.start) / self.step >= MAX_CLOCKS:
            raise SpecError("", given, f"has over {MAX_CLOCKS} values", "give a larger step")
        return self

    def values(self) -> tuple[float, ...]:
        """Every clock of the range, ascending, none beyond ``to``."""
        assert self.step is not None
        # Counted, not added up, so that a range that should meet its end does.
        num_steps = math.floor((self.to - self.start) / self.step * (1 + 1e-12))
        return tuple(min(self.start + self.step * at, self.to) for at in range(num_steps + 1))


Clocks = Annotated[
    Annotated[ClockRange, Tag("range")] | Annotated[list[float], Tag("list")],
    Discriminator(range_or_list),
    BeforeValidator(list_or_range),
]


class SystemFile(Strict):
    """The ``[system]`` section; a field left out stays as the scenario has it."""

    clock_hz: Clocks | None = None
    hbm: list[str] | None = None
    hbm_layers: list[int] | None = None
    num_inside_links: Values | None = None
    num_outside_links: Values | None = None
    node_size: Values | None = None
    num_chips: Values | None = None


class BudgetFile(Strict):
    """The ``[budget]`` section: limits for the whole cluster."""

    silicon_mm2: float = Field(default=math.inf, gt=0.0, le=MAX_BUDGET)
    power_w: float = Field(default=math.inf, gt=0.0, le=MAX_BUDGET)
    usd: float = Field(default=math.inf, gt=0.0, le=MAX_BUDGET)


class SystemSections(Strict):
    """Both sections by themselves."""

    system: SystemFile = Field(default_factory=SystemFile)
    budget: BudgetFile = Field(default_factory=BudgetFile)


def read_system(data: dict[str, Any], source: str = "") -> tuple[SystemSpace, ClusterBudget]:
    """What the sections of a file say; every finding names its section and field, after ``source``."""
    found = validate(SystemSections, data, source)
    with under(f"{source}: system." if source else "system."):
        return system_space(found.system), cluster_budget(found.budget)


def system_space(found: SystemFile) -> SystemSpace:
    """The systems that a ``[system]`` section lists."""
    return SystemSpace(
        clock_hz=_clocks(found),
        hbm=_stacks(found),
        num_inside_links=_counts("num_inside_links", found.num_inside_links, MAX_LINKS),
        num_outside_links=_counts("num_outside_links", found.num_outside_links, MAX_LINKS),
        node_size=_counts("node_size", found.node_size, MAX_CHIPS),
        num_chips=_counts("num_chips", found.num_chips, MAX_CHIPS),
    )


def only_system(space: SystemSpace, source: str = "") -> SystemChoice:
    """The system of a space that has one; else ``SpecError`` names a field with more values, after ``source``."""
    for field in fields(space):
        values = getattr(space, field.name)
        if len(values) > 1:
            name = f"{source}: system.{field.name}" if source else f"system.{field.name}"
            rule = f"has {len(values)} values, and this is of one system; rephaze search chooses among several"
            fix = "give hbm and hbm_layers one value each" if field.name == "hbm" else "give one value"
            raise SpecError(name, [str(one) if isinstance(one, HbmChoice) else one for one in values], rule, fix)
    [choice] = space.choices()
    return choice


def cluster_budget(found: BudgetFile) -> ClusterBudget:
    """The limits of a ``[budget]`` section."""
    return ClusterBudget(silicon_mm2=found.silicon_mm2, power_w=found.power_w, cost_usd=found.usd)


def _clocks(found: SystemFile) -> tuple[float, ...]:
    if found.clock_hz is None:
        return ()
    values = found.clock_hz.values() if isinstance(found.clock_hz, ClockRange) else tuple(found.clock_hz)
    _check_some("clock_hz", values)
    for value in values:
        check_clock("clock_hz", value)
    return values


def _stacks(found: SystemFile) -> tuple[HbmChoice, ...]:
    """Each generation in each height listed that it is made in; without a list of heights, in all."""
    if found.hbm is None:
        if found.hbm_layers is not None:
            raise SpecError("hbm_layers", found.hbm_layers, "needs hbm", 'name the generations: hbm = ["hbm3e"]')
        return ()
    _check_some("hbm", found.hbm)
    known = dict.fromkeys(choice.generation for choice in hbm_choices())
    chosen: list[HbmChoice] = []
    for generation in found.hbm:
        check_choice("hbm", generation, known)
        made = hbm_choices(generation)
        wanted = [one for one in made if found.hbm_layers is None or one.num_layers in found.hbm_layers]
        if not wanted:
            heights = ", ".join(str(one.num_layers) for one in made)
            raise SpecError("hbm_layers", found.hbm_layers, f"{generation} is made with {heights} layers")
        chosen += wanted
    for height in found.hbm_layers or ():
        if all(one.num_layers != height for one in chosen):
            raise SpecError("hbm_layers", height, f"none of {', '.join(found.hbm)} is made with so many layers")
    # Slowest and smallest first, as the other fields ascend.
    return tuple(sorted(chosen, key=lambda one: (hbm_stack(one).stack_bytes_per_s, one.num_layers)))


def _counts(field: str, given: Values | None, at_most: int) -> tuple[int, ...]:
    if given is None:
        return ()
    values = given.values() if isinstance(given, Range) else tuple(given)
    _check_some(field, values)
    for value in values:
        check_count(field, value, at_most=at_most)
    return values


def _check_some(field: str, values: tuple[object, ...] | list[str]) -> None:
    if not values:
        raise SpecError(field, [], "must list at least one value", f"leave {field} out to keep the scenario's")
