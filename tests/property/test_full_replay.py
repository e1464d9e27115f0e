"""The event replay of cost model ``full``: equal to the formula for equal stages, and true to its own rules."""

import importlib.util
import math
import random
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.place.full import replay
from rephaze.place.full.causes import causes_of
from rephaze.place.full.groups import Network, groups_of
from rephaze.place.full.in_flight import kept_bytes
from rephaze.place.full.price import price_full_plan
from rephaze.place.full.replay import replay_full_plan
from rephaze.place.full.replay_work import chunk_works
from rephaze.place.full.timeline import PassKind, replay_events
from rephaze.place.precision import named_precision
from rephaze.place.simulate import run_1f1b
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

_spec = importlib.util.spec_from_file_location("full_cases", Path(__file__).with_name("full_cases.py"))
full_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(full_cases)

SAME = 1e-9
SEEDS = st.integers(0, 10**9)
ONCE = (PassKind.SYNC, PassKind.TIED, PassKind.STEP, PassKind.REGATHER)


def equal_stages(rng, schedule, *, is_gathering):
    """A problem, its graph and a plan whose stages all have the same passes.

    The first stage receives nothing and the last gets nothing back: they compute that much longer. With weights
    gathered, where longer compute could hide more, messages carry nothing instead.
    """
    pp = rng.randint(2 if schedule is not PipelineSchedule.ONE_F_ONE_B else 1, 6)
    chunks = rng.randint(2, 4) if schedule is PipelineSchedule.INTERLEAVED else 1
    dp = 2 if is_gathering else rng.choice([1, 2])
    count = pp * rng.randint(1, 4) if schedule is PipelineSchedule.INTERLEAVED else rng.randint(1, 14)
    per_stage, num_stages = rng.randint(1, 4), pp * chunks
    scale = 10 ** rng.uniform(-4, -2)
    pattern = []
    for _ in range(per_stage):
        forward_s, backward_s = rng.uniform(0.05, 1) * scale, rng.uniform(0.05, 3) * scale
        pattern.append(
            FullLayer(
                name="", param_bytes=rng.choice([0.0, rng.uniform(0, 5e8)]),
                expert_param_bytes=rng.choice([0.0, rng.uniform(0, 2e8)]),
                forward_s=forward_s, backward_s=backward_s, weight_backward_s=backward_s * rng.random(),
                keep=(KeepPoint(kept_bytes=2e6, replay_s=0.0), KeepPoint(kept_bytes=1e6, replay_s=forward_s / 2)),
            )
        )  # fmt: skip
    payload = 0.0 if is_gathering else rng.choice([0.0, rng.uniform(1e4, 1e8)])
    layers = [replace(pattern[v % per_stage], name=f"l{v}") for v in range(per_stage * num_stages)]
    links = [
        LayerLink(src=v, dst=v + 1, payload_bytes=payload if (v + 1) % per_stage == 0 else 1e9)
        for v in range(len(layers) - 1)
    ]
    inner = rng.choice([2, 4, 8])
    cluster = Cluster(
        num_devices=64,
        levels=(
            NetworkLevel(num_devices=inner, bytes_per_s=10 ** rng.uniform(10, 12), latency_s=1e-6),
            NetworkLevel(num_devices=64, bytes_per_s=10 ** rng.uniform(9, 11), latency_s=1e-5),
        ),
    )
    keep = rng.choice([0, 1])
    plan = FullPlan(
        tp=1, cp=1, ep=1, etp=1, sp=False, dp=dp, microbatch=1, order=rng.choice(list(DeviceOrder)),
        sharding=Sharding.WEIGHTS if is_gathering else Sharding.NONE, shard_group=dp if is_gathering else 1,
        reshard=is_gathering, schedule=schedule, chunks=chunks,
        stages=tuple(
            FullStage(layers=tuple(range(per_stage * at, per_stage * (at + 1))), keep=keep)
            for at in range(num_stages)
        ),
    )  # fmt: skip
    message_s = Network(cluster, plan.num_devices).message_s(payload, groups_of(plan).stages)
    if num_stages > 1:
        layers[0] = replace(layers[0], forward_s=layers[0].forward_s + message_s)
        layers[-1] = replace(layers[-1], backward_s=layers[-1].backward_s + message_s)
    graph = FullGraph(tp=1, cp=1, ep=1, etp=1, sp=False, microbatch=1, layers=tuple(layers), links=tuple(links))
    problem = FullProblem(
        cluster=cluster, device_memory_bytes=1e12, hbm_bytes_per_s=1e12, global_batch=dp * count,
        optimizer=Optimizer.ADAM, precision=named_precision("mixed", Optimizer.ADAM),
        options=PlanOptions(overlap=rng.random() < 0.5), graphs=(graph,),
    )  # fmt: skip
    return problem, graph, plan


@pytest.mark.parametrize(
    ("schedule", "is_gathering"),
    [
        (PipelineSchedule.ONE_F_ONE_B, False),
        (PipelineSchedule.ONE_F_ONE_B, True),
        (PipelineSchedule.INTERLEAVED, False),
        (PipelineSchedule.ZERO_BUBBLE, False),
    ],
)
@given(seed=SEEDS)
@settings(max_examples=200, deadline=None)
def test_equal_stages_take_what_the_formula_says(schedule, is_gathering, seed):
    problem, graph, plan = equal_stages(random.Random(seed), schedule, is_gathering=is_gathering)
    price = price_full_plan(problem, graph, plan)
    assert max(price.stage_load_s) == pytest.approx(min(price.stage_load_s), rel=SAME)
    found = replay_full_plan(problem, graph, price)
    assert found.pipe_s == pytest.approx(price.time.pipe_s, rel=SAME)
    assert found.batch_s == pytest.approx(price.batch_s, rel=SAME)


@given(seed=SEEDS)
@settings(max_examples=100, deadline=None)
def test_equal_chunks_with_gathering_never_take_longer_than_the_formula(seed):
    schedule = PipelineSchedule.INTERLEAVED
    problem, graph, plan = equal_stages(random.Random(seed), schedule, is_gathering=True)
    price = price_full_plan(problem, graph, plan)
    found = replay_full_plan(problem, graph, price)
    assert 0.8 <= found.pipe_s / price.time.pipe_s <= 1 + SAME
    # The last gradients are summed after it: then the batch is over, a little later than the formula has it.
    assert found.pipe_s <= found.batch_s <= 1.03 * price.batch_s


def one_price(seed):
    """Some legal plan of a small problem, its stages as they come."""
    rng = random.Random(seed)
    problem = full_cases.random_problem(seed, most_layers=5)
    prices = [price for price, _ in zip(full_cases.all_prices(problem), range(400), strict=False)]
    if not prices:
        return None
    price = rng.choice(prices)
    fields = ("tp", "cp", "ep", "etp", "sp", "microbatch")
    wanted = [getattr(price.plan, field) for field in fields]
    graph = next(one for one in problem.graphs if [getattr(one, field) for field in fields] == wanted)
    return problem, graph, price


@given(seed=SEEDS)
@settings(max_examples=150, deadline=None)
def test_causes_add_up_to_the_price_and_none_is_negative(seed):
    case = one_price(seed)
    if case is None:
        return
    price = case[2]
    causes = causes_of(*case)
    assert causes.total_s == pytest.approx(price.batch_s, rel=1e-12)
    assert min(getattr(causes, name) for name in causes.__slots__) >= 0.0
    work_s = sum(layer.forward_s + layer.backward_s for layer in case[1].layers)
    count = -(-case[0].num_microbatches(case[1]) // price.plan.dp)
    assert causes.compute_s <= count * work_s * (1 + SAME)
    assert causes.gathers_s == 0.0 or price.plan.is_gathering


@given(seed=SEEDS)
@settings(max_examples=150, deadline=None)
def test_events_keep_to_the_rules(seed):
    case = one_price(seed)
    if case is None:
        return
    problem, graph, price = case
    plan, count = price.plan, -(-problem.num_microbatches(graph) // price.plan.dp)
    events = replay_events(problem, graph, price)
    found = replay_full_plan(problem, graph, price)
    assert max(event.end_s for event in events) == pytest.approx(found.batch_s, rel=SAME)
    by_device = defaultdict(list)
    begins, ends = defaultdict(lambda: math.inf), {}
    for event in events:
        by_device[event.device].append(event)
        if event.kind in (PassKind.MESSAGE, *ONCE, PassKind.SCATTER):
            continue
        ends[event.kind, event.chunk, event.microbatch] = event.end_s
        begins[event.kind, event.chunk, event.microbatch] = event.start_s
    last = len(plan.stages) - 1
    for mine in by_device.values():
        for before, after in pairwise(mine):
            assert after.start_s >= before.end_s * (1 - SAME)
    for (kind, chunk, microbatch), begin_s in begins.items():
        if kind is PassKind.WEIGHT:
            needed = (PassKind.BACKWARD, chunk, microbatch)
        elif kind is PassKind.FORWARD:
            needed = (PassKind.FORWARD, chunk - 1, microbatch) if chunk else None
        else:
            needed = (PassKind.BACKWARD, chunk + 1, microbatch)
            if chunk == last:
                needed = (PassKind.FORWARD, chunk, microbatch)
        if needed in ends:
            assert begin_s >= ends[needed] * (1 - SAME)
    for chunk in range(last + 1):
        ran = {j for kind, c, j in ends if c == chunk and kind is PassKind.FORWARD}
        assert ran == set(range(count))


@given(seed=SEEDS, schedule=st.sampled_from(list(PipelineSchedule)))
@settings(max_examples=150, deadline=None)
def test_what_is_in_flight_is_what_memory_counts(seed, schedule):
    problem, graph, plan = equal_stages(random.Random(seed), schedule, is_gathering=False)
    price = price_full_plan(problem, graph, plan)
    count = problem.global_batch // plan.dp
    lets_go = PassKind.WEIGHT if schedule is PipelineSchedule.ZERO_BUBBLE else PassKind.BACKWARD
    sizes = [random.Random(seed + at).uniform(1, 2) for at in range(len(plan.stages))]
    held, most = defaultdict(float), defaultdict(float)
    for event in replay_events(problem, graph, price):  # by device, then by time
        if event.kind is PassKind.FORWARD:
            held[event.device] += sizes[event.chunk]
            most[event.device] = max(most[event.device], held[event.device])
        elif event.kind is lets_go:
            held[event.device] -= sizes[event.chunk]
    for device in range(plan.pp):
        counted = kept_bytes(plan, count, device, sizes[device :: plan.pp])
        assert most[device] == pytest.approx(counted)
        assert held[device] == pytest.approx(0.0, abs=1e-9)


@given(st.integers(1, 6), st.integers(2, 4), st.integers(1, 40), st.data())
@settings(deadline=None)
def test_interleaved_passes_counted_one_by_one_keep_no_more(pp, num_chunks, rounds, data):
    """All passes of a batch, one by one; and of a batch a million times as long as much, at once."""
    plan = SimpleNamespace(pp=pp, chunks=num_chunks, schedule=PipelineSchedule.INTERLEAVED)
    device, count = data.draw(st.integers(0, pp - 1)), pp * rounds
    sizes = data.draw(st.lists(st.integers(1, 1000), min_size=num_chunks, max_size=num_chunks))
    total, held, most = count * num_chunks, 0, 0
    ahead = min(total, 2 * (pp - device - 1) + (num_chunks - 1) * pp)
    for step in range(total + ahead):
        if step < total:
            held += sizes[(step // pp) % num_chunks]
            most = max(most, held)
        if step >= ahead:
            held -= sizes[num_chunks - 1 - ((step - ahead) // pp) % num_chunks]
    assert held == 0
    assert kept_bytes(plan, count, device, sizes) == most
    if rounds > 2 * num_chunks:
        assert kept_bytes(plan, count * 10**6, device, sizes) == most


@given(seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_unequal_stages_of_1f1b_agree_with_the_replay_of_the_other_model(seed):
    rng = random.Random(seed)
    problem, graph, plan = equal_stages(rng, PipelineSchedule.ONE_F_ONE_B, is_gathering=False)
    uneven = [
        replace(layer, forward_s=layer.forward_s * rng.uniform(0.2, 3), backward_s=layer.backward_s * 2)
        for layer in graph.layers
    ]
    graph = replace(graph, layers=tuple(uneven))
    works = chunk_works(problem, graph, plan)
    ends = [work.ends(is_split=False) for work in works]
    forward_s = [work.message_s + end.forward_s for work, end in zip(works, ends, strict=True)]
    backward_s = [work.returned_s + end.backward_s for work, end in zip(works, ends, strict=True)]
    other = run_1f1b(forward_s, backward_s, problem.global_batch // plan.dp)
    found = replay_full_plan(problem, graph, price_full_plan(problem, graph, plan))
    assert found.pipe_s == pytest.approx(max(event.end_s for event in other), rel=SAME)


@given(seed=SEEDS, schedule=st.sampled_from(list(PipelineSchedule)))
@settings(max_examples=40, deadline=None)
def test_a_long_batch_goes_on_as_its_middle(seed, schedule):
    problem, graph, plan = equal_stages(random.Random(seed), schedule, is_gathering=False)
    long = replace(problem, global_batch=plan.dp * plan.pp * 60)
    price = price_full_plan(long, graph, plan)
    whole = replay_full_plan(long, graph, price)
    assert not whole.is_extrapolated
    kept, replay.MOST_PASSES = replay.MOST_PASSES, 20 * plan.pp * len(plan.stages) * 3
    try:
        short = replay_full_plan(long, graph, price)
    finally:
        replay.MOST_PASSES = kept
    assert short.is_extrapolated
    assert short.pipe_s == pytest.approx(whole.pipe_s, rel=SAME)
