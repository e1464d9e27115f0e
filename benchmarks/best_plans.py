"""The best plan of zoo models on clusters of known chips under scenario ``full``, as a Markdown table.

    python benchmarks/best_plans.py --chips tpuv4 h100 --devices 1024 > table.md

Utilisation is model FLOPs (full attention squares, no replay) a second over the peak of all devices, in per cent.
"""

import argparse
import time

import rephaze
from rephaze.units import GIB

CAUSES = ("compute", "replay", "messages", "gathers", "bubble", "sync", "tied", "step", "regather")
HEADINGS = (
    "model", "chip", "plan", "samples/s", "use %", "where the time goes, %", "GiB of a device", "proven", "took s",
)  # fmt: skip


def plan_words(plan):
    parts = [f"{name} {value}" for name, value in (("tp", plan.tp), ("cp", plan.cp), ("ep", plan.ep)) if value > 1]
    parts += [f"pp {plan.pp}", f"dp {plan.dp}", f"microbatch {plan.microbatch}"]
    if plan.shard_group > 1:
        parts.append(f"{plan.sharding} over {plan.shard_group}{', resharded' if plan.reshard else ''}")
    if plan.pp > 1:
        parts.append(str(plan.schedule) + (f" x{plan.chunks}" if plan.chunks > 1 else ""))
    keeps = {stage.keep for stage in plan.stages}
    if keeps != {0}:
        parts.append(f"keep {min(keeps)}" if len(keeps) == 1 else f"keep {min(keeps)} to {max(keeps)}")
    return ", ".join(parts)


def row(model, chip, num_devices, family):
    began = time.perf_counter()
    found = rephaze.place_model(model, chip, num_devices=num_devices, scenario="full", family=family)
    took_s = time.perf_counter() - began
    if found.price is None:
        return (model, chip, f"{found.status}: {found.reason}", *([""] * 5), f"{took_s:.0f}")
    price, graph = found.price, rephaze.load_model(model)
    flops = sum(
        op.num_flops.at(1)
        for kind in graph.layer_type_of
        for one in (graph.layer_types[kind].forward, graph.layer_types[kind].backward)
        for op in one.ops
    )
    samples_per_s = found.problem.global_batch / price.batch_s
    chosen = rephaze.load_chip(chip)
    peak = 2 * chosen.num_macs * chosen.clock_hz * num_devices
    parts = {name: getattr(found.causes, f"{name}_s") / price.batch_s for name in CAUSES}
    spent = ", ".join(f"{name} {100 * part:.1f}" for name, part in parts.items() if part >= 0.0005)
    fullest = max(device.total_bytes for device in price.devices)
    return (
        model,
        chip,
        plan_words(price.plan),
        f"{samples_per_s:,.1f}",
        f"{100 * samples_per_s * flops / peak:.1f}",
        spent,
        f"{fullest / GIB:.1f} of {price.device_memory_bytes / GIB:.0f}",
        "yes" if found.status == "optimal" else f"within {price.batch_s / found.bound_s - 1:.2%}",
        f"{took_s:.0f}",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chips", nargs="+", default=["tpuv4", "h100"])
    parser.add_argument("--models", nargs="+", default=list(rephaze.list_models()))
    parser.add_argument("--devices", type=int, default=1024)
    parser.add_argument("--family", default="exact")
    asked = parser.parse_args()
    print("|" + "|".join(HEADINGS) + "|\n|" + "---|" * len(HEADINGS))
    for chip in asked.chips:
        for model in asked.models:
            print("|" + "|".join(row(model, chip, asked.devices, asked.family)) + "|", flush=True)


if __name__ == "__main__":
    main()
