"""Compile (or load from numba's cache) what searches call of this cost model, before any clock is started."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rephaze.place.full.chip_bounds import FullChipBounds, LeastReplays
from rephaze.place.full.pass_clock import Times, run_passes
from rephaze.place.full.solver import FullPlacer
from rephaze.place.full.times import recorded_times
from rephaze.place.precision import named_precision
from rephaze.types.cluster import Cluster, NetworkLevel
from rephaze.types.full import (
    DeviceOrder,
    FullGraph,
    FullLayer,
    FullProblem,
    KeepPoint,
    PipelineSchedule,
    PlanFamily,
    PlanOptions,
    ShardGroups,
    Sharding,
)
from rephaze.types.placement import LayerLink, Optimizer

NUM_LAYERS = 4


def compile_kernels() -> None:
    """Make later solves run at full speed: most of a minute once on a machine, then about a second."""
    problem = _small_problem()
    times = [recorded_times(problem.graphs[0])]
    placer = FullPlacer(problem)
    best = placer.solve().best
    assert best is not None
    placer.bound_s(2 * best.batch_s, times)
    placer.is_there(2 * best.batch_s, times)
    kinds = [0] * NUM_LAYERS
    kept_bytes_tk = np.array([[2.0, 1.0]])
    forward_s_ct, backward_s_ct = np.ones((1, 1)), np.full((1, 1), 2.0)
    replays = LeastReplays(of_type=0, ratio_tk=np.array([[0.0, 0.1]]))
    FullChipBounds(problem, kinds, kept_bytes_tk).batch_s(forward_s_ct, backward_s_ct, backward_s_ct / 2, replays)


def compile_interleaving() -> None:
    """What chunks of stages need on top of ``compile_kernels``: some twenty seconds once on a machine."""
    problem = _small_problem()
    options = replace(problem.options, schedule=(PipelineSchedule.INTERLEAVED,), chunks=(2,))
    FullPlacer(replace(problem, options=options)).solve()
    # A page of the answer shows when passes run: one forward, then one backward.
    one_s_ck = np.ones((1, 2))
    run_passes(np.array([[0, 1]]), Times(one_s_ck, one_s_ck, np.ones(1)), 1, 1)


def _small_problem() -> FullProblem:
    """A line of equal layers with every option on but interleaving."""
    layers = tuple(
        FullLayer(
            name=f"layer{k}",
            param_bytes=4.0,
            expert_param_bytes=0.0,
            forward_s=1.0,
            backward_s=2.0,
            weight_backward_s=1.0,
            keep=(KeepPoint(kept_bytes=2.0, replay_s=0.0), KeepPoint(kept_bytes=1.0, replay_s=0.5)),
            is_block=True,
        )
        for k in range(NUM_LAYERS)
    )
    links = tuple(LayerLink(src=k, dst=k + 1, payload_bytes=1.0) for k in range(NUM_LAYERS - 1))
    graph = FullGraph(tp=1, cp=1, ep=1, etp=1, sp=False, microbatch=1, layers=layers, links=links)
    levels = (
        NetworkLevel(num_devices=2, bytes_per_s=100.0, latency_s=0.01),
        NetworkLevel(num_devices=4, bytes_per_s=10.0, latency_s=0.02),
    )
    return FullProblem(
        cluster=Cluster(num_devices=4, levels=levels),
        device_memory_bytes=1000.0,
        hbm_bytes_per_s=1000.0,
        global_batch=8,
        optimizer=Optimizer.ADAM,
        precision=named_precision("mixed", Optimizer.ADAM),
        options=PlanOptions(
            sharding=tuple(Sharding),
            shard_group=tuple(ShardGroups),
            reshard=(True, False),
            schedule=(PipelineSchedule.ONE_F_ONE_B, PipelineSchedule.ZERO_BUBBLE),
            order=tuple(DeviceOrder),
            overlap=True,
            family=PlanFamily.EXACT,
        ),
        graphs=(graph,),
    )
