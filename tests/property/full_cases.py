"""Small random problems of cost model ``full``, and every plan of one, enumerated from the definitions alone."""

import itertools
import random
from dataclasses import replace

from rephaze.place.full.layouts import LEAST_ZERO_BUBBLE_STAGES
from rephaze.place.full.price import price_full_plan
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
    PlanFamily,
    PlanOptions,
    ShardGroups,
    Sharding,
)
from rephaze.types.placement import LayerLink, Optimizer, TiedWeights


def some(rng, values):
    """A few of the values, in their order; never none."""
    chosen = [value for value in values if rng.random() < 0.6]
    return tuple(chosen or [rng.choice(list(values))])


def random_graph(rng, num_layers, tp, cp, ep, etp, microbatch, *, has_links_only_in_line, scale):
    layers = []
    for at in range(num_layers):
        forward_s = rng.uniform(0.2, 1.0) * 1e-3 * scale
        backward_s = forward_s * rng.uniform(1.5, 2.5)
        full_bytes = rng.uniform(0.5, 2.0) * 1e8 * scale
        keep = [KeepPoint(kept_bytes=full_bytes, replay_s=0.0)]
        for _ in range(rng.randint(0, 2)):
            before = keep[-1]
            keep.append(
                KeepPoint(
                    kept_bytes=before.kept_bytes * rng.uniform(0.2, 0.9),
                    replay_s=before.replay_s + forward_s * rng.uniform(0.2, 0.6),
                )
            )
        layers.append(
            FullLayer(
                name=f"layer{at}",
                param_bytes=rng.choice([0.0, rng.uniform(1, 60) * 1e6]),
                expert_param_bytes=rng.uniform(1, 60) * 1e6 if ep > 1 or rng.random() < 0.2 else 0.0,
                forward_s=forward_s,
                backward_s=backward_s,
                weight_backward_s=backward_s * rng.uniform(0, 0.6),
                keep=tuple(keep),
                working_bytes=rng.choice([0.0, rng.uniform(0, 5e7)]),
                is_block=0 < at < num_layers - 1 or rng.random() < 0.5,
            )
        )
    links = [LayerLink(src=v, dst=v + 1, payload_bytes=rng.uniform(0, 3e6)) for v in range(num_layers - 1)]
    if num_layers > 2 and (not has_links_only_in_line or rng.random() < 0.2):
        v = rng.randrange(num_layers - 2)
        further = LayerLink(src=v, dst=v + 2, payload_bytes=rng.uniform(0, 3e6))
        if has_links_only_in_line:
            links.append(further)
        else:
            links[v + 1] = further
    tied = ()
    if num_layers > 1 and rng.random() < 0.3:
        ends = (0, num_layers - 1)
        members = ends if rng.random() < 0.5 else rng.sample(range(num_layers), rng.randint(2, num_layers))
        owner_bytes = layers[members[0]].param_bytes
        tied = (TiedWeights(layers=tuple(members), param_bytes=owner_bytes * rng.random()),)
    return FullGraph(
        tp=tp, cp=cp, ep=ep, etp=etp, sp=tp > 1 and rng.random() < 0.5, microbatch=microbatch,
        layers=tuple(layers), links=tuple(links), tied=tied,
        orders=some(rng, DeviceOrder) if rng.random() < 0.2 else tuple(DeviceOrder),
    )  # fmt: skip


def random_problem(seed, *, family=None, most_layers=4):
    """A problem whose plans can all be looked at."""
    rng = random.Random(seed)
    num_layers = rng.randint(1, most_layers)
    sizes = rng.choice([(2,), (4,), (8,), (2, 4), (2, 8), (4, 8), (2, 4, 8), (3, 6), (12,), (4, 12)])
    levels, bytes_per_s, latency_s = [], 4e11, 1e-6
    for size in sizes:
        levels.append(NetworkLevel(num_devices=size, bytes_per_s=bytes_per_s, latency_s=latency_s * rng.random()))
        bytes_per_s /= rng.choice([1, 4, 10])
        latency_s *= 3
    num_devices = rng.choice([sizes[-1], max(1, sizes[-1] - 1)])
    is_line = rng.random() < 0.75
    graphs = []
    for tp, cp in rng.sample([(1, 1), (2, 1), (1, 2), (2, 2), (4, 1)], rng.randint(1, 2)):
        etp = rng.choice([1, tp])
        ep = rng.choice([1, 1, 2, 4])
        microbatch = rng.choice([1, 2])
        scale = microbatch / (tp * cp)
        graphs.append(
            random_graph(rng, num_layers, tp, cp, ep, etp, microbatch, has_links_only_in_line=is_line, scale=scale)
        )
    optimizer = rng.choice(list(Optimizer))
    options = PlanOptions(
        sharding=some(rng, Sharding),
        shard_group=some(rng, ShardGroups),
        reshard=some(rng, (False, True)),
        schedule=some(rng, PipelineSchedule),
        chunks=some(rng, (2, 3)),
        order=some(rng, DeviceOrder),
        overlap=rng.random() < 0.5,
        family=family or rng.choice(list(PlanFamily)),
    )
    return FullProblem(
        cluster=Cluster(num_devices=num_devices, levels=tuple(levels)),
        device_memory_bytes=10 ** rng.uniform(8.0, 9.6),
        hbm_bytes_per_s=rng.choice([None, 1e12]),
        global_batch=rng.choice([1, 2, 4, 6, 8]),
        optimizer=optimizer,
        precision=named_precision(rng.choice(["mixed", "bf16", "fp32"]), optimizer),
        options=options,
        graphs=tuple(graphs),
    )


def cuts(graph, num_stages):
    """Every way to cut the layers into so many stages that never feed an earlier one."""
    needed = [{link.src for link in graph.links if link.dst == v} for v in range(len(graph.layers))]

    def onwards(done, left, k):
        if k == 1:
            yield [tuple(sorted(left))]
            return
        for size in range(1, len(left) - k + 2):
            for stage in itertools.combinations(sorted(left), size):
                inside = done | set(stage)
                if all(needed[v] <= inside for v in stage):
                    for rest in onwards(inside, left - set(stage), k - 1):
                        yield [stage, *rest]

    yield from onwards(set(), set(range(len(graph.layers))), num_stages)


def shard_choices(problem, graph, dp):
    """Section 1 and 2: what may be sharded, over how many, gathered again or not."""
    options, replicas = problem.options, dp * graph.cp
    if replicas == 1:
        return [(Sharding.NONE, 1, False)]
    by_family = {
        PlanFamily.MEGATRON: {Sharding.NONE, Sharding.OPTIMIZER},
        PlanFamily.TORCHTITAN: {Sharding.WEIGHTS},
        PlanFamily.MAXTEXT: {Sharding.WEIGHTS},
    }
    found = []
    for sharding in options.sharding:
        if sharding not in by_family.get(options.family, set(Sharding)):
            continue
        if sharding is Sharding.NONE:
            found.append((sharding, 1, False))
            continue
        sizes = {replicas} if ShardGroups.ALL in options.shard_group else set()
        if ShardGroups.LEVEL in options.shard_group:
            for f in range(2, replicas + 1):
                if graph.cp % f == 0 or (f % graph.cp == 0 and dp % (f // graph.cp) == 0):
                    sizes.add(f)
        for f in sizes:
            again = options.reshard if sharding is Sharding.WEIGHTS else (False,)
            found += [(sharding, f, reshard) for reshard in again]
    return found


def legal_shapes(problem, graph):
    """Every (dp, pp, order, schedule, chunks) of a graph."""
    options, family, width = problem.options, problem.options.family, graph.tp * graph.cp
    num_microbatches = -(-problem.global_batch // graph.microbatch)
    uses_all = family in (PlanFamily.MEGATRON, PlanFamily.TORCHTITAN, PlanFamily.MAXTEXT)
    experts = graph.ep * graph.etp
    for dp, pp in itertools.product(range(1, num_microbatches + 1), range(1, len(graph.layers) + 1)):
        used = dp * pp * width
        if used > problem.cluster.num_devices or (uses_all and used != problem.cluster.num_devices):
            continue
        if family is not PlanFamily.ANY and problem.global_batch % (dp * graph.microbatch):
            continue
        is_in_tp = graph.tp % experts == 0
        is_in_cp = experts % graph.tp == 0 and graph.cp % (experts // graph.tp) == 0
        is_in_dp = experts % width == 0 and dp % (experts // width) == 0
        if not (is_in_tp or is_in_cp or is_in_dp):
            continue
        orders = tuple(order for order in options.order if order in graph.orders)
        if dp == 1 or pp == 1:
            orders = (DeviceOrder.DP_OUTER,)
        elif uses_all:
            orders = tuple(order for order in orders if order is DeviceOrder.PP_OUTER)
        count = -(-num_microbatches // dp)
        for order, schedule in itertools.product(orders, options.schedule):
            if schedule is PipelineSchedule.ZERO_BUBBLE and pp < LEAST_ZERO_BUBBLE_STAGES:
                continue
            if schedule is not PipelineSchedule.INTERLEAVED:
                yield dp, pp, order, schedule, 1
                continue
            for chunks in options.chunks:
                if pp >= 2 and count % pp == 0 and pp * chunks <= len(graph.layers):
                    yield dp, pp, order, schedule, chunks


def all_plans(problem):
    """Every legal plan of a problem, with its graph."""
    for graph in problem.graphs:
        for dp, pp, order, schedule, chunks in legal_shapes(problem, graph):
            for sharding, f, reshard in shard_choices(problem, graph, dp):
                if schedule is PipelineSchedule.ZERO_BUBBLE and sharding is Sharding.WEIGHTS and reshard:
                    continue
                plan = FullPlan(
                    tp=graph.tp, cp=graph.cp, ep=graph.ep, etp=graph.etp, sp=graph.sp, dp=dp,
                    microbatch=graph.microbatch, order=order, sharding=sharding, shard_group=f, reshard=reshard,
                    schedule=schedule, chunks=chunks, stages=(),
                )  # fmt: skip
                for stages in cuts(graph, pp * chunks):
                    blocks = [sum(graph.layers[v].is_block for v in stage) for stage in stages]
                    if problem.options.family in (PlanFamily.MEGATRON, PlanFamily.MAXTEXT) and any(
                        number != max(blocks) for number in blocks[1:-1]
                    ):
                        continue
                    points = [range(max(len(graph.layers[v].keep) for v in stage)) for stage in stages]
                    for keep in itertools.product(*points):
                        chosen = tuple(FullStage(layers=s, keep=k) for s, k in zip(stages, keep, strict=True))
                        yield graph, replace(plan, stages=chosen)


def all_prices(problem):
    """Every legal plan of a problem, priced."""
    for graph, plan in all_plans(problem):
        yield price_full_plan(problem, graph, plan)


def worth_trying(seed, *, least, most):
    """A random problem with so many plans, or None; in half of them memory is short for some plan."""
    rng = random.Random(seed)
    problem = random_problem(seed, most_layers=rng.randint(3, 6))
    if seed % 4 == 0:
        # Interleaved plans are seldom the best, and have most cuts.
        schedule, chunks = (PipelineSchedule.INTERLEAVED,), (rng.choice([2, 2, 3]),)
        options = replace(problem.options, schedule=schedule, chunks=chunks, family=rng.choice(list(PlanFamily)))
        options = replace(options, sharding=options.sharding[:1], order=options.order[:1])
        graphs = [replace(graph, ep=1, etp=1) for graph in problem.graphs[:1]]
        problem = replace(problem, options=options, graphs=tuple(graphs), global_batch=rng.choice([4, 8]))
    plans = list(itertools.islice(all_plans(problem), most + 1))
    if not least <= len(plans) <= most:
        return None
    if rng.random() < 0.5:
        price = price_full_plan(problem, *rng.choice(plans))
        fullest = max(device.total_bytes for device in price.devices)
        problem = replace(problem, device_memory_bytes=fullest * rng.uniform(0.8, 1.0))
    return problem


def tried_problems(first, count, *, least=4, most=500):
    """So many problems with a few to hundreds of plans, from a seed on."""
    made = (worth_trying(seed, least=least, most=most) for seed in itertools.count(first))
    return itertools.islice((problem for problem in made if problem is not None), count)


def best_by_brute_force(problem):
    """The fastest plan that fits; None if none does."""
    return min((price for price in all_prices(problem) if price.fits), key=lambda p: p.batch_s, default=None)
