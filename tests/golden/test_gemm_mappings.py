"""The mapper against brute force on small GEMMs, and every mapping replayed by a slow evaluator."""

import random
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import gemm_replay as slow

from rephaze.estimate.estimate_model import PAPER
from rephaze.estimate.gemm_default.mapper import PaddedProblem, map_padded, map_shapes, mapping_of
from rephaze.estimate.gemm_paper.mapper import DivisorProblem, core_grid, map_divisors
from rephaze.units import J_PER_PJ, MIB


def dice_of(seed: int) -> random.Random:
    return random.Random(seed)


def padded(batch: int, m: int, n: int, k: int, core: slow.Core, side_bytes: float = 0.0) -> PaddedProblem:
    return PaddedProblem(
        batch=batch,
        m=m,
        n=n,
        k=k,
        num_tensor_cores=core.cores,
        width=core.width,
        depth=core.depth,
        scratchpad_bytes=core.scratchpad,
        global_buffer_bytes=core.buffer,
        scratchpad_bytes_per_cycle=core.scratchpad_rate,
        global_buffer_bytes_per_cycle=core.buffer_rate,
        hbm_bytes_per_cycle=core.hbm_rate,
        global_buffer_multicast=core.multicast,
        scratchpad_j_per_byte=1e-12,
        global_buffer_j_per_byte=5e-12,
        hbm_j_per_byte=6e-11,
        side_bytes=side_bytes,
    )


def small_core(dice: random.Random) -> slow.Core:
    return slow.Core(
        cores=dice.choice([1, 2, 3, 4]),
        width=dice.choice([1, 2, 4]),
        depth=dice.choice([1, 2, 4]),
        scratchpad=dice.choice([12, 24, 40, 60, 100, 400]),
        buffer=dice.choice([24, 60, 100, 200, 1000]),
        scratchpad_rate=dice.choice([2.0, 8.0, 40.0]),
        buffer_rate=dice.choice([0.5, 2.0, 20.0]),
        hbm_rate=dice.choice([0.5, 2.0, 20.0]),
        multicast=dice.choice([1, 2, 8]),
    )


@pytest.mark.parametrize("seed", range(14))
def test_no_tiling_of_a_small_gemm_is_faster_than_the_mapper(seed):
    dice = dice_of(seed)
    batch, m, n, k = dice.choice([1, 2]), dice.randint(1, 4), dice.randint(1, 3), dice.randint(1, 4)
    core = small_core(dice)
    side_bytes = dice.choice([0.0, 2.0 * batch * m * n, 100.0])
    found = map_padded(padded(batch, m, n, k, core, side_bytes))
    best = slow.brute_force_cycles(batch, {"m": m, "n": n, "k": k}, core, side_bytes)
    assert found.cycles == pytest.approx(best, rel=1e-12)


def large_core(dice: random.Random) -> slow.Core:
    width, depth = dice.choice([2, 8, 32, 128, 256]), dice.choice([2, 8, 32, 128, 256])
    buffer = dice.choice([2, 8, 32, 128]) * MIB
    return slow.Core(
        cores=dice.choice([1, 2, 6, 8, 64, 1024]),
        width=width,
        depth=depth,
        scratchpad=max(1024, 16 * width * depth),
        buffer=buffer,
        scratchpad_rate=4 * width + 8 * depth,
        buffer_rate=32 * buffer / MIB,
        hbm_rate=dice.choice([300.0, 1142.9]),
        multicast=8,
    )


@pytest.mark.parametrize("seed", range(40))
def test_a_padded_mapping_costs_what_a_replay_of_it_says(seed):
    dice = dice_of(1000 + seed)
    batch = dice.choice([1, 1, 12, 25])
    m, n, k = (dice.choice([1, 7, 64, 512, 1600, 4096, 50257]) for _ in range(3))
    core = large_core(dice)
    side_bytes = dice.choice([0.0, 2.0 * batch * m * n, 1e8])
    found = map_padded(padded(batch, m, n, k, core, side_bytes))
    terms = slow.padded_terms(batch, {"m": m, "n": n, "k": k}, core, found.mapping, side_bytes)
    assert found.mapping["cycles"] == pytest.approx(terms, rel=1e-12)
    assert found.cycles == pytest.approx(max(terms.values()), rel=1e-12)
    assert found.bound_cycles <= found.cycles * (1 + 1e-12)


def paper_problem(dims: dict[str, int], core: slow.PaperCore, num_cores: int) -> DivisorProblem:
    return DivisorProblem(
        rows_n=dims["n"],
        features_k=dims["k"],
        reduction_c=dims["c"],
        num_tensor_cores=num_cores,
        width=core.array[0],
        depth=core.array[1],
        scratchpad_words=core.scratchpad,
        global_buffer_words=core.buffer,
        register_pj=core.register_pj,
        scratchpad_pj=core.scratchpad_pj,
        global_buffer_pj=core.buffer_pj,
        dram_pj=core.dram_pj,
    )


def paper_core(dice: random.Random, num_cores: int, sizes: list[int], buffers: list[int]) -> slow.PaperCore:
    return slow.PaperCore(
        array=(dice.choice(sizes), dice.choice(sizes)),
        grid=core_grid(num_cores),
        scratchpad=dice.choice([4, 9, 16, 64, 1024]) if max(sizes) < 8 else 16384,
        buffer=dice.choice(buffers),
        register_pj=dice.choice([0.1, 1.0]),
        scratchpad_pj=dice.choice([1.0, 5.0]),
        buffer_pj=dice.choice([10.0, 80.0]),
        dram_pj=512.0,
    )


@pytest.mark.parametrize("seed", range(10))
def test_no_divisor_mapping_of_a_small_gemm_has_less_energy_delay(seed):
    dice = dice_of(seed)
    dims = {d: dice.choice([1, 2, 3, 4, 6]) for d in "nck"}
    if sorted(dims.values())[1] == 6:
        dims["n"] = 2
    num_cores = dice.choice([1, 2, 4])
    core = paper_core(dice, num_cores, [1, 2, 3], [3, 8, 20, 100])
    found = map_divisors(paper_problem(dims, core, num_cores), PAPER)
    best = slow.brute_force_energy_delay(dims, core)
    assert found.cycles * found.energy_j / J_PER_PJ == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_a_divisor_mapping_costs_what_a_replay_of_it_says(seed):
    dice = dice_of(seed)
    dims = {d: dice.choice([1, 64, 1024, 1600, 6144, 50257]) for d in "nck"}
    num_cores = dice.choice([1, 12, 64, 512])
    core = paper_core(dice, num_cores, [8, 16, 64, 128], [2 * MIB, 64 * MIB])
    found = map_divisors(paper_problem(dims, core, num_cores), PAPER)
    cycles, energy_pj = slow.paper_cost(dims, core, found.mapping)
    assert found.cycles == pytest.approx(cycles, rel=1e-9)
    assert found.energy_j / J_PER_PJ == pytest.approx(energy_pj, rel=1e-9)
    assert found.bound_cycles <= found.cycles * (1 + 1e-12)


def test_a_row_of_many_shapes_equals_each_shape_alone():
    dice = dice_of(5)
    cores = [large_core(dice) for _ in range(20)]
    shapes = [padded(1, 512, 1000, 768, core).shape() for core in cores]
    fields = shapes[0].__dataclass_fields__
    joined = type(shapes[0])(**{name: np.concatenate([getattr(s, name) for s in shapes]) for name in fields})
    together = map_shapes(1, 512, 1000, 768, joined)
    for row, core in zip(together, cores, strict=True):
        alone = map_padded(padded(1, 512, 1000, 768, core))
        assert mapping_of(row) == alone.mapping
