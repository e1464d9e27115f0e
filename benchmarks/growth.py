"""How cost grows: CPU seconds of planning and searching, as one thing at a time is doubled; as a page of tables.

Each case runs in a process of its own, with nothing remembered but compiled kernels and the model read. Cases are
kept in a file as they are measured, and not measured again::

    python benchmarks/growth.py                    # all cases that are missing, then docs/performance.md
    python benchmarks/growth.py --only layers      # of one kind
    python benchmarks/growth.py --anew             # all, whether they are kept or not
    python benchmarks/growth.py --page             # the page alone

CPU seconds of one process do not depend much on what else a machine does, unlike wall seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import rephaze
from growth_text import page
from rephaze.search.workers.warmup import warm_all
from rephaze.types.graph import LayerEdge, ModelGraph
from rephaze.types.scenario import Scenario
from rephaze.workload.graph_file import write_graph

ROOT = Path(__file__).parents[1]
CASES = Path(__file__).parent / "data" / "growth.jsonl"
PAGE = ROOT / "docs" / "performance.md"
CHIP = "tpuv4"
Measured = dict[str, Any]

MODELS = ("bert-large", "gpt2-xl", "llama2-7b", "megatron-gpt2-8.3b")
DEVICES = (64, 256, 1024, 4096, 16384)
BLOCKS = (16, 32, 64, 128)
PLAN_STEPS = ("degrees", "microbatches", "sharding", "schedules", "context", "all")
SPACES = {
    "coarse, an eighth": {"num_vector_cores": [2], "vector_lanes": [512, 2048], "num_hbm_stacks": [2, 4, 6]},
    "coarse, a quarter": {"num_vector_cores": [2, 4], "vector_lanes": [512, 2048], "num_hbm_stacks": [2, 4, 6]},
    "coarse, half": {"num_vector_cores": [1, 2, 4, 8], "vector_lanes": [512, 2048], "num_hbm_stacks": [2, 4, 6]},
    "coarse": {},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=sorted(KINDS), help="kinds of cases")
    parser.add_argument("--cases", type=Path, default=CASES, help=f"where cases are kept (default {CASES})")
    parser.add_argument("--to", type=Path, default=PAGE, help=f"the page (default {PAGE})")
    parser.add_argument("--anew", action="store_true", help="measure also what is kept")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    parser.add_argument("--measure", nargs=2, metavar=("KIND", "AT"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(measured(*asked.measure)))
        return
    kept = read_cases(asked.cases)
    for kind, steps in () if asked.page else STEPS.items():
        for at in steps if not asked.only or kind in asked.only else ():
            if (kind, at) in kept and not asked.anew:
                continue
            kept[kind, at] = found = in_process(kind, at)
            with asked.cases.open("a") as out:
                out.write(json.dumps(found) + "\n")
            print(f"{kind}, {at}: {found['cpu_s']:.2f} CPU s", flush=True)
    asked.to.write_text(page([kept[key] for kind in STEPS for at in STEPS[kind] if (key := (kind, at)) in kept]))


def read_cases(path: Path) -> dict[tuple[str, str], Measured]:
    """Kept cases by kind and step; of two the later."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {(case["kind"], case["at"]): case for case in map(json.loads, lines)}


def in_process(kind: str, at: str) -> Measured:
    """One case in a fresh process."""
    command = [sys.executable, str(Path(__file__)), "--measure", kind, at]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "200"})
    found: Measured = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(kind: str, at: str) -> Measured:
    """CPU seconds of one case, with what it answered."""
    warm_all()
    work = KINDS[kind](at)
    began = time.process_time()
    answer = work()
    cpu_s = time.process_time() - began
    return {"kind": kind, "at": at, "cpu_s": cpu_s, "python": platform.python_version(), **answer}


# What is measured


def placing(model: str, scenario: Scenario) -> Callable[[], Measured]:
    """The best plan of a model on TPUv4."""
    rephaze.load_model(model, attention=scenario.attention)

    def work() -> Measured:
        found = rephaze.place_model(model, CHIP, scenario=scenario)
        return {"status": found.status, "batch_s": found.batch_s}

    return work


def searching(models: tuple[str, ...], space: dict[str, Any]) -> Callable[[], Measured]:
    """The best chip of a part of scenario coarse."""
    scenario = rephaze.load_scenario("coarse")
    for model in models:
        rephaze.load_model(model, attention=scenario.attention)

    def work() -> Measured:
        found = rephaze.explore(*models, scenario="coarse", changes={"space": space} if space else None)
        certificate = found.certificate
        return {
            "status": found.status.value,
            "num_designs": certificate.num_designs,
            "num_solved": certificate.num_solved_exactly,
            "objective": found.objective,
        }

    return work


def of_devices(scenario: str) -> Callable[[str], Callable[[], Measured]]:
    def case(at: str) -> Callable[[], Measured]:
        return placing("llama2-7b", resized(rephaze.load_scenario(scenario), int(at)))

    return case


def of_layers(scenario: str) -> Callable[[str], Callable[[], Measured]]:
    def case(at: str) -> Callable[[], Measured]:
        path = Path(tempfile.mkdtemp()) / f"llama-{at}.json"
        write_graph(deepened(rephaze.load_model("llama2-7b"), int(at)), path)
        return placing(str(path), rephaze.load_scenario(scenario))

    return case


def of_chips(at: str) -> Callable[[], Measured]:
    return searching(("bert-large",), SPACES[at])


def of_models(at: str) -> Callable[[], Measured]:
    return searching(MODELS[: int(at)], SPACES["coarse, an eighth"])


def of_plan_options(at: str) -> Callable[[], Measured]:
    return placing("llama2-7b", with_options(rephaze.load_scenario("default"), PLAN_STEPS.index(at)))


KINDS: dict[str, Callable[[str], Callable[[], Measured]]] = {
    "devices, 1f1b": of_devices("coarse"),
    "devices, full": of_devices("default"),
    "layers, 1f1b": of_layers("coarse"),
    "layers, full": of_layers("default"),
    "chips": of_chips,
    "models": of_models,
    "plan options": of_plan_options,
}
STEPS: dict[str, tuple[str, ...]] = {
    "devices, 1f1b": tuple(map(str, DEVICES)),
    "devices, full": tuple(map(str, DEVICES)),
    "layers, 1f1b": tuple(map(str, BLOCKS)),
    "layers, full": tuple(map(str, BLOCKS)),
    "chips": tuple(SPACES),
    "models": tuple(str(k + 1) for k in range(len(MODELS))),
    "plan options": PLAN_STEPS,
}


def resized(scenario: Scenario, num_devices: int) -> Scenario:
    """The scenario on so many chips, with four samples a chip in a batch."""
    inner, outer = scenario.cluster.levels
    levels = (inner, replace(outer, num_devices=max(num_devices, outer.num_devices)))
    cluster = replace(scenario.cluster, num_devices=num_devices, levels=levels)
    training = replace(scenario.training, global_batch=4 * num_devices)
    return replace(scenario, cluster=cluster, training=training)


def deepened(graph: ModelGraph, num_blocks: int) -> ModelGraph:
    """The model with another number of its blocks: a first layer, equal blocks, a last layer, in a chain."""
    first, block, last = graph.layer_type_of[0], graph.layer_type_of[1], graph.layer_type_of[-1]
    assert set(graph.layer_type_of[1:-1]) == {block}, "all blocks of one type"
    names = (graph.layer_names[0], *(f"block.{k}" for k in range(num_blocks)), graph.layer_names[-1])
    (payload,) = {edge.payload_bytes for edge in graph.edges}
    edges = tuple(LayerEdge(src=at, dst=at + 1, payload_bytes=payload) for at in range(num_blocks + 1))
    of_block = graph.layer_types[block].param_bytes // 2
    return replace(
        ModelGraph(**{name: getattr(graph, name) for name in ModelGraph.__dataclass_fields__}),
        name=f"llama-{num_blocks}",
        layer_names=names,
        layer_type_of=(first, *(block,) * num_blocks, last),
        edges=edges,
        num_parameters=graph.num_parameters + (num_blocks - len(graph.layer_names) + 2) * of_block,
    )


def with_options(scenario: Scenario, num_steps: int) -> Scenario:
    """Scenario default with the first so many kinds of choices, the others at one value each."""
    training, plans = scenario.training, scenario.plans
    least = replace(
        training, microbatches=(1,), sequence_parallel=(False,), cp_degrees=(1,), ep_degrees=(1,), etp_degrees=(1,)
    )
    bare = type(plans)(family=plans.family, overlap=plans.overlap)
    if num_steps >= 1:
        least = replace(least, microbatches=training.microbatches, recompute=training.recompute)
    if num_steps >= 2:
        bare = replace(bare, sharding=plans.sharding, shard_group=plans.shard_group, reshard=plans.reshard)
    if num_steps >= 3:
        bare = replace(bare, schedule=plans.schedule, chunks=plans.chunks, order=plans.order)
    if num_steps >= 4:
        least = replace(least, cp_degrees=training.cp_degrees)
    if num_steps >= 5:
        least = training
    return replace(scenario, training=least, plans=bare)


if __name__ == "__main__":
    main()
