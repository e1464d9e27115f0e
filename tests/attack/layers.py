"""A layer on a chip, and on the same chip with one thing doubled: its proven time must not grow."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from rephaze.hardware.scenarios import load_scenario
from rephaze.hardware.template import build_chips
from rephaze.types.chip import Chip
from rephaze.workload.passes.fuse import fuse_graph
from rephaze.workload.passes.tensor_parallel import shard_graph
from rephaze.workload.zoo import load_model
from tests.attack.cases import AXES
from tests.attack.findings import Tally
from tests.attack.slow import schedule_op_graph

LAYER_WORK = 30_000
"""For one schedule: what is not proven by then tells less, and takes most of the time."""
RESOURCES = (
    "num_tensor_cores",
    "tensor_width",
    "tensor_depth",
    "num_vector_cores",
    "vector_lanes",
    "tensor_scratchpad_bytes",
    "vector_scratchpad_bytes",
    "global_buffer_bytes",
    "hbm_bytes_per_s",
    "scratchpad_bytes_per_cycle",
    "global_buffer_bytes_per_cycle",
    "global_buffer_multicast",
)


def attack_layer(model: str, resources: tuple[str, ...], seed: int, tally: Tally) -> None:
    """One layer of the model in ``coarse`` on a chip of this seed, and with each resource doubled."""
    rng = random.Random(seed)
    scenario = load_scenario("coarse")
    whole = load_model(model, scenario.attention)
    tp = rng.choice([tp for tp in (1, 2, 4, 8) if tp in whole.legal_tp])
    graph = fuse_graph(shard_graph(whole, tp))
    # The blocks, not only the ends of the model.
    kind = graph.layer_types[rng.choice(graph.layer_type_of)]
    direction = rng.choice(("forward", "backward"))
    ops, microbatch = getattr(kind, direction), rng.choice((1, 2, 4))
    chip = _random_chip(rng)
    _, before = schedule_op_graph(ops, microbatch, chip, scenario, work_limit=LAYER_WORK)
    for resource in resources:
        doubled = replace(chip, **{resource: 2 * getattr(chip, resource)})
        _, after = schedule_op_graph(ops, microbatch, doubled, scenario, work_limit=LAYER_WORK)
        tally.num_moves += 1
        if after.bound_cycles > before.makespan_cycles:
            where = f"{model} {kind.name} {direction}, tp {tp}, microbatch {microbatch}"
            ratio = after.bound_cycles / before.makespan_cycles - 1
            text = f"{before.makespan_cycles} cycles become at least {after.bound_cycles} (+{ratio:.2%})"
            tally.add("layer", resource, f"{where}: {text}", f"seed {seed}, {chip}")


def _random_chip(rng: random.Random) -> Chip:
    """A chip of the default template with rates that bind."""
    chosen = {name: rng.choice(values) for name, values in AXES["coarse"].items()}
    chosen["global_buffer_bytes"] = chosen.pop("global_buffer_mib") * 2**20
    columns = {name: np.array([value], dtype=np.int64) for name, value in chosen.items()}
    chip = build_chips(template=load_scenario("coarse").space.template, **columns).chip(0)
    return replace(
        chip,
        hbm_bytes_per_s=chip.hbm_bytes_per_s * rng.choice((0.5, 1.0)),
        global_buffer_bytes_per_cycle=chip.global_buffer_bytes_per_cycle * rng.choice((0.25, 1.0)),
        tensor_scratchpad_bytes=max(2, chip.tensor_scratchpad_bytes // rng.choice((1, 4))),
    )
