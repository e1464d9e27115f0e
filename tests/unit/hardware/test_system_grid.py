"""Chips and systems as one grid, numbers of chips under a budget, and what counts for designs with a system."""

from dataclasses import replace

import numpy as np
import pytest

from rephaze.errors import SpecError
from rephaze.hardware.chip_counts import MAX_SYSTEMS, check_systems, chip_counts
from rephaze.hardware.cluster_bill import most_chips
from rephaze.hardware.energy import full_power
from rephaze.hardware.grid import LIMITS, POWER_BUDGET, POWER_LIMIT, Boxes, DesignGrid
from rephaze.hardware.scenarios import load_scenario
from rephaze.hardware.space_terms import cluster_usd, space_area, space_bill, space_energy, space_power_w
from rephaze.hardware.system import billed_scenario, resolved_system
from rephaze.hardware.system_chips import same_system
from rephaze.hardware.system_grid import SystemGrid
from rephaze.types.system import ClusterBudget, HbmChoice, SystemChoice, SystemSpace

SCENARIO = load_scenario("coarse")
CHOICES = (
    SystemChoice(),
    SystemChoice(clock_hz=1.4e9, num_chips=64),
    SystemChoice(hbm=HbmChoice(generation="hbm3e", num_layers=12), num_inside_links=18, num_outside_links=2),
)


def grid_of(choices=CHOICES, budget=None):
    scenarios = [billed_scenario(SCENARIO, choice, budget or ClusterBudget()) for choice in choices]
    return SystemGrid(tuple(DesignGrid(one.space) for one in scenarios))


def some_positions(grid, num=300, seed=1):
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, num) for size in grid.shape], axis=1).astype(np.int64)


def test_positions_numbers_and_chips_are_those_of_the_systems():
    grid = grid_of()
    at_cf = some_positions(grid)
    designs = np.array([grid.design_at(tuple(row)) for row in at_cf.tolist()])
    assert grid.positions(designs).tolist() == at_cf.tolist()
    assert [grid.position_of(int(design)) for design in designs[:20]] == [
        tuple(row) for row in at_cf[:20].tolist()
    ]
    chips, area_um2_c = grid.chips(at_cf), grid.area_um2(at_cf)
    for c in range(0, 300, 17):
        own = grid.grids[at_cf[c, 0]]
        alone = own.chips(at_cf[c : c + 1, 1:])
        assert chips.chip(c, name="x") == alone.chip(0, name="x")
        assert area_um2_c[c] == own.area_um2(at_cf[c : c + 1, 1:])[0]
    assert set(chips.clock_hz[at_cf[:, 0] == 1]) == {1.4e9}


def test_roots_cover_every_system_by_itself():
    grid = grid_of()
    roots = grid.roots()
    assert (roots.first_bf[:, 0] == roots.last_bf[:, 0]).all()
    num_points = (roots.last_bf - roots.first_bf + 1).prod(axis=1).sum()
    assert num_points == grid.num_points == 3 * grid.grids[0].num_points


def test_a_budget_closes_what_its_smallest_chip_breaks():
    grid = grid_of(budget=ClusterBudget(power_w=1e5))
    roots = grid.roots()
    found = zip(roots.first_bf[:, 0].tolist(), grid.corners(roots).closed_by_b.tolist(), strict=True)
    closed_by = {s: LIMITS[by] for s, by in found if by >= 0}
    # A thousand chips never do with 100 kW, 64 may.
    assert closed_by == {0: POWER_BUDGET, 2: POWER_BUDGET}
    at_cf = some_positions(grid)
    is_design_c = grid.is_design(at_cf)
    for s, own in enumerate(grid.grids):
        mine = at_cf[:, 0] == s
        bill = space_bill(own.chips(at_cf[mine, 1:]), own.space)
        assert not (is_design_c[mine] & (bill.power_w_c > 1e5)).any()


def test_the_scenarios_own_system_has_the_area_of_today_and_counts_all_power():
    plain, billed = DesignGrid(SCENARIO.space), grid_of().grids[0]
    at_cf = some_positions(plain)
    chips = plain.chips(at_cf)
    assert (space_area(chips, billed.space).total_um2_c == plain.area_um2(at_cf)).all()
    assert (space_power_w(chips, billed.space) > full_power(chips, SCENARIO.space.area_model).total_w_c).all()
    # What is around a chip idles with it.
    assert (space_energy(chips, billed.space).idle_w_c > space_energy(chips, SCENARIO.space).idle_w_c + 100).all()
    usd_c = cluster_usd(chips, chips.hbm_bytes, billed.space, 1024)
    assert (usd_c == space_bill(chips, billed.space).usd_c).all()
    is_made_c = np.isfinite(usd_c)  # no whole die of the largest fits a wafer
    assert (usd_c > cluster_usd(chips, chips.hbm_bytes, SCENARIO.space, 1024))[is_made_c].all()


def test_a_power_limit_with_a_system_is_kept_by_the_most_a_chip_can_draw():
    scenario = replace(SCENARIO, space=replace(SCENARIO.space, power_limit_w=300.0))
    grid = DesignGrid(billed_scenario(scenario, SystemChoice(), ClusterBudget()).space)
    at_cf = some_positions(grid)
    closed_by = grid.corners(Boxes(at_cf, at_cf)).closed_by_b
    power_w_c = space_power_w(grid.chips(at_cf), grid.space)
    assert (power_w_c[closed_by == LIMITS.index(POWER_LIMIT)] > 300).all()
    assert (power_w_c[closed_by < 0] <= 300).all()
    assert (closed_by == LIMITS.index(POWER_LIMIT)).any()


def test_numbers_of_chips_are_whole_nodes_up_to_the_most():
    budget = ClusterBudget(power_w=2e6)
    counts = chip_counts(SCENARIO, SystemSpace(), budget)
    assert {8, 12, 1024, 1536, 2048} <= set(counts)
    assert counts == tuple(sorted(counts))
    grid = DesignGrid(billed_scenario(SCENARIO, SystemChoice(), ClusterBudget()).space)
    smallest = grid.chips(np.zeros((1, 7), dtype=np.int64))
    columns = same_system(resolved_system(SCENARIO, SystemChoice()), 1)
    most = int(most_chips(smallest, columns, SCENARIO.space.template.clock_hz, budget)[0])
    assert counts[-1] <= most < 2 * counts[-1]


def test_a_budget_nothing_fits_and_too_many_systems_are_named():
    with pytest.raises(SpecError, match=r"budget\.usd is 5\.0: not even one of the smallest chips fits"):
        chip_counts(SCENARIO, SystemSpace(), ClusterBudget(cost_usd=5.0))
    with pytest.raises(SpecError, match="systems"):
        check_systems(SCENARIO, SystemSpace(num_chips=tuple(range(1, MAX_SYSTEMS + 2))))
    sized = replace(SCENARIO, space=replace(SCENARIO.space, hbm_bytes_options=(2**34,)))
    with pytest.raises(SpecError, match="memory sizes"):
        check_systems(sized, SystemSpace(hbm=(HbmChoice(generation="hbm3", num_layers=8),)))
