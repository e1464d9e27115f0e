"""Searches under scenario ``full`` to attack: small models, clusters of a few devices, plans of every kind.

Memory is drawn around what plans need, so that some fit only just, some only with replays, and some not at all.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

from rephaze.errors import SpecError
from rephaze.estimate.gemm_costs import GemmMemo
from rephaze.hardware.space import enumerate_designs
from rephaze.types.full import PlanFamily
from rephaze.types.search import Aggregate, Objective
from tests.attack.cases import AXES, Case, starved_case
from tests.attack.cut_models import cut_models
from tests.attack.plan_attack import bytes_at, drawn_bytes
from tests.attack.short_models import small_model
from tests.attack.slow_full import FullUnits

FULL_MODELS = (
    "tiny-gpt",
    "tiny-llama",
    "bert-large:2",
    "gpt2-xl:3",
    "vit-large:2",
    "opt-350m:4",
    "t5-large:1",
    "mixtral-8x7b:2",
    "gpt-oss-120b:2",
    "deepseek-v3:2",
    "llama3-8b:3",
)
"""Tied weights, heavy ends, heads that are no power of two, an odd sequence, branches, experts, windows."""
QUICK_MODELS = ("tiny-gpt", "tiny-llama")
"""Scheduled in no time: many plans and memories can be tried with them."""
LISTS: dict[str, tuple[Any, ...]] = {
    "sharding": ("none", "optimizer", "gradients", "weights"),
    "shard_group": ("all", "level"),
    "reshard": (True, False),
    "schedule": ("1f1b", "interleaved", "zero-bubble"),
    "chunks": (2, 3),
    "order": ("dp-outer", "pp-outer"),
}
"""Of the plans section."""
DEGREES: dict[str, tuple[Any, ...]] = {
    "microbatches": (1, 2, 3, 4),
    "tp_degrees": (1, 2, 4, 5),
    "sequence_parallel": (False, True),
    "cp_degrees": (1, 2, 4),
    "ep_degrees": (1, 2, 4),
    "etp_degrees": (1, 2),
}
"""Of the training section."""
SMALLEST_BYTES = 2**20


def full_case(
    seed: int,
    *,
    models: tuple[str, ...] | None = None,
    objective: Objective | None = None,
    aggregate: Aggregate | None = None,
    most_designs: int = 6,
    most_units: int = 4,
    family: PlanFamily | None = None,
) -> Case:
    """A case of this seed; what is given is not drawn."""
    rng = random.Random(f"full {seed}")
    models = models or tuple(rng.sample(FULL_MODELS, rng.choice((1, 1, 1, 2))))
    search: dict[str, Any] = {
        "models": list(models),
        "objective": str(objective or rng.choice(list(Objective))),
        "aggregate": str(aggregate or rng.choice(list(Aggregate))),
    }
    if len(models) > 1:
        search["weights"] = [rng.choice((0.25, 1.0, 3.0)) for _ in models]
    for _ in range(400):
        run = {
            "scenario": "default",
            "search": search,
            "space": _space(rng, most_designs),
            "cluster": _cluster(rng),
            "training": _training(rng),
            "plans": _plans(rng, family),
        }
        case = Case(label=f"full seed {seed}: {', '.join(models)}, {search['objective']}", run=run)
        if not _is_small(case, most_designs, most_units):
            continue
        found = {_memory(rng, name, case) for name in models for _ in range(rng.choice((1, 1, 2)))}
        # Where a model has no plan whatever the memory, there is little to attack.
        if None in found and rng.random() < 0.95:
            continue
        memory_bytes = tuple(sorted(size for size in found if size is not None))
        return replace(case, memory_bytes=memory_bytes)
    raise AssertionError(f"seed {seed} gives no small search")


def _is_small(case: Case, most_designs: int, most_units: int) -> bool:
    try:
        scenario = case.settings().scenario
        num_designs = enumerate_designs(scenario.space).num_designs
        num_cuts = [len(cut_models(small_model(name), scenario)) for name in case.run["search"]["models"]]
    except SpecError:
        return False
    training = scenario.training
    sizes = [size for size in training.microbatches if size <= training.global_batch]
    return 1 <= num_designs <= most_designs and min(num_cuts) > 0 and 1 <= max(num_cuts) * len(sizes) <= most_units


def _some(rng: random.Random, values: tuple[Any, ...], most: int = 3) -> list[Any]:
    """A few of the values, in their order; never none."""
    chosen = set(rng.sample(range(len(values)), rng.randint(1, min(most, len(values)))))
    return [value for at, value in enumerate(values) if at in chosen]


def _space(rng: random.Random, most_designs: int) -> dict[str, Any]:
    chosen = {name: [rng.choice(values)] for name, values in AXES["default"].items()}
    num_points = 1
    for name in rng.sample(sorted(AXES["default"]), len(AXES["default"])):
        size = rng.choice((1, 2, 3))
        if num_points * size <= most_designs:
            chosen[name] = sorted(rng.sample(AXES["default"][name], size))
            num_points *= size
    return dict(chosen)


def _cluster(rng: random.Random) -> dict[str, Any]:
    """One or two levels; the devices need not fill them."""
    num_devices = rng.choice((1, 2, 3, 4, 6, 8, 8, 12, 16))
    rate = 10 ** rng.uniform(8.5, 11.5)
    outer = {"num_devices": num_devices, "bytes_per_s": rate, "latency_s": rng.choice((0.0, 1e-6, 2e-5))}
    inner_sizes = [size for size in (2, 3, 4) if num_devices % size == 0 and size < num_devices]
    num_used = num_devices - (1 if num_devices > 2 and rng.random() < 0.15 else 0)
    if not inner_sizes or rng.random() < 0.4:
        return {"num_devices": num_used, "levels": [outer]}
    inner = {
        "num_devices": rng.choice(inner_sizes),
        "bytes_per_s": rate * rng.choice((1.0, 4.0, 20.0)),
        "latency_s": rng.choice((0.0, 1e-6)),
    }
    return {"num_devices": num_used, "levels": [inner, outer]}


def _training(rng: random.Random) -> dict[str, Any]:
    return {
        "global_batch": rng.choice((1, 2, 4, 6, 7, 8, 12, 24)),
        "microbatches": _some(rng, DEGREES["microbatches"], 2),
        "tp_degrees": _some(rng, DEGREES["tp_degrees"], 2),
        "sequence_parallel": _some(rng, DEGREES["sequence_parallel"]),
        "cp_degrees": _some(rng, DEGREES["cp_degrees"], 2),
        "ep_degrees": _some(rng, DEGREES["ep_degrees"], 2),
        "etp_degrees": _some(rng, DEGREES["etp_degrees"], 2),
        "recompute": rng.choice((["none"], ["none", "block"], ["none", "block"], ["none", "block"])),
        "optimizer": rng.choice(("adam", "adam", "sgd")),
        "precision": rng.choice(("mixed", "bf16")),
    }


def _plans(rng: random.Random, family: PlanFamily | None) -> dict[str, Any]:
    chosen: dict[str, Any] = {name: _some(rng, values) for name, values in LISTS.items()}
    return chosen | {
        "overlap": rng.random() < 0.5,
        "family": str(family or rng.choice([*PlanFamily, PlanFamily.ANY, PlanFamily.EXACT])),
    }


def _memory(rng: random.Random, name: str, case: Case) -> int | None:
    """What some plan needs, a little less, or more; None if there is no plan at all."""
    settings = case.settings()
    sizes = settings.scenario.training.microbatches
    microbatch = rng.choice([size for size in sizes if size <= settings.scenario.training.global_batch] or [0])
    cuts = cut_models(small_model(name), settings.scenario)
    if not cuts or not microbatch:
        return None
    units = FullUnits(settings.scenario, GemmMemo())
    graphs = cuts[rng.choice(list(cuts))]
    needed = drawn_bytes(units.untimed_problem(graphs, microbatch), rng)
    if needed is None:
        return None
    factor = rng.choice((1.0, 1.0, 1 - 1e-6, rng.uniform(0.8, 1.0), rng.uniform(1.0, 1.3), rng.uniform(1.3, 4.0)))
    return max(SMALLEST_BYTES, math.ceil(needed * factor))


def class_case() -> Case:
    """Whole and cut sequences with the same tokens a chip, one class; memory is slow, so keys of others cost."""
    return Case(
        label="whole and cut sequences as one class",
        run={
            "scenario": "default",
            "search": {"models": ["tiny-gpt"]},
            "space": {
                "num_tensor_cores": [8, 32],
                "tensor_width": [128],
                "tensor_depth": [128],
                "num_vector_cores": [8],
                "vector_lanes": [1024],
                "global_buffer_mib": [32],
                "num_hbm_stacks": [1],
            },
            "cluster": {"num_devices": 4, "levels": [{"num_devices": 4, "bytes_per_s": 3e11}]},
            "training": {
                "global_batch": 16,
                "microbatches": [1, 4],
                "tp_degrees": [1],
                "cp_degrees": [1, 4],
                "recompute": ["none"],
            },
            "plans": {"schedule": ["1f1b"], "sharding": ["none"]},
        },
    )


def replay_case() -> Case:
    """One small array on one device, whose memory makes every block replay its whole forward pass."""
    case = starved_case("default", "tiny-gpt").changed("training", recompute=["none", "block"], microbatches=[4])
    scenario = case.settings().scenario
    graphs = next(iter(cut_models(small_model("tiny-gpt"), scenario).values()))
    problem = FullUnits(scenario, GemmMemo()).untimed_problem(graphs, 4)
    return replace(case, memory_bytes=(math.ceil(bytes_at(problem, keep=15)),))
