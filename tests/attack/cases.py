"""Searches to attack: random small spaces for every model, scenario, objective and aggregate, as run files.

A case is a run file and little else, so that a finding can be repeated with ``rephaze search --config``.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, replace
from typing import Any

from rephaze.errors import SpecError
from rephaze.hardware.space import enumerate_designs
from rephaze.search.settings import resolve_settings
from rephaze.types.search import Aggregate, Objective, SearchSettings
from rephaze.workload.zoo import ZOO_NAMES, load_model
from tests.attack.short_models import model_source

SCENARIOS = ("paper", "coarse")
"""Those with plans of their own kind are in ``full_draws``."""
SMALL_MODELS = ("bert-large", "opt-350m", "gpt2-xl", "megatron-bert", "megatron-gpt2-xl")

# Values drawn from; the ends starve a chip of one thing, which is where bounds are tightest.
AXES: dict[str, dict[str, tuple[int, ...]]] = {
    "paper": {
        "num_tensor_cores": (1, 4, 16, 64, 256, 1024),
        "tensor_width": (4, 16, 32, 64, 128, 256),
        "tensor_depth": (4, 16, 32, 64, 128, 256),
        "num_vector_cores": (1, 2, 16, 64, 256),
        "global_buffer_mib": (2, 8, 32, 128),
    },
    "coarse": {
        "num_tensor_cores": (1, 2, 8, 32, 128),
        "tensor_width": (32, 64, 128, 256),
        "tensor_depth": (32, 64, 128, 256),
        "num_vector_cores": (1, 2, 4, 8),
        "vector_lanes": (128, 512, 2048),
        "global_buffer_mib": (8, 32, 96, 192),
        "num_hbm_stacks": (1, 2, 4, 6),
    },
    "default": {
        "num_tensor_cores": (1, 2, 4, 8, 32),
        "tensor_width": (32, 64, 96, 128),
        "tensor_depth": (32, 64, 128),
        "num_vector_cores": (1, 2, 4, 8),
        "vector_lanes": (128, 256, 1024),
        "global_buffer_mib": (2, 8, 32),
        "num_hbm_stacks": (1, 2, 4),
    },
}
RECOMPUTE = {
    "paper": (["none"], ["stage"], ["none", "stage"]),
    "coarse": (["none"], ["none", "stage"], ["block"], ["none", "block", "stage"]),
}
LINKS_BYTES_PER_S = (4e9, 5e10, 3e11)


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One search to attack."""

    label: str
    run: dict[str, Any]
    """The run file's contents; models by the names of ``short_models``."""
    memory_bytes: tuple[int, ...] = ()
    """What a chip may have, in bytes: finer than a run file can say. By default as the space says."""

    def settings(self) -> SearchSettings:
        """The search it stands for."""
        changes = {section: value for section, value in self.run.items() if section not in ("scenario", "search")}
        search = self.run["search"] | {"models": [model_source(name) for name in self.run["search"]["models"]]}
        asked = resolve_settings(scenario=self.run["scenario"], changes=changes | {"search": search})
        if not self.memory_bytes:
            return asked
        space = replace(asked.scenario.space, hbm_bytes_options=self.memory_bytes)
        return replace(asked, scenario=replace(asked.scenario, space=space))

    def changed(self, section: str, **fields: Any) -> Case:
        """The same with some fields of a section replaced."""
        run = copy.deepcopy(self.run)
        run[section] = run.get(section, {}) | fields
        return replace(self, run=run)

    @property
    def toml(self) -> str:
        """The run file."""
        lines = [f'scenario = "{self.run["scenario"]}"']
        if self.memory_bytes:
            lines.append(f"# the space's hbm_bytes_options are {list(self.memory_bytes)}")
        for section, fields in self.run.items():
            if section != "scenario":
                lines += [f"[{section}]", *(f"{name} = {toml_value(value)}" for name, value in fields.items())]
        return "\n".join(lines)


def toml_value(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {toml_value(item)}' for name, item in value.items())} }}"
    return repr(value)


def random_case(
    seed: int,
    *,
    scenario: str | None = None,
    models: tuple[str, ...] | None = None,
    objective: Objective | None = None,
    aggregate: Aggregate | None = None,
    least_designs: int = 4,
    most_designs: int = 24,
    most_units: int = 4,
) -> Case:
    """A case of this seed; what is given is not drawn."""
    rng = random.Random(seed)
    scenario = scenario or rng.choice(SCENARIOS)
    if models is None:
        models = tuple(rng.sample(ZOO_NAMES, rng.choice((1, 1, 2))))
    objective = objective or rng.choice(list(Objective))
    aggregate = aggregate or rng.choice(list(Aggregate))
    search: dict[str, Any] = {"models": list(models), "objective": str(objective), "aggregate": str(aggregate)}
    if len(models) > 1:
        search["weights"] = [rng.choice((0.25, 1.0, 3.0)) for _ in models]
    for _ in range(200):
        run = {
            "scenario": scenario,
            "search": search,
            "space": _space(rng, scenario, most_designs),
            "cluster": _cluster(rng, scenario),
            "training": _training(rng, scenario, models, most_units),
        }
        case = Case(label=f"seed {seed}: {scenario}, {', '.join(models)}, {objective}, {aggregate}", run=run)
        try:
            census = enumerate_designs(case.settings().scenario.space)
        except SpecError:
            continue
        if least_designs <= census.num_designs <= most_designs:
            return case
    raise AssertionError(f"seed {seed} gives no space of {least_designs} to {most_designs} designs")


def _space(rng: random.Random, scenario: str, most_designs: int) -> dict[str, Any]:
    axes = AXES[scenario]
    chosen = {name: [rng.choice(values)] for name, values in axes.items()}
    num_points = 1
    for name in rng.sample(sorted(axes), len(axes)):
        size = rng.choice((1, 2, 3))
        # Limits remove designs: some more are drawn than are wanted.
        if num_points * size <= 2 * most_designs:
            chosen[name] = sorted(rng.sample(axes[name], size))
            num_points *= size
    space: dict[str, Any] = dict(chosen)
    if rng.random() < 0.7:
        space["area_floor_fraction"] = rng.choice((0.0, 0.1))
    if rng.random() < 0.3:
        space["area_limit_um2"] = round(10 ** rng.uniform(8.0, 9.0))
        space["area_limit_um2"] = float(space["area_limit_um2"])
    if scenario == "paper" and rng.random() < 0.5:
        space["hbm_gib_options"] = sorted(rng.sample((8, 16, 32, 80), rng.choice((1, 2))))
    return space


def _cluster(rng: random.Random, scenario: str) -> dict[str, Any]:
    num_devices = rng.choice((4, 16, 64, 256, 1024))
    outer = {"num_devices": num_devices, "bytes_per_s": rng.choice(LINKS_BYTES_PER_S)}
    if scenario == "paper":
        return {"num_devices": num_devices, "levels": [outer]}
    outer["latency_s"] = rng.choice((0.0, 5e-6))
    inner = {"num_devices": 4, "bytes_per_s": 3e11, "latency_s": 0.0}
    levels = [inner, outer] if num_devices > 4 and rng.random() < 0.6 else [outer]
    return {"num_devices": num_devices, "levels": levels}


def _training(rng: random.Random, scenario: str, models: tuple[str, ...], most_units: int) -> dict[str, Any]:
    legal = set.intersection(*(set(load_model(name, "fused").legal_tp) for name in models))
    degrees = sorted(rng.sample(sorted(legal & {1, 2, 4, 8}), min(len(legal & {1, 2, 4, 8}), rng.choice((1, 2)))))
    sizes = sorted(rng.sample((1, 2, 4, 8), max(1, min(rng.choice((1, 2, 3)), most_units // len(degrees)))))
    return {
        "global_batch": rng.choice((64, 240, 1024, 4096)),
        "microbatches": sizes,
        "tp_degrees": degrees,
        "recompute": rng.choice(RECOMPUTE[scenario]),
    }


def key_case() -> Case:
    """Vector cores decide: a bound that charges every product to one rate of the chip cuts the best ones."""
    return Case(
        label="many vector cores win",
        run={
            "scenario": "paper",
            "search": {"models": ["llama2-7b"]},
            "space": {
                "num_tensor_cores": [64, 256],
                "tensor_width": [16, 64],
                "tensor_depth": [16, 64],
                "num_vector_cores": [16, 256],
                "global_buffer_mib": [2, 8],
                "hbm_gib_options": [80],
            },
            "training": {"microbatches": [1], "tp_degrees": [2], "recompute": ["none"]},
        },
    )


def starved_case(scenario: str, model: str) -> Case:
    """One small array on one device: its multipliers alone decide the time, and the coarsest bound is tight."""
    space: dict[str, Any] = {
        "num_tensor_cores": [1],
        "tensor_width": [32, 64],
        "tensor_depth": [32, 64],
        "num_vector_cores": [8],
        "global_buffer_mib": [32],
        "area_floor_fraction": 0.0,
    }
    if scenario != "paper":
        space |= {"vector_lanes": [2048], "num_hbm_stacks": [4]}
    whole = {"cp_degrees": [1], "ep_degrees": [1]} if scenario == "default" else {}
    return Case(
        label=f"one small array on one device: {scenario}, {model}",
        run={
            "scenario": scenario,
            "search": {"models": [model]},
            "space": space,
            "cluster": {"num_devices": 1, "levels": [{"num_devices": 1, "bytes_per_s": 5e10}]},
            "training": {
                "global_batch": 64,
                "microbatches": [1, 4],
                "tp_degrees": [1],
                "recompute": ["none"],
            }
            | whole,
        },
    )
