"""Numbers of chips to try under a budget for the cluster, where nobody lists them.

Whole nodes, and of them 2^i and 3 * 2^i: numbers that tensor, data and pipeline degrees make. The chip makes up
for the steps between them, since a space has chips of any size.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rephaze.errors import SpecError
from rephaze.hardware.cluster_bill import cluster_bill, most_chips
from rephaze.hardware.grid import FIELDS, DesignGrid
from rephaze.hardware.system import billed_scenario, resolved_system
from rephaze.hardware.system_chips import same_system
from rephaze.types.chip import ChipTable
from rephaze.types.scenario import Scenario
from rephaze.types.system import ClusterBudget, SystemChoice, SystemSpace

MAX_SYSTEMS = 4096
"""More are a slip, or need fewer values: each is a search of its own."""
_LIMITS = {
    "silicon_mm2": ("budget.silicon_mm2", "silicon_mm2_c", "mm²"),
    "power_w": ("budget.power_w", "power_w_c", "W"),
    "cost_usd": ("budget.usd", "usd_c", "dollars"),
}
"""By limit: where it is given, what of a bill it is held against, its unit."""


def check_systems(scenario: Scenario, systems: SystemSpace) -> None:
    """Raise unless every system can be made of the scenario, and they are not too many."""
    if systems.num_choices > MAX_SYSTEMS:
        raise SpecError("system", systems.num_choices, f"has over {MAX_SYSTEMS:,} systems", "list fewer values")
    if scenario.space.hbm_bytes_options and systems.hbm:
        rule = "the space gives memory sizes (hbm_gib_options), which stacks would change"
        raise SpecError("system.hbm", [str(one) for one in systems.hbm], rule, "leave one of both out")
    for choice in systems.choices():
        billed_scenario(scenario, choice, ClusterBudget())


def chip_counts(scenario: Scenario, systems: SystemSpace, budget: ClusterBudget) -> tuple[int, ...]:
    """Numbers to try, up to the most that the budget allows of the smallest chip; ``SpecError`` if none."""
    most, node = 0, 0
    for choice in systems.choices():
        most = max(most, _most_of_smallest(scenario, choice, budget))
        own = resolved_system(scenario, choice).node_size
        node = own if not node else min(node, own)
    if not most:
        raise _nothing_fits(scenario, systems.choices()[0], budget)
    found = {num for num in (1, 2, 3, 4, 6) if num < node}
    step = node
    while step <= most:
        found |= {step, step * 3 // 2} if step > 1 else {step}
        step *= 2
    return tuple(sorted(num for num in found if num <= most))


def _most_of_smallest(scenario: Scenario, choice: SystemChoice, budget: ClusterBudget) -> int:
    chips = _smallest(scenario, choice)
    columns = same_system(resolved_system(scenario, choice), len(chips))
    return int(most_chips(chips, columns, scenario.space.template.clock_hz, budget)[0])


def _smallest(scenario: Scenario, choice: SystemChoice) -> ChipTable:
    """The chip of a system with the least of everything."""
    grid = DesignGrid(billed_scenario(scenario, choice, ClusterBudget()).space)
    return grid.chips(np.array([[int(grid.values[f].argmin()) for f in range(len(FIELDS))]], dtype=np.int64))


def _nothing_fits(scenario: Scenario, choice: SystemChoice, budget: ClusterBudget) -> SpecError:
    """The limit that one of the smallest chips breaks most."""
    one = replace(choice, num_chips=1)
    chips = _smallest(scenario, one)
    bill = cluster_bill(chips, same_system(resolved_system(scenario, one), 1), scenario.space.template.clock_hz)
    taken = {name: float(getattr(bill, column)[0]) for name, (_, column, _) in _LIMITS.items()}
    worst = max(_LIMITS, key=lambda name: taken[name] / getattr(budget, name))
    field, _, unit = _LIMITS[worst]
    rule = f"not even one of the smallest chips fits: with what is around it, it takes {taken[worst]:,.0f} {unit}"
    return SpecError(field, getattr(budget, worst), rule)
