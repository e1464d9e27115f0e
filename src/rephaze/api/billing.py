"""What a cluster of a chip takes, itemised, and how many chips a budget allows, through the door."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rephaze.api.chips import as_chip
from rephaze.api.present import Block, Shown
from rephaze.api.spaces import as_scenario
from rephaze.types.checks import check_number
from rephaze.types.chip import Chip, chip_table
from rephaze.types.files import read_mapping
from rephaze.types.scenario import Scenario
from rephaze.types.system import ClusterBudget, HbmChoice, SystemChoice

if TYPE_CHECKING:
    from rephaze.hardware.bill_grades import ItemGrade
    from rephaze.hardware.cluster_bill import BudgetUse, ClusterBill
    from rephaze.hardware.system_chips import System

_UNITS = {"silicon": "mm2", "power": "W", "usd": "USD"}
"""By what is billed and budgeted."""
_ITEMS = {
    "silicon": {"dies": "silicon_mm2"},
    "power": {item: f"{item}_w" for item in ("chips", "links", "network", "hosts", "losses", "building")},
    "usd": {item: f"{item}_usd" for item in ("dies", "hbm", "packages", "links", "network", "hosts")},
}
"""By what is billed, the items and their fields of ``ClusterBill`` without the axis."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BillItem:
    """One item of a bill, all chips together."""

    resource: str
    """``silicon``, ``power`` or ``usd``."""
    item: str
    unit: str
    amount: float
    """In the unit; infinite where no whole die fits a wafer."""
    grade: str
    """Of the weakest of its own values in the data; empty where they have none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetLine:
    """One limit beside what the cluster takes of it."""

    resource: str
    unit: str
    limit: float
    """In the unit."""
    used_fraction: float
    """Above 1 where the cluster is over it."""
    most_chips: int
    """How many this limit alone allows."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class BilledCluster(Shown):
    """The bill of a cluster; ``chip`` and ``scenario`` are what ``place_model`` takes to plan a training on it."""

    chip: Chip
    """With the clock and the memory of the system."""
    scenario: Scenario
    """With the cluster of the system."""
    system: System
    hbm: HbmChoice
    """What its memory is billed as."""
    is_power_given: bool
    """Whether the caller said what a chip draws; else it is the most it can."""
    items: tuple[BillItem, ...]
    placeholders: tuple[str, ...]
    """Values of the data in it that no source gives."""
    budgets: tuple[BudgetLine, ...]

    @property
    def num_chips(self) -> int:
        """Chips that are billed."""
        return self.system.num_chips

    @property
    def chip_w(self) -> float:
        """What one chip is billed for, without what is around it."""
        [chips] = (one for one in self.items if (one.resource, one.item) == ("power", "chips"))
        return chips.amount / self.num_chips

    @property
    def most_chips(self) -> int | None:
        """How many all limits allow; None without any."""
        return min((one.most_chips for one in self.budgets), default=None)

    @property
    def binding(self) -> tuple[str, ...]:
        """The limits that one chip more would break."""
        return tuple(one.resource for one in self.budgets if one.most_chips == self.most_chips)

    def total(self, resource: str) -> float:
        """What all chips take of ``silicon`` in mm², ``power`` in W or ``usd``."""
        return sum(one.amount for one in self.items if one.resource == resource)

    def record(self) -> dict[str, Any]:
        """As plain data; null where no whole die fits a wafer."""
        system = asdict(self.system) | {"clock_hz": self.chip.clock_hz, "hbm": str(self.hbm)}
        return {
            "chip": self.chip.name,
            "scenario": self.scenario.name,
            "num_chips": self.num_chips,
            "system": system,
            "chip_w": self.chip_w,
            "silicon_mm2": self.total("silicon"),
            "power_w": self.total("power"),
            "cost_usd": _finite(self.total("usd")),
            "items": [asdict(one) | {"amount": _finite(one.amount)} for one in self.items],
            "placeholders": list(self.placeholders),
            "budgets": [asdict(one) | {"used_fraction": _finite(one.used_fraction)} for one in self.budgets],
            "most_chips": self.most_chips,
            "binding": list(self.binding),
        }

    def blocks(self) -> Sequence[Block]:
        """Headline, system, items, grades, budgets."""
        from rephaze.api.bill_views import bill_blocks

        return bill_blocks(self)


def bill_cluster(
    chip: str | Path | Chip,
    *,
    scenario: str | Path | Scenario = "default",
    num_chips: int | None = None,
    system: str | Path | SystemChoice | None = None,
    silicon_mm2: float | None = None,
    power_w: float | None = None,
    cost_usd: float | None = None,
    chip_w: float | None = None,
) -> BilledCluster:
    """What a cluster of a chip takes in silicon, power and dollars, and how many chips keep to a budget.

    Example:
        >>> import rephaze
        >>> bill = rephaze.bill_cluster("tpuv4", power_w=2e6)
        >>> bill.num_chips == bill.most_chips, bill.binding
        (True, ('power',))
        >>> round(bill.total("usd") / 1e6), round(rephaze.bill_cluster("tpuv4").total("power") / 1e6, 2)
        (23, 1.07)

    Args:
        chip: A name of ``list_chips``, a chip file, or a chip.
        scenario: Its cluster is the system where nothing else is chosen; of area model ``corrected``.
        num_chips: How many to bill; if neither this nor ``system`` says, as many as the budget allows, and
            without a budget the scenario's.
        system: A choice, or a file with a ``[system]`` section of one value a field, and ``[budget]``.
        silicon_mm2: Limit for the dies of all chips; given, it replaces the file's, as the next two do.
        power_w: Limit for what the building draws.
        cost_usd: Limit for making and joining everything.
        chip_w: What a chip is held to, instead of the most it can draw.
    """
    import numpy as np

    from rephaze.hardware.bill_grades import item_grades
    from rephaze.hardware.cluster_bill import budget_use, cluster_bill, most_chips
    from rephaze.hardware.hbm import TODAYS_HBM
    from rephaze.hardware.system import resolved_system, system_chip, with_system
    from rephaze.hardware.system_chips import same_system

    if chip_w is not None:
        check_number("chip_w", chip_w, at_least=1.0, fix="give watts, for example 192")
    own, given = as_chip(chip), as_scenario(scenario)
    choice, budget = _chosen(system, num_chips)
    limits = {"silicon_mm2": silicon_mm2, "power_w": power_w, "cost_usd": cost_usd}
    budget = replace(budget, **{field: limit for field, limit in limits.items() if limit is not None})

    billed = system_chip(own, choice)
    table = chip_table([billed])
    columns = same_system(resolved_system(given, choice), 1)
    # A chip's energies are the data's at its own clock.
    nominal_hz = own.clock_hz
    chip_w_c = None if chip_w is None else np.array([float(chip_w)])
    most = {
        resource: int(most_chips(table, columns, nominal_hz, alone, chip_w_c)[0])
        for resource, alone in _single_limits(budget).items()
    }
    if choice.num_chips is None and most:
        choice = replace(choice, num_chips=max(1, min(most.values())))
    resolved = resolved_system(given, choice)
    bill = cluster_bill(table, same_system(resolved, 1), nominal_hz, chip_w_c)
    hbm = TODAYS_HBM if choice.hbm is None else choice.hbm
    is_clock_changed = billed.clock_hz != nominal_hz
    grades = item_grades(hbm, resolved, is_clock_changed=is_clock_changed, is_power_given=chip_w is not None)
    return BilledCluster(
        chip=billed,
        scenario=with_system(given, choice),
        system=resolved,
        hbm=hbm,
        is_power_given=chip_w is not None,
        items=_items(bill, grades),
        placeholders=tuple(dict.fromkeys(name for one in grades.values() for name in one.placeholders)),
        budgets=_budget_lines(budget, budget_use(bill, budget), most),
    )


def _chosen(system: str | Path | SystemChoice | None, num_chips: int | None) -> tuple[SystemChoice, ClusterBudget]:
    """One system and the limits of the file, if it is one; a number of chips replaces the system's."""
    from rephaze.hardware.system_file import only_system, read_system

    if system is None or isinstance(system, SystemChoice):
        choice, budget = system or SystemChoice(), ClusterBudget()
    else:
        source = Path(system).name
        space, budget = read_system(read_mapping(Path(system)), source)
        # A list of numbers of chips is no hindrance where another replaces it.
        choice = only_system(space if num_chips is None else replace(space, num_chips=()), source)
    return choice if num_chips is None else replace(choice, num_chips=num_chips), budget


def _single_limits(budget: ClusterBudget) -> dict[str, ClusterBudget]:
    """Each limit that there is, by itself."""
    alone = {
        "silicon": ClusterBudget(silicon_mm2=budget.silicon_mm2),
        "power": ClusterBudget(power_w=budget.power_w),
        "usd": ClusterBudget(cost_usd=budget.cost_usd),
    }
    return {resource: one for resource, one in alone.items() if one.is_limited}


def _budget_lines(budget: ClusterBudget, use: BudgetUse, most: dict[str, int]) -> tuple[BudgetLine, ...]:
    limits = {"silicon": budget.silicon_mm2, "power": budget.power_w, "usd": budget.cost_usd}
    return tuple(
        BudgetLine(
            resource=resource,
            unit=_UNITS[resource],
            limit=limits[resource],
            used_fraction=float(getattr(use, f"{resource}_fraction_c")[0]),
            most_chips=number,
        )
        for resource, number in most.items()
    )


def _items(bill: ClusterBill, grades: dict[str, ItemGrade]) -> tuple[BillItem, ...]:
    return tuple(
        BillItem(
            resource=resource,
            item=item,
            unit=_UNITS[resource],
            amount=float(getattr(bill, f"{field}_c")[0]),
            grade=grades[field].weakest,
        )
        for resource, fields in _ITEMS.items()
        for item, field in fields.items()
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
