"""Random placement problems and an exhaustive solver for them, for tests."""

import itertools
import math
import random

from rephaze.place.network import pipeline_level, replica_level
from rephaze.place.precision import named_precision
from rephaze.place.price import price_stage
from rephaze.types.cluster import Cluster, NetworkLevel, flat_cluster
from rephaze.types.placement import (
    LayerCost,
    LayerGraph,
    LayerLink,
    Optimizer,
    PlacementModel,
    PlacementProblem,
    PlannedStage,
    Recompute,
    RecomputePolicy,
    TiedWeights,
)


def random_links(rng, num_layers, kind):
    """Pairs of layers: a line, a line with skips, or any acyclic graph."""
    pairs = list(itertools.combinations(range(num_layers), 2))
    line = {(v, v + 1) for v in range(num_layers - 1)}
    if kind == "line":
        return sorted(line)
    if kind == "skips":
        return sorted(line | {pair for pair in pairs if rng.random() < 0.3})
    return [pair for pair in pairs if rng.random() < rng.choice([0.2, 0.4, 0.6])]


def random_problem(seed, cost_model, kind, max_layers=6):
    rng = random.Random(seed)
    num_layers = rng.randint(1, max_layers)
    pairs = random_links(rng, num_layers, kind)
    is_paper = cost_model is PlacementModel.PAPER
    coarse = rng.random() < 0.4  # whole numbers make ties and exactly met limits

    def draw(low, high):
        return float(rng.randint(int(low), int(high))) if coarse else rng.uniform(low, high)

    num_devices = rng.randint(1, 12)
    group = rng.choice([2, 3, 4])
    levels = (
        NetworkLevel(num_devices=group, bytes_per_s=draw(2, 9), latency_s=rng.choice([0.0, 0.1])),
        NetworkLevel(num_devices=group * 8, bytes_per_s=draw(1, 6), latency_s=rng.choice([0.0, 0.3])),
    )
    cluster = (
        flat_cluster(num_devices, draw(1, 8), 0.0 if is_paper else rng.choice([0.0, 0.2]))
        if is_paper or rng.random() < 0.5
        else Cluster(num_devices=num_devices, levels=levels)
    )
    sharded = [rng.random() < 0.6 for _ in range(num_layers)]
    tied_layers = rng.sample(range(num_layers), 2) if num_layers > 1 and rng.random() < 0.3 else None
    graphs = []
    for tp in sorted(rng.sample([1, 2, 3], rng.randint(1, 2))):
        for microbatch in [1] if is_paper else rng.choice([[1], [1, 2]]):
            layers = tuple(
                LayerCost(
                    name=f"l{v}",
                    param_bytes=draw(0, 4),
                    activation_bytes=draw(0, 4) * microbatch,
                    forward_s=draw(0, 5) * microbatch,
                    backward_s=draw(0, 9) * microbatch,
                    is_sharded=tp > 1 and sharded[v],
                    input_bytes=None if rng.random() < 0.5 else draw(0, 3),
                    working_bytes=draw(0, 2),
                )
                for v in range(num_layers)
            )
            tied = ()
            if tied_layers:
                owned = layers[tied_layers[0]].param_bytes
                tied = (TiedWeights(layers=tuple(tied_layers), param_bytes=owned * rng.random()),)
            links = tuple(LayerLink(src=u, dst=v, payload_bytes=draw(0, 6) * microbatch) for u, v in pairs)
            graphs.append(LayerGraph(tp=tp, microbatch=microbatch, layers=layers, links=links, tied=tied))
    optimizer = rng.choice(list(Optimizer))
    policies = [RecomputePolicy.NONE, RecomputePolicy.STAGE]
    if not is_paper:
        policies += [RecomputePolicy.BLOCK, RecomputePolicy.AUTO, RecomputePolicy.AUTO]
    by_samples = not is_paper and len({graph.microbatch for graph in graphs}) > 1
    return PlacementProblem(
        cost_model=cost_model,
        cluster=cluster,
        device_memory_bytes=rng.choice([1e9, draw(8, 90), draw(8, 40)]),
        graphs=tuple(graphs),
        recompute=rng.choice(policies),
        optimizer=optimizer,
        precision=named_precision("paper" if is_paper else rng.choice(["mixed", "bf16"]), optimizer),
        num_microbatches=None if by_samples else rng.randint(1, 9),
        global_batch=rng.randint(1, 9) if by_samples else None,
        hbm_bytes_per_s=None if is_paper else rng.choice([None, 20.0]),
    )


def chains_of_ideals(num_layers, pairs):
    """Every way to cut the layers into stages so that none feeds an earlier one."""
    before = {v: {u for u, w in pairs if w == v} for v in range(num_layers)}

    def grow(placed):
        if len(placed) == num_layers:
            yield ()
            return
        left = [v for v in range(num_layers) if v not in placed]
        for size in range(1, len(left) + 1):
            for stage in itertools.combinations(left, size):
                inside = placed | set(stage)
                if all(before[v] <= inside for v in stage):
                    for rest in grow(inside):
                        yield (stage, *rest)

    yield from grow(frozenset())


def modes_of(policy, in_flight):
    if policy is RecomputePolicy.AUTO:
        return list(Recompute)
    if policy is RecomputePolicy.STAGE and in_flight == 1:
        return [Recompute.NONE]
    return [Recompute(policy)]


def brute_force(problem, accept=lambda graph, dp, stages: True):
    """The least batch time over every plan, recompute choices included, from the cost model's formulas."""
    best = math.inf
    is_paper = problem.cost_model is PlacementModel.PAPER
    num_devices, levels = problem.cluster.num_devices, problem.cluster.levels
    for graph in problem.graphs:
        pairs = [(link.src, link.dst) for link in graph.links]
        microbatches = problem.microbatches_of(graph)
        known = {}
        for stages in chains_of_ideals(len(graph.layers), pairs):
            widths = [graph.tp if any(graph.layers[v].is_sharded for v in s) else 1 for s in stages]
            for dp in range(1, min(num_devices // sum(widths), microbatches) + 1):
                if not accept(graph, dp, stages):
                    continue
                count = -(-microbatches // dp)
                level = len(levels) - 1 if is_paper else pipeline_level(problem.cluster, sum(widths), dp)
                rate = min(entry.bytes_per_s for entry in levels[: level + 1])
                wait = 0.0 if is_paper else max(entry.latency_s for entry in levels[: level + 1])
                options = []
                for at, layers in enumerate(stages):
                    depth = len(stages) - at
                    in_flight = depth if is_paper else min(depth, count)
                    key = (layers, in_flight, level)
                    if key not in known:
                        costs = [
                            price_stage(
                                problem, graph, PlannedStage(layers=layers, recompute=mode), widths[at],
                                in_flight, rate, wait,
                            )
                            for mode in modes_of(problem.recompute, in_flight)
                        ]  # fmt: skip
                        known[key] = [(cost.load_s, cost.param_bytes) for cost in costs if cost.fits]
                    options.append(known[key])
                for chosen in itertools.product(*options):
                    loads = [load for load, _ in chosen]
                    params = [held for _, held in chosen]
                    if is_paper:
                        time = max(loads) * (count + len(stages) - 1)
                        time += 4 * (dp - 1) * params[0] / (levels[0].bytes_per_s * dp)
                    else:
                        time = sum(loads) + (count - 1) * max(loads)
                        time += once_a_batch(problem, graph, stages, sum(widths), dp, params, rate, wait)
                    best = min(best, time)
    return best


def once_a_batch(problem, graph, stages, pipeline, dp, params, rate, wait):
    precision = problem.precision
    gradients = precision.gradient_bytes / precision.weight_bytes
    time = 0.0
    for tied in graph.tied:
        for stage in stages:
            if tied.layers[0] not in stage and any(v in stage for v in tied.layers):
                time += tied.param_bytes * gradients / rate + wait
    if dp > 1:
        spanned = problem.cluster.levels[: replica_level(problem.cluster, pipeline, dp) + 1]
        time += 2 * (dp - 1) / dp * max(params) * gradients / min(entry.bytes_per_s for entry in spanned)
        time += 2 * (dp - 1) * max(entry.latency_s for entry in spanned)
    if problem.hbm_bytes_per_s:
        time += max(params) * precision.step_bytes / precision.weight_bytes / problem.hbm_bytes_per_s
    return time
