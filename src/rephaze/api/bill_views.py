"""What a bill shows: sentences and cells, drawn by ``present``."""

from __future__ import annotations

import math
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from rephaze.api.present import Block, TextTable
from rephaze.types.system import MAX_CHIPS
from rephaze.units import GB, GHZ, GIB, MM2_PER_M2, USD_PER_MUSD, W_PER_MW

if TYPE_CHECKING:
    from rephaze.api.billing import BilledCluster

_GRADES = "grades: A vendor, B secondary, C recalled, D derived, P placeholder"


def bill_blocks(bill: BilledCluster) -> list[Block]:
    """Headline, system, items, grades, and with a budget what it allows."""
    named = ", ".join(bill.placeholders) or "none"
    blocks: list[Block] = [_headline(bill), _chip_sentence(bill), _network_sentence(bill), item_table(bill)]
    blocks += [
        _power_sentence(bill),
        _GRADES,
        f"grades: the weakest of an item's own values; placeholders: {named}",
    ]
    if bill.budgets:
        blocks += [budget_table(bill), _fit_sentence(bill)]
    return blocks


def item_table(bill: BilledCluster) -> TextTable:
    """Every item for a chip and for all, under each resource its sum."""
    rows: list[tuple[str, ...]] = []
    for resource, found in groupby(bill.items, attrgetter("resource")):
        items, total = list(found), bill.total(resource)
        rows += [
            (one.item, *_cells(bill, one.unit, one.amount), _share(one.amount, total), one.grade) for one in items
        ]
        if len(items) > 1:
            rows.append(("in all", *_cells(bill, items[0].unit, total), "", ""))
    headings = ("item", "unit", "a chip", "all chips", "share", "grade")
    return TextTable(headings=headings, rows=tuple(rows), left=frozenset({"item", "unit", "grade"}))


def budget_table(bill: BilledCluster) -> TextTable:
    """Every limit, what the cluster takes of it, and how many chips it allows by itself."""
    rows = tuple(
        (
            one.resource,
            _sign(one.unit),
            _amount(one.limit, 0),
            _amount(bill.total(one.resource), 0),
            _share(one.used_fraction, 1.0),
            f"{one.most_chips:,}",
        )
        for one in bill.budgets
    )
    headings = ("budget", "unit", "limit", "taken", "share", "chips it allows")
    return TextTable(headings=headings, rows=rows, left=frozenset({"budget", "unit"}))


def _headline(bill: BilledCluster) -> str:
    usd = bill.total("usd")
    dollars = f"{usd / USD_PER_MUSD:,.3g} million USD" if math.isfinite(usd) else "no whole die fits a wafer"
    return (
        f"{bill.num_chips:,} x {bill.chip.name}: {bill.total('silicon') / MM2_PER_M2:,.3g} m² of silicon, "
        f"{bill.total('power') / W_PER_MW:,.3g} MW, {dollars}; scenario {bill.scenario.name}"
    )


def _chip_sentence(bill: BilledCluster) -> str:
    chip = bill.chip
    return (
        f"chip: {chip.clock_hz / GHZ:,.4g} GHz, {chip.hbm_bytes / GIB:,.4g} GiB at "
        f"{chip.hbm_bytes_per_s / GB:,.4g} GB/s, billed as {chip.num_hbm_stacks} stacks of {bill.hbm}"
    )


def _network_sentence(bill: BilledCluster) -> str:
    levels = ", ".join(
        f"{level.bytes_per_s / GB:,.4g} GB/s to {min(level.num_devices, bill.num_chips):,}"
        for level in bill.scenario.cluster.levels
    )
    system = bill.system
    inside = f"{system.num_inside_links:.4g} links in nodes of {system.node_size:,}"
    return f"network: {levels} chips; {inside}, {system.num_outside_links:.4g} outside"


def _power_sentence(bill: BilledCluster) -> str:
    if bill.is_power_given:
        return f"chips are billed for the {bill.chip_w:,.0f} W they are held to"
    return f"chips are billed for the most they can draw, {bill.chip_w:,.0f} W; no workload draws it"


def _fit_sentence(bill: BilledCluster) -> str:
    most, limits = bill.most_chips, " and ".join(bill.binding)
    if not most:
        return f"not even one chip fits: {limits} binds"
    if most == MAX_CHIPS:
        return f"{most:,} chips fit, and more are not looked at"
    over = f"; the {bill.num_chips:,} billed do not" if bill.num_chips > most else ""
    return f"{most:,} chips fit: {limits} binds{over}"


def _cells(bill: BilledCluster, unit: str, amount: float) -> tuple[str, str, str]:
    return _sign(unit), _amount(amount / bill.num_chips, 1), _amount(amount, 0)


def _sign(unit: str) -> str:
    return "mm²" if unit == "mm2" else unit


def _amount(value: float, num_digits: int) -> str:
    return f"{value:,.{num_digits}f}" if math.isfinite(value) else "—"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if math.isfinite(part) and math.isfinite(whole) else "—"
