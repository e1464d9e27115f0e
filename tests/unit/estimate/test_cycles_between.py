"""Cycles taken from shapes around a shape: those of its own mapping, and most of them without one."""

import numpy as np
import pytest

from rephaze.estimate import gemm_costs
from rephaze.estimate.cycles_between import Amounts, CyclesBetween
from rephaze.estimate.estimate_model import named_estimate_model
from rephaze.estimate.estimator import Estimator
from rephaze.estimate.gemm_costs import GemmMemo
from rephaze.hardware.grid import DesignGrid
from rephaze.hardware.scenarios import load_scenario
from rephaze.hardware.space_terms import space_energy

KEY = ("default/0", (1, 8, 8, 8), 0.0, b"cores")
PRODUCTS = [(1, 4096, 1024, 1024), (1, 1000, 3072, 768), (16, 512, 64, 512), (1, 30, 5000, 90)]


def test_between_two_shapes_of_as_many_cycles_and_nowhere_else():
    known = CyclesBetween()
    assert known.find(KEY, Amounts(2.0, 2.0, 2.0)) is None
    known.add(KEY, Amounts(4.0, 4.0, 4.0), 10.0)
    known.add(KEY, Amounts(1.0, 1.0, 1.0), 12.0)
    assert known.find(KEY, Amounts(2.0, 2.0, 2.0)) is None, "from 10 to 12"
    known.add(KEY, Amounts(2.0, 2.0, 2.0), 10.0)
    assert known.find(KEY, Amounts(3.0, 2.0, 4.0)) == 10.0
    assert known.find(KEY, Amounts(3.0, 1.0, 4.0)) is None, "less of one than any that is known"
    assert known.find(KEY, Amounts(3.0, 2.0, 5.0)) is None, "more of one"
    assert known.find((*KEY[:3], b"other cores"), Amounts(3.0, 2.0, 4.0)) is None


def test_little_is_kept_of_products_that_one_shape_is_known_of():
    known = CyclesBetween()
    known.add(KEY, Amounts(2.0, 2.0, 2.0), 10.0)
    ((largest, smallest),) = known.known[KEY].values()
    assert largest is smallest
    known.add(KEY, Amounts(1.0, 2.0, 2.0), 10.0)
    ((largest, smallest),) = known.known[KEY].values()
    assert (largest, smallest) == ((Amounts(2.0, 2.0, 2.0),), (Amounts(1.0, 2.0, 2.0),))
    assert known.find(KEY, Amounts(1.5, 2.0, 2.0)) == 10.0


@pytest.mark.parametrize("seed", range(4))
def test_cycles_are_those_of_the_mapping_whatever_was_mapped_before(seed, monkeypatch):
    """Regions of the grid, as boxes are: a few cores, many buffers and memories."""
    scenario = load_scenario("default")
    grid, rng = DesignGrid(scenario.space), np.random.default_rng(seed)
    cores = rng.integers(0, grid.shape, size=(3, len(grid.shape)))
    model, mapped, num_shapes = named_estimate_model(scenario.estimate_model), 0, 0
    known, plain = GemmMemo(), gemm_costs.map_rows

    def counted(batch, m, n, k, rows_s, side_bytes):
        nonlocal mapped
        mapped += len(rows_s)
        return plain(batch, m, n, k, rows_s, side_bytes)

    for _ in range(6):
        at_cf = cores[rng.integers(0, 3, 8)].copy()
        at_cf[:, 5:] = rng.integers(0, grid.shape[5:], size=(8, 2))
        chips = grid.chips(at_cf)
        energy = space_energy(chips, scenario.space)
        own = Estimator(chips, energy, scenario.cluster, model, known)
        apart = Estimator(chips, energy, scenario.cluster, model, GemmMemo())
        for dims in PRODUCTS:
            for columns in ("_one_core", "_all_cores"):
                for share in (0, 1):
                    asked = getattr(own._by_share[share], columns)
                    monkeypatch.setattr(gemm_costs, "map_rows", counted)
                    found = asked.mapped_cycles(dims, 64.0)
                    monkeypatch.setattr(gemm_costs, "map_rows", plain)
                    num_shapes += len(asked.shapes)
                    exact = getattr(apart._by_share[share], columns).exact(dims, 64.0).cycles_c
                    np.testing.assert_array_equal(found, exact)
    assert mapped < num_shapes * 0.75, "some are spared"
