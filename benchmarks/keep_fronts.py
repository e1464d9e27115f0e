"""What the blocks of shipped models may keep on one chip: decisions, points of the front, and how long both take.

One row a block (the layer type there is most of) and layout; ``sp`` is sequence parallelism::

    python benchmarks/keep_fronts.py                               # all of the zoo on an H100
    python benchmarks/keep_fronts.py llama3-70b --points           # and every point with what it drops
    python benchmarks/keep_fronts.py llama3-70b --whole            # kernels replayed whole, none from its product

Operators run alone in their fastest mode, and the forward pass takes their sum: no schedule takes longer.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from rephaze.estimate.estimate_model import named_estimate_model
from rephaze.estimate.estimator import Estimator
from rephaze.hardware.energy import access_energy
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.scenarios import load_scenario
from rephaze.measure.keep_points import pareto_points
from rephaze.types.chip import chip_table
from rephaze.types.graph import OpGraph
from rephaze.types.space import AreaModel
from rephaze.units import GIB
from rephaze.workload import ZOO_NAMES, fuse_graph, load_model, shard_graph
from rephaze.workload.passes.keep_sets import keep_sets

LAYOUTS = ((1, False), (4, False), (4, True))
COLUMNS = "{:20} {:>2} {:>2} {:>6} {:>9} {:>10} {:>7} {:>9} {:>9} {:>7} {:>12} {:>10}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=ZOO_NAMES)
    parser.add_argument("--chip", default="h100")
    parser.add_argument("--microbatch", type=int, default=1)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--points", action="store_true")
    options = parser.parse_args()
    chips = chip_table([preset_chip(options.chip)])
    estimator = Estimator(
        chips,
        access_energy(chips, AreaModel.CORRECTED),
        load_scenario("default").cluster,
        named_estimate_model("default"),
    )
    print(COLUMNS.format("model", "tp", "sp", "saved", "decisions", "sets", "points", "none GiB", "block GiB",
                         "replay", "prepare ms", "front us"))  # fmt: skip
    for name in options.models:
        model = load_model(name)
        for tp, sequence_parallel in LAYOUTS:
            if tp in model.legal_tp and not (sequence_parallel and model.seq_len % tp):
                _row(model, tp, sequence_parallel, estimator, float(chips.clock_hz[0]), options)


def _row(model, tp, sequence_parallel, estimator, clock_hz, options) -> None:
    whole = shard_graph(model, tp, sequence_parallel)
    number = max(set(whole.layer_type_of), key=whole.layer_type_of.count)
    layer, unfused = fuse_graph(whole).layer_types[number], whole.layer_types[number]
    prepare_s, sets = _least(lambda: keep_sets(layer, None if options.whole else unfused), 5)
    graph = OpGraph(ops=sets.ops, edges=(), tensors=layer.forward.tensors)
    op_time_s = estimator.modes(graph, options.microbatch).cycles_om.min(axis=1) / clock_hz
    full_s = float(op_time_s[: len(layer.forward.ops)].sum())
    front_s, (kept, replay, choices) = _least(
        lambda: pareto_points(sets, op_time_s, full_s, options.microbatch, max_points=0), 200
    )
    num_sets = math.prod(int(n) for n in np.diff(sets.first_choice_d))
    print(
        COLUMNS.format(
            model.name, tp, "on" if sequence_parallel else "", len(layer.saved), len(sets.first_choice_d) - 1,
            f"{num_sets:,}", len(kept), f"{kept[0] / GIB:.3f}", f"{kept[-1] / GIB:.3f}",
            f"{replay[-1] / full_s:.0%}", f"{prepare_s * 1e3:.1f}", f"{front_s * 1e6:.0f}",
        )
    )  # fmt: skip
    for bytes_, seconds, choice in zip(kept, replay, choices, strict=True) if options.points else ():
        ops = " ".join(sets.ops[n].name for n in sets.replayed_ops(choice))
        print(f"    {bytes_ / GIB:8.3f} GiB  {seconds / full_s:6.1%} of forward   {ops}")


def _least(run, times):
    """The least time of some runs, and what came back."""
    least_s, found = math.inf, None
    for _ in range(times):
        began = time.perf_counter()
        found = run()
        least_s = min(least_s, time.perf_counter() - began)
    return least_s, found


if __name__ == "__main__":
    main()
