"""Random spaces for searches by boxes: fine steps, array sides of every kind, every limit a space may have."""

import random
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from rephaze.hardware.constraints import parse_constraint
from rephaze.hardware.energy import full_power
from rephaze.hardware.grid import FIELDS, DesignGrid
from rephaze.search import box_climb, box_waves
from rephaze.search.cosearch import run_search
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.settings import resolve_settings
from rephaze.store.run_store import RunStore
from rephaze.types.search import SearchMethod, SearchResult
from rephaze.units import MIB
from tests.property.search_cases import LEGAL_TP, tiny_model

VALUES = {
    "num_tensor_cores": (1, 2, 3, 4, 5, 6, 7, 8, 12),
    "tensor_width": (32, 40, 48, 56, 64, 80, 96, 100, 128),
    "tensor_depth": (24, 32, 40, 64, 72, 80, 128, 160),
    "num_vector_cores": (1, 2, 3, 4, 6),
    "vector_lanes": (96, 128, 160, 256, 384, 1024),
    "global_buffer_mib": (2, 3, 5, 8, 12, 20, 32),
    "num_hbm_stacks": (1, 2, 3, 4),
}
RULES = (
    "num_vector_cores >= 2",
    "num_tensor_cores * tensor_width <= 400",
    "num_lanes >= 512",
    "tensor_width == tensor_depth",
    "num_tensor_cores > 2 * num_vector_cores",
    "-1 * num_tensor_cores < -2",
    "num_macs >= 16384",
)


def box_settings(seed, scenario="coarse", models=("gpt",), *, most_points=48, space=None, training=None, **search):
    """A search by boxes of a random space; limits cut through it where they are drawn."""
    rng = random.Random(seed)
    chosen = _fields(rng, most_points)
    degrees = sorted(set.intersection(*(set(LEGAL_TP[name]) for name in models)))
    num_devices = rng.choice((1, 4, 6, 16))
    link = {"num_devices": num_devices, "bytes_per_s": 10 ** rng.uniform(9, 11), "latency_s": 1e-6}
    changes = {
        "space": chosen | {"area_limit_um2": 1e12} | (space or {}),
        "cluster": {"num_devices": num_devices, "levels": [link]},
        "training": {
            "global_batch": rng.choice((8, 12, 64)),
            "microbatches": sorted(rng.sample((1, 2, 4, 8), rng.randint(1, 2))),
            "tp_degrees": [rng.choice(degrees)] if rng.random() < 0.5 else [1, 2],
        }
        | (_full_training(rng) if scenario == "default" else {})
        | (training or {}),
        "search": {"method": "boxes"} | search,
    }
    if scenario == "default":
        changes["plans"] = _plans(rng)
    names = tuple(tiny_model(name, scenario) for name in models)
    asked = resolve_settings(names, scenario=scenario, changes=changes)
    return with_space(asked, limited(rng, asked.scenario.space)) if space is None else asked


def _fields(rng, most_points):
    chosen, num_points = {name: [rng.choice(values)] for name, values in VALUES.items()}, 1
    for name in rng.sample(sorted(VALUES), len(VALUES)):
        size = rng.choice((1, 2, 3, 4))
        if num_points * size <= most_points:
            chosen[name] = sorted(rng.sample(VALUES[name], min(size, len(VALUES[name]))))
            num_points *= len(chosen[name])
    return chosen


def _full_training(rng):
    return {
        "sequence_parallel": rng.choice(([True], [False])),
        "cp_degrees": rng.choice(([1], [1], [2])),
        "ep_degrees": [1],
    }


def _plans(rng):
    """Few of the many choices: all of them are looked at on every design."""
    return {
        "sharding": rng.choice((["none"], ["none", "weights"])),
        "shard_group": ["all"],
        "reshard": [False],
        "schedule": rng.choice((["1f1b"], ["1f1b", "zero-bubble"])),
        "chunks": [],
        "order": ["dp-outer"],
        "overlap": rng.random() < 0.5,
        "family": "exact",
    }


def limited(rng, space):
    """The space with limits that some of its designs keep to."""
    grid = DesignGrid(space)
    chips = grid.chips(every_position(grid))
    area_um2_c = grid.area_um2(every_position(grid))
    changes = {"area_limit_um2": _quantile(rng, area_um2_c, (0.5, 0.9, 1.0))}
    if rng.random() < 0.3:
        changes["area_floor_um2"] = min(_quantile(rng, area_um2_c, (0.2, 0.4)), changes["area_limit_um2"])
    if rng.random() < 0.3:
        power_w_c = full_power(chips, space.area_model).total_w_c
        changes["power_limit_w"] = _quantile(rng, power_w_c, (0.5, 0.9))
    if rng.random() < 0.3:
        changes["constraints"] = tuple(parse_constraint(text) for text in rng.sample(RULES, rng.choice((1, 1, 2))))
    if rng.random() < 0.3:
        changes["hbm_bytes_options"] = tuple(sorted(rng.sample((10 * MIB, 20 * MIB, 50 * MIB, 1024 * MIB), 2)))
    if rng.random() < 0.15:
        changes["vector_lanes"] = None
    return replace(space, **changes)


def _quantile(rng, values, parts):
    return float(np.quantile(values, rng.choice(parts), method="nearest"))


def with_space(settings, space):
    return replace(settings, scenario=replace(settings.scenario, space=space))


def every_position(grid):
    return np.stack(np.unravel_index(np.arange(grid.num_points), grid.shape), axis=1).astype(np.int64)


def as_list(settings):
    """The same search, every design solved."""
    return replace(settings, method=SearchMethod.LIST, exhaustive=True)


def positions(first, last):
    """Every position of a box."""
    axes = [np.arange(low, high + 1) for low, high in zip(first, last, strict=True)]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1).astype(np.int64)


def times_covered(grid, boxes):
    """How often each point of the grid is in a box."""
    count = np.zeros(grid.shape, dtype=np.int64)
    for box in boxes:
        count[tuple(slice(low, high + 1) for low, high in zip(box.first, box.last, strict=True))] += 1
    return count


@contextmanager
def slow_start(wave=2, batch=1, num_first=0):
    """No answer to begin with, and a look at it after every design: most must then fall to bounds of boxes."""
    before = box_waves.LEAST_WAVE, box_waves.DEAR_WAVE, box_waves.LEAST_BATCH
    first, neighbours = box_climb.NUM_FIRST, box_climb.neighbours
    box_waves.LEAST_WAVE, box_waves.DEAR_WAVE, box_waves.LEAST_BATCH = wave, wave, batch
    box_climb.NUM_FIRST = num_first
    box_climb.neighbours = lambda _grid, _position: np.empty((0, len(FIELDS)), dtype=np.int64)
    try:
        yield
    finally:
        box_waves.LEAST_WAVE, box_waves.DEAR_WAVE, box_waves.LEAST_BATCH = before
        box_climb.NUM_FIRST, box_climb.neighbours = first, neighbours


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """A search and what it recorded."""

    result: SearchResult
    closed: list
    still_open: list
    evaluations: dict


def recorded(settings, folder, **how):
    """A search run and read back."""
    result = run_search(settings, folder=folder, **how)
    with RunStore.read(folder) as store:
        evaluations = {item.design: item for item in store.evaluations()}
        return Recorded(
            result=result,
            closed=store.closed_boxes(),
            still_open=store.open_boxes(),
            evaluations=evaluations,
        )


def true_values(settings):
    """Of every design of the space, by its position: what an exhaustive search found."""
    evaluator, grid = SpaceEvaluator(as_list(settings)), DesignGrid(settings.scenario.space)
    found = {}
    for design in range(evaluator.census.num_designs):
        one = evaluator.evaluate(design, evaluator.unit_bounds([design]), -np.inf)
        found[position_of(grid, evaluator.census.chips.chip(design))] = max(one.objective, 0.0)
    return found


def position_of(grid, chip):
    """Where a chip is in the grid."""
    return tuple(
        0
        if field == "vector_lanes" and grid.space.vector_lanes is None
        else values.tolist().index(getattr(chip, field))
        for field, values in zip(FIELDS, grid.values, strict=True)
    )


def in_box(values, box):
    """The values of the designs of a box."""
    return [
        value
        for at, value in values.items()
        if all(low <= one <= high for one, low, high in zip(at, box.first, box.last, strict=True))
    ]
