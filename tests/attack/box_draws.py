"""Searches by boxes to attack: spaces of fine steps, array sides of every kind, limits that cut through them."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from rephaze.hardware.energy import full_power
from rephaze.hardware.grid import DesignGrid
from rephaze.hardware.space import enumerate_designs
from rephaze.types.search import Aggregate, Objective
from tests.attack.cases import Case
from tests.attack.full_draws import full_case

COARSE_MODELS = ("tiny-gpt", "tiny-llama", "bert-large:1", "gpt2-xl:1", "opt-350m:2")
FINE: dict[str, tuple[int, ...]] = {
    "num_tensor_cores": (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 24),
    "tensor_width": (24, 32, 40, 48, 56, 64, 80, 96, 100, 128, 160),
    "tensor_depth": (24, 32, 40, 56, 64, 72, 80, 128, 160),
    "num_vector_cores": (1, 2, 3, 4, 5, 6),
    "vector_lanes": (96, 128, 160, 256, 384, 1024),
    "global_buffer_mib": (2, 3, 4, 5, 8, 12, 20, 32),
    "num_hbm_stacks": (1, 2, 3, 4),
}
RULES = (
    "num_vector_cores >= 2",
    "num_tensor_cores * tensor_width <= 400",
    "num_lanes >= 512",
    "num_tensor_cores > 2 * num_vector_cores",
    "num_macs >= 16384",
)


def box_case(
    seed: int,
    *,
    scenario: str = "coarse",
    models: tuple[str, ...] = ("tiny-gpt",),
    objective: Objective | None = None,
    aggregate: Aggregate | None = None,
    most_designs: int = 24,
    is_limited: bool = True,
) -> Case:
    """A case of this seed; what is given is not drawn."""
    rng = random.Random(f"boxes {seed}")
    chosen = objective or rng.choice(list(Objective))
    if scenario == "default":
        case = full_case(seed, models=models, objective=chosen, aggregate=aggregate, most_designs=2, most_units=2)
    else:
        case = Case(label="", run=_coarse(rng, models, chosen, aggregate))
    case = replace(case, label=f"boxes seed {seed}: {scenario}, {', '.join(models)}, {chosen}")
    case = case.changed("search", method="boxes")
    for _ in range(200):
        found = case.changed("space", **_space(rng, 2 * most_designs, case, is_limited=is_limited))
        if 3 <= enumerate_designs(found.settings().scenario.space).num_designs <= most_designs:
            return found
    raise AssertionError(f"seed {seed} gives no space of at most {most_designs} designs")


def ruled_case() -> Case:
    """The only chip that fits has too few cores for the space's rule: there is no design at all."""
    run = _coarse(random.Random("ruled"), ("tiny-gpt",), Objective.THROUGHPUT, Aggregate.MEAN)
    space: dict[str, Any] = {name: [values[0]] for name, values in FINE.items()}
    space |= {"num_tensor_cores": [1, 2], "num_vector_cores": [1, 2], "area_limit_um2": 1e12}
    case = Case(label="too few cores fit", run=run | {"space": space}).changed("search", method="boxes")
    grid = DesignGrid(case.settings().scenario.space)
    position = np.array([(0, 0, 0, 1, 0, 0, 0), (1, 0, 0, 0, 0, 0, 0)])
    area_um2 = grid.area_um2(position)
    # Two vector cores fit beside one tensor core, two tensor cores beside nothing.
    assert area_um2[0] < area_um2[1]
    return case.changed("space", constraints=["num_tensor_cores >= 2"], area_limit_um2=float(area_um2[0]))


def many_units_case() -> Case:
    """Microbatch sizes that leave devices idle in turn: another unit is best on every other chip."""
    case = box_case(21, models=("tiny-gpt",), objective=Objective.THROUGHPUT, most_designs=12)
    link = {"num_devices": 4, "bytes_per_s": 5e10, "latency_s": 1e-6}
    case = case.changed("cluster", num_devices=4, levels=[link])
    return case.changed("training", microbatches=[1, 2, 4, 8], tp_degrees=[1, 2, 4], global_batch=12)


def tied_case() -> Case:
    """A small array holds everything up: with more lanes than it can feed, a chip is only larger."""
    run = _coarse(random.Random("tied"), ("tiny-gpt",), Objective.THROUGHPUT, Aggregate.MEAN)
    space: dict[str, Any] = {
        "num_tensor_cores": [1],
        "tensor_width": [24],
        "tensor_depth": [24],
        "num_vector_cores": [2, 3, 4, 6],
        "vector_lanes": [384, 1024],
        "global_buffer_mib": [32],
        "num_hbm_stacks": [4],
        "area_limit_um2": 1e12,
    }
    return Case(label="ties", run=run | {"space": space}).changed("search", method="boxes")


def _coarse(
    rng: random.Random, models: tuple[str, ...], objective: Objective, aggregate: Aggregate | None
) -> dict[str, Any]:
    num_devices = rng.choice((1, 4, 16))
    search: dict[str, Any] = {
        "models": list(models),
        "objective": str(objective),
        "aggregate": str(aggregate or rng.choice(list(Aggregate))),
    }
    if len(models) > 1:
        search["weights"] = [rng.choice((0.25, 1.0, 3.0)) for _ in models]
    link = {"num_devices": num_devices, "bytes_per_s": rng.choice((4e9, 5e10)), "latency_s": 1e-6}
    return {
        "scenario": "coarse",
        "search": search,
        "cluster": {"num_devices": num_devices, "levels": [link]},
        "training": {
            "global_batch": rng.choice((12, 64)),
            "microbatches": sorted(rng.sample((1, 2, 4), rng.choice((1, 2)))),
            "tp_degrees": rng.choice(([1], [1, 2])),
            "recompute": rng.choice((["none"], ["none", "stage"])),
        },
    }


def _space(rng: random.Random, most_points: int, case: Case, *, is_limited: bool) -> dict[str, Any]:
    space: dict[str, Any] = {name: [rng.choice(values)] for name, values in FINE.items()}
    num_points = 1
    for name in rng.sample(sorted(FINE), len(FINE)):
        size = rng.choice((1, 2, 3, 4))
        if num_points * size <= most_points:
            space[name] = sorted(rng.sample(FINE[name], min(size, len(FINE[name]))))
            num_points *= len(space[name])
    space["area_limit_um2"] = 1e12
    grid = DesignGrid(case.changed("space", **space).settings().scenario.space)
    at_cf = np.stack(np.unravel_index(np.arange(grid.num_points), grid.shape), axis=1).astype(np.int64)
    if not is_limited:
        return space
    area_um2_c = grid.area_um2(at_cf)
    space["area_limit_um2"] = float(np.quantile(area_um2_c, rng.choice((0.5, 0.8, 1.0)), method="nearest"))
    if rng.random() < 0.3:
        space["area_floor_fraction"] = rng.choice((0.3, 0.6))
    if rng.random() < 0.3:
        power_w_c = full_power(grid.chips(at_cf), grid.space.area_model).total_w_c
        space["power_limit_w"] = float(np.quantile(power_w_c, rng.choice((0.5, 0.8)), method="nearest"))
    if rng.random() < 0.3:
        space["constraints"] = [rng.choice(RULES)]
    return space
