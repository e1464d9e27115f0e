"""Published training runs as plan files, priced, and how far the prices are from what was measured.

``benchmarks/data/published_runs.toml`` has the facts. For each run this script takes the model's graph (of the zoo,
or extracted from its config, which needs torch), cuts it as the run did, schedules its layers on the run's chip, and
writes the run's plan to ``examples/published/NAME.json``. Then ``examples/published/README.md`` is made anew from all
files there: what ``rephaze evaluate`` says of each, beside the measured seconds. Nothing is fitted::

    python benchmarks/published_plans.py                        # all of them: some minutes once graphs are extracted
    python benchmarks/published_plans.py --only llama3-8b-h100x8-cp2 gpt-1.5b-a100x8-pp8
    python benchmarks/published_plans.py --index                # the table alone, from the files as they are
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import tomllib
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from rephaze.api.full_plans import FullAnswer
from rephaze.api.plans import evaluate_plans
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.scenarios import load_scenario
from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.even_stages import split_evenly
from rephaze.measure.full_planner import FullPlanner
from rephaze.measure.model_work import Memory, ModelWork
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
from rephaze.units import GIB
from rephaze.workload.graph_file import write_graph

ROOT = Path(__file__).parents[1]
FACTS = Path(__file__).parent / "data" / "published_runs.toml"
PLANS = ROOT / "examples" / "published"
GRAPHS = ROOT / "build" / "published_graphs"
SIGNIFICANT_DIGITS = 6
"""Of times in files: far below what a measurement repeats to."""
VALUE_BYTES = 2
"""Of an activation."""

Facts = dict[str, Any]


def main() -> None:
    facts = tomllib.loads(FACTS.read_text())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(facts["runs"]), metavar="NAME", choices=facts["runs"])
    parser.add_argument("--index", action="store_true", help="write no plan files, only the table of those there are")
    parser.add_argument("--graphs", type=Path, default=GRAPHS, help=f"where extracted graphs lie (default {GRAPHS})")
    asked = parser.parse_args()
    PLANS.mkdir(parents=True, exist_ok=True)
    for name in [] if asked.index else asked.only:
        began = time.perf_counter()
        run = facts["runs"][name]
        problem, positions = timed_problem(run, facts, asked.graphs)
        (PLANS / f"{name}.json").write_text(plan_text(problem, plan_record(run, problem.graphs[0], positions)))
        print(f"{name}: written in {time.perf_counter() - began:.0f} s", flush=True)
    answers = priced(facts["runs"])
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
    base = load_scenario("full")
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
    return PipelineSchedule.INTERLEAVED if "chunks" in run else PipelineSchedule.ONE_F_ONE_B


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


# Plans and files


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
            {"layers": [graph.layers[v].name for v in layers], "keep": position} for layers in stages_of(run, graph)
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


def plan_text(problem: FullProblem, plan: Facts) -> str:
    """A plan file, one layer, edge or stage a line."""
    cluster, options, graph = problem.cluster, problem.options, problem.graphs[0]
    names = [layer.name for layer in graph.layers]
    head = {
        "format": "rephaze.placement-problem/2",
        "cost_model": "full",
        "cluster": {
            "num_devices": cluster.num_devices,
            "device_memory_bytes": problem.device_memory_bytes,
            "hbm_bytes_per_s": problem.hbm_bytes_per_s,
            "levels": [{key: getattr(level, key) for key in level.__slots__} for level in cluster.levels],
        },
        "training": {
            "global_batch": problem.global_batch,
            "optimizer": str(problem.optimizer),
            "precision": problem.precision.name,
        },
        "options": {
            "sharding": [str(one) for one in options.sharding],
            "reshard": list(options.reshard),
            "schedule": [str(one) for one in options.schedule],
            "chunks": list(options.chunks),
            "order": [str(one) for one in options.order],
            "overlap": options.overlap,
        },
    }
    cut = {key: getattr(graph, key) for key in ("tp", "cp", "ep", "etp", "sp", "microbatch")}
    lists = {
        "layers": [layer_record(layer) for layer in graph.layers],
        "edges": [{"src": names[e.src], "dst": names[e.dst], "bytes": e.payload_bytes} for e in graph.links],
        "tied": [{"layers": [names[v] for v in t.layers], "param_bytes": t.param_bytes} for t in graph.tied],
    }
    one_graph = _inside(cut) + "".join(f', "{key}": {_lines(items)}' for key, items in lists.items())
    stages = _lines(plan["stages"])
    rest = _inside({key: value for key, value in plan.items() if key != "stages"})
    return (
        f'{{"format": "rephaze.placement-plan/2",\n"problem": {{{_inside(head)},\n"graphs": [{{{one_graph}}}]}},\n'
        f'"plan": {{{rest}, "stages": {stages}}}}}\n'
    )


def layer_record(layer: FullLayer) -> Facts:
    record = {
        "name": layer.name,
        "param_bytes": layer.param_bytes,
        "expert_param_bytes": layer.expert_param_bytes,
        "forward_s": _rounded(layer.forward_s),
        "backward_s": _rounded(layer.backward_s),
        "weight_backward_s": None if layer.weight_backward_s is None else _rounded(layer.weight_backward_s),
        "keep": [{"bytes": point.kept_bytes, "replay_s": _rounded(point.replay_s)} for point in layer.keep],
        "working_bytes": layer.working_bytes,
        "block": layer.is_block,
    }
    return {key: value for key, value in record.items() if value not in (None, 0.0, False) or key in _NEEDED}


_NEEDED = ("param_bytes", "forward_s", "backward_s", "weight_backward_s")


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.{SIGNIFICANT_DIGITS}g}")


def _inside(record: Facts) -> str:
    return json.dumps(record)[1:-1]


def _lines(items: list[Facts]) -> str:
    return "[\n" + ",\n".join(json.dumps(item) for item in items) + "]" if items else "[]"


# The table


def priced(runs: Facts) -> dict[str, FullAnswer]:
    """What ``rephaze evaluate`` says of every run that has a file."""
    names = [name for name in runs if (PLANS / f"{name}.json").exists()]
    found: dict[str, FullAnswer] = {}
    for name, (_, answer) in zip(names, evaluate_plans([PLANS / f"{name}.json" for name in names]), strict=True):
        assert isinstance(answer, FullAnswer), f"{name}: {answer}"
        found[name] = answer
    return found


def error_of(run: Facts, answer: FullAnswer) -> float:
    assert answer.price is not None
    return float(answer.price.batch_s / run["measured_s"] - 1)


def plan_words(run: Facts) -> str:
    """The plan in a line."""
    parts = [f"{key} {run[key]}" for key in ("tp", "cp", "ep", "pp", "dp") if run.get(key, 1) > 1]
    if run.get("sp"):
        parts.insert(1, "sp")
    parts.append(f"microbatch {run['microbatch']}")
    if run["pp"] > 1:
        parts.append(str(schedule_of(run)) + (f" x{run['chunks']}" if "chunks" in run else ""))
    if run["sharding"] != "none":
        group = f" over {run['shard_group']}" if "shard_group" in run else ""
        parts.append({"weights": "FSDP", "optimizer": "ZeRO 1"}[run["sharding"]] + group)
    parts.append({"none": "no recompute", "full": "full recompute"}.get(run["recompute"], "selective recompute"))
    return ", ".join(parts)


def index_page(facts: Facts, answers: dict[str, FullAnswer]) -> str:
    """The page that lists every run with its error, the kinds of plans, what was assumed."""
    rows, errors, kinds = [], {}, defaultdict(list)
    for name, answer in answers.items():
        run, price = facts["runs"][name], answer.price
        assert price is not None
        errors[name] = error_of(run, answer)
        kinds[run["kind"]].append(errors[name])
        fullest = max(device.total_bytes for device in price.devices) / GIB
        cells = (
            f"[{name}]({name}.json)", run["source"], f"{run['num_devices']} {run['machine']}", plan_words(run),
            f"{run['measured_s']:.4g}", f"{price.batch_s:.4g}", f"{100 * errors[name]:+.1f}",
            f"{fullest:.0f}{'' if price.fits else ' (too much)'}",
        )  # fmt: skip
        rows.append("| " + " | ".join(cells) + " |")
    by_kind = [
        f"| {kind} | {len(found)} | {100 * statistics.fmean(found):+.1f} | {100 * _mean_size(found):.1f} |"
        for kind, found in sorted(kinds.items())
    ]
    assumed = [f"- `{name}`: chip `{one['chip']}`; {one['assumed']}." for name, one in facts["machines"].items()]
    notes = [
        f"- `{name}`: {'; '.join(run[key] for key in ('recompute_note', 'note') if key in run)}."
        for name, run in facts["runs"].items()
        if name in answers and ("recompute_note" in run or "note" in run)
    ]
    sources = [f"- {source}: {url}" for source, url in sorted({(r["source"], r["url"]) for r in facts["runs"].values()})]
    mean = f"{100 * _mean_size(list(errors.values())):.1f} %"
    return "\n".join(
        [
            "# Published training runs as plans",
            "",
            f"{len(errors)} runs others measured, each as a plan file that `rephaze evaluate` prices. Written by",
            "`python benchmarks/published_plans.py` from `benchmarks/data/published_runs.toml`; do not edit.",
            "",
            "Error: predicted over measured, less one. No constant was fitted to these or any other runs: chips work at the",
            "rates of their data sheets, networks at theirs, layers are scheduled as well as can be proven. So prices are of",
            f"perfect software, and most are too low. Mean absolute error: {mean}.",
            "",
            "| run | source | devices, machine | plan | measured s | predicted s | error % | GiB of a device |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            "| kind of plan | runs | mean error % | mean absolute error % |",
            "|---|---|---|---|",
            *by_kind,
            "",
            "## What was assumed",
            "",
            *assumed,
            "",
            "Blocks are dealt evenly to stages, or one fewer at both ends where a source says so. `keep` is 0 without recompute",
            "and the last position where blocks keep their input alone; selective recompute is the position whose bytes are nearest",
            "to what the run keeps, with operators of rephaze's choice to replay within these bytes. Embedding and head are never",
            "run again. Overlap of gradients and weights with compute is on, except where a source says it was off.",
            "",
            *notes,
            "",
            "## Sources",
            "",
            *sources,
            "",
        ]
    )


def _mean_size(errors: list[float]) -> float:
    return statistics.fmean(map(abs, errors))


if __name__ == "__main__":
    main()
