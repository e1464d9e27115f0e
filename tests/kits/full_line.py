"""Plans of a few equal layers, small enough to be worked out by hand."""

from rephaze.place.precision import named_precision
from rephaze.types.cluster import Cluster, NetworkLevel
from rephaze.types.full import (
    DeviceOrder,
    FullGraph,
    FullLayer,
    FullPlan,
    FullProblem,
    FullStage,
    KeepPoint,
    PipelineSchedule,
    PlanOptions,
    Sharding,
)
from rephaze.types.placement import LayerLink, Optimizer


def line(num_layers=4, *, payload_bytes=0.0, param_bytes=0.0, **changes):
    """Layers of 1 s forward and 2 s backward, half of it the weight part; 1 GB kept, or 0.25 GB for 0.5 s."""
    fields = {
        "param_bytes": param_bytes, "expert_param_bytes": 0.0, "forward_s": 1.0, "backward_s": 2.0,
        "weight_backward_s": 1.0, "is_block": True,
        "keep": (KeepPoint(kept_bytes=1e9, replay_s=0.0), KeepPoint(kept_bytes=0.25e9, replay_s=0.5)),
    }  # fmt: skip
    layers = tuple(FullLayer(name=f"b{v}", **(fields | changes)) for v in range(num_layers))
    links = tuple(LayerLink(src=v, dst=v + 1, payload_bytes=payload_bytes) for v in range(num_layers - 1))
    return FullGraph(tp=1, cp=1, ep=1, etp=1, sp=False, microbatch=1, layers=layers, links=links)


def problem_of(graph, *, global_batch=8, num_devices=8, memory_bytes=1e12, **options):
    """One network level of 1 GB/s without latency; a free optimizer step."""
    level = NetworkLevel(num_devices=num_devices, bytes_per_s=1e9, latency_s=0.0)
    return FullProblem(
        cluster=Cluster(num_devices=num_devices, levels=(level,)), device_memory_bytes=memory_bytes,
        hbm_bytes_per_s=None, global_batch=global_batch, optimizer=Optimizer.ADAM,
        precision=named_precision("bf16", Optimizer.ADAM), options=PlanOptions(**options), graphs=(graph,),
    )  # fmt: skip


def plan_of(graph, pp, *, chunks=1, keep=0, **changes):
    """An even cut; one replica, nothing sharded."""
    size = len(graph.layers) // (pp * chunks)
    fields = {
        "dp": 1, "order": DeviceOrder.DP_OUTER, "sharding": Sharding.NONE, "shard_group": 1, "reshard": False,
        "schedule": PipelineSchedule.INTERLEAVED if chunks > 1 else PipelineSchedule.ONE_F_ONE_B,
    }  # fmt: skip
    stages = tuple(
        FullStage(layers=tuple(range(size * at, size * (at + 1))), keep=keep) for at in range(pp * chunks)
    )
    same = {name: getattr(graph, name) for name in ("tp", "cp", "ep", "etp", "sp", "microbatch")}
    return FullPlan(**same, chunks=chunks, stages=stages, **(fields | changes))
