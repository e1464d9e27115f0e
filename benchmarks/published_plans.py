"""Published training runs as plan files, priced, and how far the prices are from what was measured.

``benchmarks/data/published_runs.toml`` has the facts. For each run this script takes the model's graph (of the
zoo, or extracted from its config, which needs torch), cuts it as the run did, schedules its layers on the run's
chip, and writes the run's plan to ``examples/published/NAME.json``. Then ``examples/published/README.md`` is made
anew from all files there: what ``rephaze evaluate`` says of each, beside the measured seconds. Nothing is fitted::

    python benchmarks/published_plans.py                        # all of them: some minutes
    python benchmarks/published_plans.py --only llama3-8b-h100x8-cp2 gpt-1.5b-a100x8-pp8
    python benchmarks/published_plans.py --index                # the table alone, from the files as they are
"""

from __future__ import annotations

import argparse
import time
import tomllib
from collections import Counter
from dataclasses import replace
from pathlib import Path

from published_text import Facts, error_of, index_page, is_interleaved, plan_text, priced
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.scenarios import load_scenario
from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.even_stages import split_evenly
from rephaze.measure.full_planner import FullPlanner
from rephaze.measure.model_work import ModelWork
from rephaze.measure.units import Memory
from rephaze.types.chip import Chip
from rephaze.types.cluster import Cluster, NetworkLevel
from rephaze.types.full import (
    DeviceOrder,
    FullGraph,
    FullLayer,
    FullProblem,
    PipelineSchedule,
    PlanFamily,
    PlanOptions,
    Sharding,
)
from rephaze.types.graph import AttentionKind
from rephaze.types.scenario import Scenario
from rephaze.workload.graph_file import write_graph

ROOT = Path(__file__).parents[1]
FACTS = Path(__file__).parent / "data" / "published_runs.toml"
PLANS = ROOT / "examples" / "published"
GRAPHS = ROOT / "build" / "published_graphs"
VALUE_BYTES = 2
"""Of an activation."""


def main() -> None:
    facts = tomllib.loads(FACTS.read_text())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(facts["runs"]), metavar="NAME", choices=facts["runs"])
    parser.add_argument(
        "--index", action="store_true", help="write no plan files, only the table of those there are"
    )
    parser.add_argument(
        "--graphs", type=Path, default=GRAPHS, help=f"where extracted graphs lie (default {GRAPHS})"
    )
    asked = parser.parse_args()
    PLANS.mkdir(parents=True, exist_ok=True)
    for name in [] if asked.index else asked.only:
        began = time.perf_counter()
        run = facts["runs"][name]
        problem, position = timed_problem(run, facts, asked.graphs)
        (PLANS / f"{name}.json").write_text(plan_text(problem, plan_record(run, problem.graphs[0], position)))
        print(f"{name}: written in {time.perf_counter() - began:.0f} s", flush=True)
    answers = priced(facts["runs"], PLANS)
    for name in asked.only:
        if name in answers:
            print(f"{name}: {error_of(facts['runs'][name], answers[name]):+.1%}")
    (PLANS / "README.md").write_text(index_page(facts, answers))


# From facts to a problem


def timed_problem(run: Facts, facts: Facts, graphs: Path) -> tuple[FullProblem, int]:
    """The run's placement problem with scheduled times, lists thinned; and the position its blocks keep."""
    chip = preset_chip(facts["machines"][run["machine"]]["chip"])
    scenario = run_scenario(run, facts["machines"][run["machine"]])
    work = ModelWork(graph_name(run, facts["models"], graphs), scenario)
    (unit,) = work.units
    problem = FullPlanner(ChipSolver(chip, scenario), work, unit, memory_of(chip)).problem()
    graph = problem.graphs[0]
    picked = kept_position(run, graph)
    layers = tuple(with_few_points(layer, picked) for layer in graph.layers)
    position = {"none": 0, "selective": 1, "full": -1}[run["recompute"]]
    last = max(len(layer.keep) for layer in layers) - 1
    return problem.with_graphs((replace(graph, layers=layers),)), last if position < 0 else position


def run_scenario(run: Facts, machine: Facts) -> Scenario:
    """Scenario ``full`` with nothing left to choose but the plan."""
    base = load_scenario("default")
    tp, cp, ep = (run.get(name, 1) for name in ("tp", "cp", "ep"))
    return replace(
        base,
        name="published",
        cluster=run_cluster(run["num_devices"], machine["levels"]),
        attention=AttentionKind(run.get("attention", "fused")),
        training=replace(
            base.training,
            global_batch=run["global_batch"],
            microbatches=(run["microbatch"],),
            tp_degrees=(tp,),
            sequence_parallel=(run.get("sp", False),),
            cp_degrees=(cp,),
            ep_degrees=(ep,),
            etp_degrees=(run["etp"],) if "etp" in run else None,
        ),
        plans=PlanOptions(
            sharding=(Sharding(run["sharding"]),),
            reshard=(is_gathering(run),),
            schedule=(schedule_of(run),),
            chunks=(run["chunks"],) if "chunks" in run else (),
            order=(DeviceOrder.PP_OUTER,),
            overlap=run.get("overlap", True),
            family=PlanFamily.ANY,
        ),
    )


def run_cluster(num_devices: int, levels: list[Facts]) -> Cluster:
    """The machine's levels as far as the run reaches; the outermost one joins all devices."""
    inner = [level for level in levels if level.get("num_devices", num_devices) < num_devices]
    outer = next(level for level in levels if level.get("num_devices", num_devices) >= num_devices)
    return Cluster(
        num_devices=num_devices,
        levels=tuple(
            NetworkLevel(
                num_devices=level.get("num_devices", num_devices) if level is not outer else num_devices,
                bytes_per_s=level["bytes_per_s"],
                latency_s=level["latency_s"],
            )
            for level in (*inner, outer)
        ),
    )


def graph_name(run: Facts, models: Facts, graphs: Path) -> str:
    """The zoo's name of the model, or the path of its graph, extracted if it was not before."""
    config = models[run["model"]]
    if config.get("zoo"):
        return str(run["model"])
    from rephaze.workload.extract.config_source import hash_config
    from rephaze.workload.extract.extraction import extract_config

    attention = run.get("attention", "fused")
    path = graphs / f"{run['model']}-{run['seq_len']}-{attention}-{hash_config(config)}.json.gz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        found = extract_config(config, name=run["model"], seq_len=run["seq_len"], attention=attention)
        write_graph(found, path)
    return str(path)


def memory_of(chip: Chip) -> Memory:
    return Memory(chip.hbm_bytes, chip.hbm_bytes_per_s)


def schedule_of(run: Facts) -> PipelineSchedule:
    if "schedule" in run:
        return PipelineSchedule(run["schedule"])
    return PipelineSchedule.INTERLEAVED if is_interleaved(run) else PipelineSchedule.ONE_F_ONE_B


def is_gathering(run: Facts) -> bool:
    """FSDP without a pipeline lets weights go after each use, as its users leave it."""
    return bool(run["sharding"] == "weights" and run["pp"] == 1)


# What blocks keep


def kept_position(run: Facts, graph: FullGraph) -> int:
    """Of the blocks' lists the position whose bytes are nearest to what the run keeps; 0 unless selective."""
    if run["recompute"] != "selective":
        return 0
    # A model may have blocks of two kinds; what the facts count is the more frequent.
    kinds = Counter(layer.keep for layer in graph.layers if layer.is_block)
    keep, _ = kinds.most_common(1)[0]
    per_value = VALUE_BYTES * run["microbatch"] * run["seq_len"] / (run.get("tp", 1) * run.get("cp", 1))
    wanted = run["kept_per_token"] * per_value if "kept_per_token" in run else None
    if wanted is None:
        wanted = keep[0].kept_bytes - run["dropped_per_token"] * per_value
    return min(range(1, len(keep)), key=lambda k: abs(keep[k].kept_bytes - wanted))


def with_few_points(layer: FullLayer, picked: int) -> FullLayer:
    """The layer with the points a run may need: all kept, the one picked, its input alone.

    Frameworks run blocks again, not the embedding or the head: these have but one point.
    """
    if not layer.is_block:
        return replace(layer, keep=layer.keep[:1])
    at = [0, picked, len(layer.keep) - 1] if picked else [0, len(layer.keep) - 1]
    return replace(layer, keep=tuple(layer.keep[k] for k in at))


# Plans


def plan_record(run: Facts, graph: FullGraph, position: int) -> Facts:
    """The run's plan as a plan file has it."""
    sharding = run["sharding"]
    replicas = run["dp"] * run.get("cp", 1)
    return {
        **{name: getattr(graph, name) for name in ("tp", "cp", "ep", "etp", "sp")},
        "dp": run["dp"],
        "microbatch": run["microbatch"],
        "order": "pp-outer",
        "sharding": sharding,
        "shard_group": 1 if sharding == "none" else run.get("shard_group", replicas),
        "reshard": is_gathering(run),
        "schedule": str(schedule_of(run)),
        "chunks": run.get("chunks", 1),
        "stages": [
            {"layers": [graph.layers[v].name for v in layers], "keep": position}
            for layers in stages_of(run, graph)
        ],
    }


def stages_of(run: Facts, graph: FullGraph) -> list[tuple[int, ...]]:
    """Layers of each stage or chunk: blocks dealt evenly, or one fewer at both ends."""
    num_stages = run["pp"] * run.get("chunks", 1)
    # Blocks of every kind count alike.
    kinds = [-1 if layer.is_block else v for v, layer in enumerate(graph.layers)]
    if not run.get("ends_fewer"):
        found = split_evenly(kinds, num_stages)
        assert found is not None
        return list(found)
    blocks = [v for v, kind in enumerate(kinds) if kind < 0]
    size, rest = divmod(len(blocks) + 2, num_stages)
    assert rest == 0, f"{len(blocks)} blocks and two ends do not divide by {num_stages}"
    # With one block a stage the ends have none: the last then begins after the last block.
    starts = [*blocks, blocks[-1] + 1]
    begins = [0, *(starts[i * size - 1] for i in range(1, num_stages))]
    ends = [*begins[1:], len(kinds)]
    return [tuple(range(first, last)) for first, last in zip(begins, ends, strict=True)]


if __name__ == "__main__":
    main()
