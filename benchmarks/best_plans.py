"""The best plan of zoo models on clusters of known chips under scenario ``default``, as a page of tables.

Every cell (a model on a chip) is what ``rephaze place MODEL --chip CHIP`` finds, taken apart;
beside them stands what others measured (``benchmarks/data/published_best.toml``). Cells are kept in a file as they
are found, and not computed again::

    python benchmarks/best_plans.py                                   # all cells that are missing, then the page
    python benchmarks/best_plans.py --models llama3-8b --chips h100   # this one if it is missing, then the page
    python benchmarks/best_plans.py --anew                            # all, whether they are kept or not
    python benchmarks/best_plans.py --page                            # the page alone

A cell takes seconds, of a mixture of experts up to minutes, the first one more while the solver compiles.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import tomllib
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import rephaze
from best_plans_shares import Cell, at_peak_s, is_divided_early, total_bytes
from best_plans_text import page
from rephaze.api.full_plans import FullAnswer
from rephaze.hardware.presets import find_preset
from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.full_on_chip import limited_scenario
from rephaze.measure.model_work import ModelWork
from rephaze.measure.pass_times import BACKWARD, FORWARD
from rephaze.types.chip import Chip
from rephaze.types.full import FullGraph, FullLimits, FullPlan, FullPrice, Sharding
from rephaze.types.graph import AttentionDims, ModelGraph, Op, OpKind
from rephaze.types.scenario import Scenario

ROOT = Path(__file__).parents[1]
PUBLISHED = Path(__file__).parent / "data" / "published_best.toml"
CELLS = Path(__file__).parent / "data" / "best_plans.jsonl"
PAGE = ROOT / "docs" / "best-plans.md"
CHIPS = ("tpuv4", "tpuv5p", "h100")
VARIANTS = ("scenario", "whole-gradients", "own-links")
"""As it is; without plans that sum gradients once a batch and yet never hold them all; with the chip's links."""
TIME_LIMIT_S = 180.0
"""After it a cell has the best plan so far, and how much faster one might be."""
WORK_OF_KIND = {
    OpKind.GEMM: "products",
    OpKind.ATTENTION: "attention",
    OpKind.VECTOR: "vector",
    OpKind.GATHER: "vector",
    OpKind.COLLECTIVE: "collectives",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chips", nargs="+", metavar="CHIP", help=f"default: {' '.join(CHIPS)}")
    parser.add_argument("--models", nargs="+", metavar="MODEL", help="default: the zoo")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS, help="default: all")
    parser.add_argument("--cells", type=Path, default=CELLS, help=f"where cells are kept (default {CELLS})")
    parser.add_argument("--to", type=Path, default=PAGE, help=f"the page (default {PAGE})")
    parser.add_argument("--anew", action="store_true", help="compute also what is kept")
    parser.add_argument("--time-limit-s", type=float, default=TIME_LIMIT_S, help=f"of a cell ({TIME_LIMIT_S:.0f})")
    parser.add_argument("--page", action="store_true", help="compute nothing")
    asked = parser.parse_args()
    cells = read_cells(asked.cells)
    for variant in () if asked.page else asked.variants:
        for chip, model in product(asked.chips or CHIPS, asked.models or rephaze.list_models()):
            key = (model, chip, variant)
            is_kept = key in cells and not asked.anew
            if is_kept or not is_asked(variant, cells.get((model, chip, "scenario")), chip):
                continue
            cells[key] = found = cell_of(*key, asked.time_limit_s)
            append_cell(asked.cells, found)
            print(f"{model}, {chip}, {variant}: {found.get('batch_s', math.nan):.4g} s a batch;", end=" ")
            print(f"took {found['took_s']:.0f} s", flush=True)
    in_order = [cells[key] for key in sorted(cells, key=place_on_page)]
    runs = tomllib.loads(PUBLISHED.read_text())["runs"]
    asked.to.write_text(page(in_order, runs, rephaze.list_models()))


def read_cells(path: Path) -> dict[tuple[str, str, str], Cell]:
    """Kept cells by model, chip and variant; of two the later."""
    if not path.exists():
        return {}
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return {(cell["model"], cell["chip"], cell["variant"]): cell for cell in found}


def place_on_page(key: tuple[str, str, str]) -> tuple[int, int]:
    """Chips as listed, then models as the zoo has them; further chips last."""
    model, chip, _ = key
    return CHIPS.index(chip) if chip in CHIPS else len(CHIPS), list(rephaze.list_models()).index(model)


def append_cell(path: Path, cell: Cell) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as out:
        out.write(json.dumps(cell) + "\n")


# A cell


def cell_of(model: str, chip_name: str, variant: str, time_limit_s: float) -> Cell:
    """The best plan of a model on a chip as plain data: plan, causes, memory, what its busiest device does."""
    began = time.perf_counter()
    chip, scenario = rephaze.load_chip(chip_name), scenario_of(variant, chip_name)
    found = rephaze.place_model(model, chip, scenario=scenario, time_limit_s=time_limit_s)
    assert isinstance(found, FullAnswer)
    graph = rephaze.load_model(model)
    cell: Cell = {
        "model": model,
        "chip": chip_name,
        "variant": variant,
        "status": found.status,
        "reason": found.reason,
        "num_devices": scenario.cluster.num_devices,
        "global_batch": scenario.training.global_batch,
        "seq_len": graph.seq_len,
        "sample_flops": sample_flops(graph),
        "peak_flops_per_s": chip.peak_flops_per_s,
    }
    if found.price is not None and found.graph is not None and found.causes is not None:
        fullest = max(found.price.devices, key=lambda device: device.total_bytes)
        cell |= {
            "batch_s": found.price.batch_s,
            "bound_s": found.bound_s,
            "replay_s": None if found.replay is None else found.replay.batch_s,
            "plan": plan_record(found.graph, found.price.plan),
            "causes": asdict(found.causes),
            "memory": asdict(fullest) | {"device_bytes": found.price.device_memory_bytes},
            "busiest": busiest_device(model, chip, scenario, found.price),
        }
        check_sane(cell)
    return cell | {"took_s": time.perf_counter() - began}


def check_sane(cell: Cell) -> None:
    """A plan that does not fit its cluster is a mistake of ours."""
    plan, memory = cell["plan"], cell["memory"]
    used = plan["tp"] * plan["cp"] * plan["pp"] * plan["dp"]
    assert used == plan["num_devices"] <= cell["num_devices"], (used, plan)
    assert total_bytes(memory) <= memory["device_bytes"], memory
    assert plan["dp"] * plan["microbatch"] <= cell["global_batch"], plan
    assert cell["bound_s"] <= cell["batch_s"] * (1 + 1e-9), (cell["bound_s"], cell["batch_s"])
    assert cell["batch_s"] >= at_peak_s(cell), "faster than peak"


def plan_record(graph: FullGraph, plan: FullPlan) -> Cell:
    """A plan without the names of its layers; of what is kept, the part of all activations, and the replay."""
    names = ("tp", "sp", "cp", "ep", "etp", "dp", "pp", "microbatch", "order", "sharding", "shard_group")
    record = {name: getattr(plan, name) for name in (*names, "reshard", "schedule", "chunks", "num_devices")}
    kept = full = replay_s = forward_s = 0.0
    for stage in plan.stages:
        for layer in (graph.layers[v] for v in stage.layers):
            point = layer.keep[min(stage.keep, len(layer.keep) - 1)]
            kept, full = kept + point.kept_bytes, full + layer.keep[0].kept_bytes
            replay_s, forward_s = replay_s + point.replay_s, forward_s + layer.forward_s
    return record | {
        "stage_layers": [len(stage.layers) for stage in plan.stages],
        "kept_share": kept / full if full else 1.0,
        "replay_share": replay_s / forward_s if forward_s else 0.0,
    }


def is_asked(variant: str, cell: Cell | None, chip: str) -> bool:
    """Whether a variant may differ from the scenario."""
    if variant == "own-links":
        return link_bytes_per_s(chip) != rephaze.load_scenario("default").cluster.levels[0].bytes_per_s
    if variant == "whole-gradients":
        return cell is not None and "plan" in cell and is_divided_early(cell)
    return True


def scenario_of(variant: str, chip: str) -> Scenario:
    """Scenario ``default``, or what differs from it."""
    scenario = rephaze.load_scenario("default")
    if variant == "own-links":
        inner, *outer = scenario.cluster.levels
        levels = (replace(inner, bytes_per_s=link_bytes_per_s(chip)), *outer)
        return replace(scenario, cluster=replace(scenario.cluster, levels=levels))
    if variant == "whole-gradients":
        sharding = tuple(one for one in scenario.plans.sharding if one is not Sharding.GRADIENTS)
        return replace(scenario, plans=replace(scenario.plans, sharding=sharding, reshard=(True,)))
    return scenario


def link_bytes_per_s(chip: str) -> float:
    return float(find_preset(chip).values["link_bytes_per_s"].value)


# Work


def sample_flops(graph: ModelGraph) -> float:
    """Model FLOPs of a sample, both passes: products, and of attention the pairs the mask lets through.

    The backward pass of attention counts twice the forward: that fused kernels compute scores again is no model's
    work. Nor are vector operators.
    """
    kinds = (graph.layer_types[kind] for kind in graph.layer_type_of)
    return sum(model_flops(op, 1) for kind in kinds for one in (kind.forward, kind.backward) for op in one.ops)


def model_flops(op: Op, microbatch: int) -> float:
    if op.attention is None:
        return float(op.num_flops.at(microbatch))
    dims = op.attention
    scores = dims.batch.at(microbatch) * dims.num_heads * visible_pairs(dims)
    forward = 2.0 * scores * (dims.head_dim + dims.value_dim)
    return 2.0 * forward if dims.backward else forward


def visible_pairs(dims: AttentionDims) -> float:
    """Pairs of a query and a key it sees, for one head; of a ring its part."""
    queries, keys = dims.query_len, dims.key_len
    pairs = float(queries * keys)
    if dims.causal:
        window = min(dims.window_len or keys, keys)
        # A query sees those before it up to the window; cut sequences are dealt out, so that chips do equal parts.
        pairs = queries * (window - window * (window - 1) / (2 * keys))
    return pairs * dims.num_ring_steps / dims.num_ring_members


def busiest_device(model: str, chip: Chip, scenario: Scenario, price: FullPrice) -> Cell:
    """Of the device with the longest passes, over a batch: its FLOPs, and seconds of its operators by kind.

    Every operator counts as long as it takes alone on all cores. What a layer's schedule runs side by side makes
    the sum longer than the passes are.
    """
    plan = price.plan
    limits = FullLimits(
        tp=plan.tp, sp=plan.sp, cp=plan.cp, ep=plan.ep, etp=plan.etp if plan.ep > 1 else None,
        microbatch=plan.microbatch,
    )  # fmt: skip
    work = ModelWork(model, limited_scenario(scenario, limits))
    cut = next(cut for cut in work.cuts if work.graph(cut).etp == plan.etp)
    solver = ChipSolver(chip, scenario)
    loads_s = [sum(price.stage_load_s[device :: plan.pp]) for device in range(plan.pp)]
    device = loads_s.index(max(loads_s))
    layers = [v for stage in plan.stages[device :: plan.pp] for v in stage.layers]
    num_microbatches = math.ceil(scenario.training.global_batch / plan.microbatch / plan.dp)
    names = tuple(dict.fromkeys(WORK_OF_KIND.values()))
    found = {f"{name}_{what}": 0.0 for name in names for what in ("s", "flops")}
    for kind in {work.layer_type_of[v] for v in layers}:
        times = num_microbatches * sum(work.layer_type_of[v] == kind for v in layers)
        form = solver.fastest_form(work, cut, plan.microbatch, kind).form
        passes = (work.first_form(cut) if form == 0 else work.forms(cut)[form]).passes[kind]
        for direction in (FORWARD, BACKWARD):
            table = solver.pass_table(work, cut, plan.microbatch, kind, direction, form)
            cycles_o = table.cycles_om.min(axis=1).tolist()
            for op, cycles in zip(passes[direction].graph.ops, cycles_o, strict=True):
                if name := WORK_OF_KIND.get(op.kind):
                    found[f"{name}_s"] += times * cycles / chip.clock_hz
                    found[f"{name}_flops"] += times * model_flops(op, plan.microbatch)
    return found


if __name__ == "__main__":
    main()
