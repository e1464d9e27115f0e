"""Small random searches for tests: tiny models, a handful of chips, all cost models."""

import random
from dataclasses import replace
from pathlib import Path

from rephaze.search.settings import resolve_settings
from rephaze.units import GIB, MIB

DATA = Path(__file__).parents[1] / "data"
ATTENTION = {"coarse": "fused", "default": "fused", "paper": "eager"}
OURS = ("coarse", "default")
LEGAL_TP = {"gpt": (1, 2, 4), "llama": (1, 2)}


def tiny_model(name, scenario):
    return str(DATA / f"tiny-{name}-{ATTENTION[scenario]}.json.gz")


def small_settings(
    seed, scenario, models=("gpt",), *, num_choices=2, space=None, training=None, num_devices=None, **search
):
    """Settings of a random space of at most ``2 ** num_choices`` chips around plausible values."""
    rng = random.Random(seed)
    values = {
        "num_tensor_cores": (1, 2, 4, 8),
        "tensor_width": (32, 64, 128),
        "tensor_depth": (32, 64, 128),
        "num_vector_cores": (1, 2, 4),
        "global_buffer_mib": (2, 8, 32),
    }
    if scenario in OURS:
        values |= {"vector_lanes": (128, 256, 1024), "num_hbm_stacks": (1, 2, 4)}
    varied = set(rng.sample(sorted(values), num_choices))
    chosen = {name: sorted(rng.sample(options, 1 + (name in varied))) for name, options in values.items()}
    degrees = sorted(set.intersection(*(set(LEGAL_TP[name]) for name in models)))
    num_devices = num_devices or rng.choice((1, 4, 6, 16))
    link = {"num_devices": num_devices, "bytes_per_s": 10 ** rng.uniform(9, 11)}
    if scenario in OURS:
        link["latency_s"] = rng.choice((0.0, 1e-6))
    # The paper's space leaves small chips out.
    floor = {"area_floor_fraction": 0.0} if scenario == "paper" else {}
    changes = {
        "space": chosen | floor | (space or {}),
        "cluster": {"num_devices": num_devices, "levels": [link]},
        "training": {
            "global_batch": rng.choice((8, 12, 64)),
            "microbatches": sorted(rng.sample((1, 2, 4, 8), rng.randint(1, 2))),
            "tp_degrees": [rng.choice(degrees)] if rng.random() < 0.5 else [1, 2],
        }
        | (_full_training(rng) if scenario == "default" else {})
        | (training or {}),
        "search": search,
    }
    names = tuple(tiny_model(name, scenario) for name in models)
    asked = resolve_settings(names, scenario=scenario, changes=changes)
    if scenario in OURS:
        return asked
    # From far too little memory to more than enough.
    sizes = tuple(sorted(rng.sample((10 * MIB, 20 * MIB, 50 * MIB, 100 * MIB, GIB), 2)))
    space = replace(asked.scenario.space, hbm_bytes_options=sizes)
    return replace(asked, scenario=replace(asked.scenario, space=space))


def _full_training(rng):
    """Few of the many cuts: every one of them is solved where nothing is dropped."""
    return {
        "sequence_parallel": rng.choice(([True], [False], [False, True])),
        "cp_degrees": rng.choice(([1], [1, 2], [2])),
    }
