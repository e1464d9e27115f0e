"""Random searches with systems: small spaces, a few values of each field, budgets that cut through them."""

import random
from dataclasses import replace

import numpy as np

from rephaze.hardware.grid import DesignGrid
from rephaze.hardware.space_terms import space_bill
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.systems import system_settings
from rephaze.types.cluster import Cluster, NetworkLevel
from rephaze.types.search import SearchMethod
from rephaze.types.system import ClusterBudget, HbmChoice, SystemSpace
from tests.property.box_cases import as_list, box_settings, every_position, position_of

VALUES = {
    "clock_hz": (0.8e9, 0.95e9, 1.05e9, 1.3e9, 1.7e9),
    "hbm": (
        HbmChoice(generation="hbm2e", num_layers=8),
        HbmChoice(generation="hbm3", num_layers=8),
        HbmChoice(generation="hbm3e", num_layers=12),
    ),
    "num_inside_links": (2, 6, 12, 18),
    "num_outside_links": (1, 2, 4),
    "node_size": (1, 2, 4, 8),
    "num_chips": (1, 2, 3, 4, 6, 8, 12, 16),
}
NODES = Cluster(
    num_devices=8,
    levels=(
        NetworkLevel(num_devices=4, bytes_per_s=1e11, latency_s=1e-6),
        NetworkLevel(num_devices=8, bytes_per_s=2e10, latency_s=5e-6),
    ),
)


def system_case(seed, scenario="coarse", models=("gpt",), *, most_systems=6, most_points=8, **search):
    """A search with systems, some of whose designs keep to its budget."""
    rng = random.Random(f"systems {seed}")
    given = box_settings(seed, scenario, models, most_points=most_points, **search)
    space = replace(given.scenario.space, hbm_bytes_options=())
    given = replace(given, scenario=replace(given.scenario, space=space, cluster=NODES), method=SearchMethod.AUTO)
    systems, num = {}, 1
    for name in rng.sample(sorted(VALUES), len(VALUES)):
        size = rng.choice((0, 1, 2, 3))
        if size and num * size <= most_systems:
            systems[name] = tuple(sorted(rng.sample(VALUES[name], size), key=VALUES[name].index))
            num *= size
    if not systems:
        systems = {"num_chips": (2, 4)}
    free = replace(given, systems=SystemSpace(**systems))
    return replace(free, budget=_budget(rng, free))


def _budget(rng, settings):
    """Limits between what some and what all clusters take; at times none."""
    silicon_mm2, power_w, usd = [], [], []
    for own in system_settings(settings):
        grid = DesignGrid(own.scenario.space)
        bill = space_bill(grid.chips(every_position(grid)), own.scenario.space)
        silicon_mm2.append(bill.silicon_mm2_c)
        power_w.append(bill.power_w_c)
        usd.append(bill.usd_c)
    drawn = {}
    for name, amounts in (("silicon_mm2", silicon_mm2), ("power_w", power_w), ("cost_usd", usd)):
        if rng.random() < 0.4:
            quantile = float(np.quantile(np.concatenate(amounts), rng.choice((0.3, 0.6, 0.9)), method="nearest"))
            drawn[name] = quantile
    return ClusterBudget(**drawn)


def true_system_values(settings):
    """Of every design of every system, by its position: what solving all of them found."""
    found = {}
    for number, own in enumerate(system_settings(settings)):
        evaluator, grid = SpaceEvaluator(as_list(own)), DesignGrid(own.scenario.space)
        for design in range(evaluator.census.num_designs):
            one = evaluator.evaluate(design, evaluator.unit_bounds([design]), -np.inf)
            position = position_of(grid, evaluator.census.chips.chip(design))
            found[(number, *position)] = max(one.objective, 0.0)
    return found
