"""Published runs as text: plan files, and the page that says how far their prices are from what was measured."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any

from rephaze.api.full_plans import FullAnswer
from rephaze.api.plans import evaluate_plans
from rephaze.types.full import FullLayer, FullProblem
from rephaze.units import GIB

Facts = dict[str, Any]
Pair = tuple[str, str]
SIGNIFICANT_DIGITS = 6
"""Of times in files: far below what a measurement repeats to."""
PAGE = """# Published training runs as plans

{num_runs} runs that others measured, each as a plan file that `rephaze evaluate` prices. Written by `python
benchmarks/published_plans.py` from `benchmarks/data/published_runs.toml`; do not edit.

Error: predicted over measured, less one. No constant was fitted to these or any other runs: chips work at the
rates of their data sheets, networks at theirs, operators overlap inside a layer as well as can be scheduled. So
prices are of perfect software, and most are too low. Mean absolute error: {mean}.

| run | source | devices, machine | plan | measured s | predicted s | error % | GiB of a device |
|---|---|---|---|---|---|---|---|
{rows}

| kind of plan | runs | mean error % | mean absolute error % |
|---|---|---|---|
{kinds}

Of {num_pairs} pairs of plans of one model, batch and machine the prices order {num_right}
as the measurements do. The others:

{wrong}

## What was assumed

{assumed}

Blocks are dealt evenly to stages, or one fewer at both ends where a source says so or only that divides. `keep`
is 0 without recompute and the last position where blocks keep their input alone: then all is run again but what
the backward pass does not read. Selective recompute is the position whose bytes are nearest to what the run
keeps; which operators are run again within these bytes is rephaze's choice, the quickest. Embedding and head
are never run again. Sums of gradients and gathers of weights overlap with compute, except where a source says
they did not. Routing is balanced.

Memory: state in mixed precision (18 bytes a parameter with 32-bit gradients) and everything autograd of the
Hugging Face model keeps; fused kernels that keep less are not modelled, so some runs that did fit are said to
need too much.

{notes}

## Sources

{sources}
"""


# Plan files


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
    may_be_left_out = ("expert_param_bytes", "working_bytes", "block")
    return {
        key: value for key, value in record.items() if value or (value is not None and key not in may_be_left_out)
    }


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.{SIGNIFICANT_DIGITS}g}")


def _inside(record: Facts) -> str:
    return json.dumps(record)[1:-1]


def _lines(items: list[Facts]) -> str:
    return "[\n" + ",\n".join(json.dumps(item) for item in items) + "]" if items else "[]"


# The page


def priced(runs: Facts, folder: Path) -> dict[str, FullAnswer]:
    """What ``rephaze evaluate`` says of every run that has a file."""
    names = [name for name in runs if (folder / f"{name}.json").exists()]
    found: dict[str, FullAnswer] = {}
    for name, (_, answer) in zip(names, evaluate_plans([folder / f"{name}.json" for name in names]), strict=True):
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
        parts.append(f"interleaved x{run['chunks']}" if is_interleaved(run) else run.get("schedule", "1f1b"))
    if run["sharding"] != "none":
        group = f" over {run['shard_group']}" if "shard_group" in run else ""
        parts.append({"weights": "FSDP", "optimizer": "ZeRO 1"}[run["sharding"]] + group)
    parts.append({"none": "no recompute", "full": "full recompute"}.get(run["recompute"], "selective recompute"))
    return ", ".join(parts)


def is_interleaved(run: Facts) -> bool:
    return "chunks" in run


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
    sources = [
        f"- {source}: {url}" for source, url in sorted({(r["source"], r["url"]) for r in facts["runs"].values()})
    ]
    right, wrong = ordered_pairs(facts["runs"], answers)
    return PAGE.format(
        num_pairs=len(right) + len(wrong),
        num_right=len(right),
        wrong="\n".join(f"- `{faster}` was faster than `{slower}`." for faster, slower in wrong) or "- none.",
        num_runs=len(errors),
        mean=f"{100 * _mean_size(list(errors.values())):.1f} %",
        rows="\n".join(rows),
        kinds="\n".join(by_kind),
        assumed="\n".join(assumed),
        notes="\n".join(notes),
        sources="\n".join(sources),
    )


def ordered_pairs(runs: Facts, answers: dict[str, FullAnswer]) -> tuple[list[Pair], list[Pair]]:
    """Pairs of runs that differ in the plan alone, the one measured faster first: priced in that order, or not."""
    right: list[Pair] = []
    wrong: list[Pair] = []
    same = ("model", "machine", "num_devices", "seq_len", "global_batch")
    for pair in combinations(answers, 2):
        if any(runs[pair[0]][key] != runs[pair[1]][key] for key in same):
            continue
        faster, slower = sorted(pair, key=lambda name: float(runs[name]["measured_s"]))
        is_right = answers[faster].bound_s < answers[slower].bound_s
        (right if is_right else wrong).append((faster, slower))
    return right, wrong


def _mean_size(errors: list[float]) -> float:
    return statistics.fmean(map(abs, errors))
