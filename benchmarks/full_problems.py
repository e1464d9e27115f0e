"""Large problems of cost model ``full`` with realistic figures, drawn from the shapes of two models alone.

Products run at half of 1 PFLOP/s once they have many rows; collectives of a layer are rings on the level their
group spans. Activations are those of a transformer with fused attention, kept at four points: all, without what
the feed-forward layers widen, without attention's inputs too, only the layer's own input.
"""

from dataclasses import dataclass

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
from rephaze.types.placement import LayerLink, Optimizer, TiedWeights

PEAK_FLOPS_PER_S = 1e15
LEVELS = ((8, 4.5e11, 2e-6), (256, 5e10, 5e-6), (16384, 2.5e10, 1e-5))
ALL_OPTIONS = PlanOptions(
    sharding=tuple(Sharding),
    shard_group=tuple(ShardGroups),
    reshard=(False, True),
    schedule=tuple(PipelineSchedule),
    chunks=(2, 4),
    order=tuple(DeviceOrder),
    overlap=True,
    family=PlanFamily.EXACT,
)


@dataclass(frozen=True)
class Degrees:
    """How one graph is cut."""

    tp: int
    sp: bool
    cp: int
    microbatch: int
    ep: int = 1
    etp: int = 1


def ring_s(num_bytes, members, inside=1):
    """Of an all-reduce over members that stand so many devices apart."""
    if members == 1:
        return 0.0
    _, bytes_per_s, latency_s = next(level for level in LEVELS if level[0] >= members * inside)
    return 2 * (members - 1) / members * num_bytes / bytes_per_s + 2 * (members - 1) * latency_s


def product_s(num_flops, num_rows):
    return num_flops / (0.5 * PEAK_FLOPS_PER_S * num_rows / (num_rows + 256))


def keep_points(full_bytes, forward_s):
    parts = ((1.0, 0.0), (0.6, 0.12), (0.35, 0.45), (2 / 34, 1.0))
    return tuple(
        KeepPoint(kept_bytes=full_bytes * kept, replay_s=forward_s * replayed) for kept, replayed in parts
    )


def layer(name, forward_s, backward_s, kept, params, experts=0.0, working=0.0, block=True):
    return FullLayer(
        name=name, param_bytes=params, expert_param_bytes=experts, forward_s=forward_s, backward_s=backward_s,
        weight_backward_s=0.45 * backward_s, keep=kept, working_bytes=working, is_block=block,
    )  # fmt: skip


def activation_bytes(tokens, hidden, tp, sp):
    """34 bytes an element, ten of them outside what tensor parallelism cuts."""
    return tokens * hidden * (34 / tp if sp else 10 + 24 / tp)


def ends(tokens, hidden, vocabulary, cut, tied):
    forward_s = product_s(2 * tokens * hidden * vocabulary / cut.tp, tokens)
    embed = layer("embed", 2e-5, 4e-5, keep_points(2 * tokens * hidden, 0.0)[:1], 2 * hidden * vocabulary / cut.tp,
                  block=False)  # fmt: skip
    head_params = 2e5 if tied else 2 * hidden * vocabulary / cut.tp
    kept = (KeepPoint(kept_bytes=4 * tokens * vocabulary / cut.tp, replay_s=0.0),)
    head = layer("head", forward_s, 2 * forward_s, kept, head_params, block=False)
    return embed, head


def graph_of(layers, cut, tokens, hidden, ties=()):
    links = tuple(
        LayerLink(src=v, dst=v + 1, payload_bytes=2 * tokens * hidden / (cut.tp if cut.sp else 1))
        for v in range(len(layers) - 1)
    )
    # Experts that span replicas were priced for neighbours.
    is_wide = cut.ep * cut.etp > cut.tp * cut.cp
    return FullGraph(
        tp=cut.tp, cp=cut.cp, ep=cut.ep, etp=cut.etp, sp=cut.sp, microbatch=cut.microbatch, layers=tuple(layers),
        links=links, tied=ties, orders=(DeviceOrder.PP_OUTER,) if is_wide else tuple(DeviceOrder),
    )  # fmt: skip


def gpt3_graph(cut, hidden=12288, blocks=96, sequence=2048, vocabulary=50304):
    tokens = cut.microbatch * sequence // cut.cp
    num_flops = 24 * tokens * hidden**2 + 4 * tokens * sequence * hidden / 2
    compute_s = product_s(num_flops / cut.tp, tokens)
    exchange_s = 2 * ring_s(2 * tokens * hidden, cut.tp)
    exchange_s += ring_s(4 * cut.microbatch * sequence * hidden / cut.tp, cut.cp, cut.tp)
    forward_s, backward_s = compute_s + exchange_s, 2 * compute_s + exchange_s
    kept = keep_points(activation_bytes(tokens, hidden, cut.tp, cut.sp), forward_s)
    embed, head = ends(tokens, hidden, vocabulary, cut, tied=True)
    middle = [
        layer(f"block{at}", forward_s, backward_s, kept, 24 * hidden**2 / cut.tp, working=4 * tokens * hidden)
        for at in range(blocks)
    ]
    ties = (TiedWeights(layers=(0, blocks + 1), param_bytes=embed.param_bytes),)
    return graph_of((embed, *middle, head), cut, tokens, hidden, ties)


def deepseek_graph(cut, hidden=7168, sequence=4096, vocabulary=129280):
    tokens = cut.microbatch * sequence // cut.cp
    attention_params, dense_params, expert_params = 187e6, 3 * hidden * 18432, 3 * hidden * 2048
    exchange_s = 2 * ring_s(2 * tokens * hidden, cut.tp)
    exchange_s += ring_s(4 * cut.microbatch * sequence * 576, cut.cp, cut.tp)
    scores = 4 * tokens * sequence * 128 * 160 / 2
    attention_s = product_s((2 * tokens * attention_params + scores) / cut.tp, tokens)
    dense_s = attention_s + product_s(2 * tokens * dense_params / cut.tp, tokens)
    dispatched = 2 * tokens / cut.tp * 8 * hidden
    group = cut.ep * cut.etp
    swap_s = ring_s(dispatched, cut.ep, cut.etp)  # two all-to-alls move what an all-reduce does
    experts_s = product_s(2 * tokens * 9 * expert_params / cut.tp, 8 * tokens * cut.ep / 256 / cut.etp)
    full_bytes = activation_bytes(tokens, hidden, cut.tp, cut.sp)

    def made(name, compute_s, extra_s, kept_factor, params, experts):
        forward_s, backward_s = compute_s + exchange_s + extra_s, 2 * compute_s + exchange_s + extra_s
        kept = keep_points(kept_factor * full_bytes, forward_s)
        return layer(name, forward_s, backward_s, kept, params, experts, working=4 * tokens * hidden)

    embed, head = ends(tokens, hidden, vocabulary, cut, tied=False)
    dense_bytes = 2 * (attention_params + dense_params) / cut.tp
    dense = [made(f"dense{at}", dense_s, 0.0, 1.2, dense_bytes, 0.0) for at in range(3)]
    mixture_bytes = 2 * (attention_params + expert_params) / cut.tp
    mixture = [
        made(f"mixture{at}", attention_s + experts_s, swap_s, 1.8, mixture_bytes, 2 * 256 * expert_params / group)
        for at in range(58)
    ]
    return graph_of((embed, *dense, *mixture, head), cut, tokens, hidden)


def problem_of(graphs, num_devices, global_batch, options=ALL_OPTIONS, memory_bytes=8e10):
    inner = [level for level in LEVELS if level[0] < num_devices]
    outer = next(level for level in LEVELS if level[0] >= num_devices)
    levels = tuple(
        NetworkLevel(num_devices=size, bytes_per_s=rate, latency_s=latency_s)
        for size, rate, latency_s in [*inner, (num_devices, *outer[1:])]
    )
    return FullProblem(
        cluster=Cluster(num_devices=num_devices, levels=levels), device_memory_bytes=memory_bytes,
        hbm_bytes_per_s=3.35e12, global_batch=global_batch, optimizer=Optimizer.ADAM,
        precision=named_precision("mixed", Optimizer.ADAM), options=options, graphs=tuple(graphs),
    )  # fmt: skip


def gpt3_problem(num_devices=16384, microbatches=(1, 2, 4, 8, 16, 32, 64), cps=(1, 2, 4, 8), **more):
    cuts = [
        Degrees(tp, sp, cp, size)
        for tp in (1, 2, 4, 8)
        for sp in ((False, True) if tp > 1 else (False,))
        for cp in cps
        for size in microbatches
    ]
    return problem_of([gpt3_graph(cut) for cut in cuts], num_devices, 4096, **more)


def deepseek_problem(num_devices=2048, **more):
    cuts = [
        Degrees(tp, sp, cp, size, ep, etp)
        for tp in (1, 2, 4, 8)
        for sp in ((False, True) if tp > 1 else (False,))
        for cp in (1, 2, 4)
        for ep in (1, 2, 4, 8, 16, 32, 64)
        for etp in sorted({1, tp})
        for size in (1, 2, 4, 8)
    ]
    return problem_of([deepseek_graph(cut) for cut in cuts], num_devices, 15360, **more)
