"""What a layer may keep: the front against every subset of storages, and against shorter operators."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.measure.keep_points import pareto_points
from rephaze.types.graph import OpKind
from rephaze.workload import fuse_graph, load_model, shard_graph
from rephaze.workload.passes.keep_sets import keep_sets
from tests.property.keep_cases import random_layer, slow_front


def random_times(sets, seed):
    """Eighths, so that sums are exact in any order."""
    rng = random.Random(seed)
    return np.array([rng.choice([8, 16, rng.randint(1, 40)]) / 8 for _ in sets.ops])


def front_of(sets, times, full_s, microbatch):
    kept, replay, _ = pareto_points(sets, times, full_s, microbatch, max_points=0)
    return list(zip(kept.tolist(), replay.tolist(), strict=True))


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 10**9), st.sampled_from([1, 2, 5]))
def test_no_subset_of_storages_beats_the_front(seed, microbatch):
    layer = random_layer(seed)
    sets = keep_sets(layer, trifle_share=0.0)
    times = random_times(sets, seed)
    full_s = sum(times) * random.Random(seed).choice([0.5, 0.8, 1.0])
    found, slow = front_of(sets, times, full_s, microbatch), slow_front(layer, times, full_s, microbatch)
    assert found == slow


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**9))
def test_shorter_operators_make_no_point_worse(seed):
    sets = keep_sets(random_layer(seed), trifle_share=0.0)
    times, rng = random_times(sets, seed), random.Random(seed)
    shorter = np.array([time * rng.choice([0.3, 0.9, 1.0]) for time in times])
    full_s = sum(times) * 0.9
    before, after = front_of(sets, times, full_s, 2), front_of(sets, shorter, full_s * rng.choice([0.7, 1.0]), 2)
    for kept, replay in before:
        assert any(other <= kept and time <= replay for other, time in after)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**9))
def test_a_point_keeps_and_replays_what_it_says(seed):
    layer = random_layer(seed)
    sets = keep_sets(layer, trifle_share=0.0)
    times = random_times(sets, seed)
    full_s = 0.8 * sum(times)
    kept_k, replay_k, choices_kd = pareto_points(sets, times, full_s, 3, max_points=0)
    size = {t.name: t.num_bytes.at(3) for t in layer.forward.tensors}
    saved_inputs = sum(t.num_bytes.at(3) for t in layer.saved_inputs)
    for kept, replay, choices in zip(kept_k, replay_k, choices_kd, strict=True):
        replayed = sets.replayed_ops(choices)
        assert replay == pytest.approx(min(full_s, sum(times[list(replayed)])))
        assert all(sets.ops[n].kind is not OpKind.VIEW for n in replayed)
        held = sum(size[name] for name in sets.kept_storages(choices)) + saved_inputs
        least = layer.input_bytes.at(3)
        assert kept == (least if min(choices, default=0) < 0 else max(held, least) if replayed else held)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 10**9))
def test_a_replay_never_holds_more_than_the_forward_pass_did(seed):
    """At no moment: what was kept, what is made again so far, and what the rest of the replay still reads."""
    layer = random_layer(seed)
    sets = keep_sets(layer, trifle_share=0.0)
    times = random_times(sets, seed)
    graph, saved = layer.forward, {t.name for t in layer.saved}
    shown = {graph.tensors[t].name: s for op in graph.ops if op.kind is OpKind.VIEW
             for t in op.outputs for s in op.inputs}  # fmt: skip

    def homes(numbers):
        names = [graph.tensors[t].name for t in numbers]
        return {graph.tensors[shown[name]].name if name in shown else name for name in names}

    size = {t.name: t.num_bytes.at(2) for t in graph.tensors}
    made = {t.name for t in graph.tensors if t.name.startswith("made")}
    _, _, choices_kd = pareto_points(sets, times, sum(times), 2, max_points=0)
    for choices in choices_kd:
        replayed, kept = sets.replayed_ops(choices), set(sets.kept_storages(choices)) & made
        for moment in range(len(graph.ops) + 1):
            before = {n for n in range(moment) if graph.ops[n].kind is not OpKind.VIEW}
            after = {n for n in range(moment, len(graph.ops)) if graph.ops[n].kind is not OpKind.VIEW}
            done = set().union(*(homes(graph.ops[n].outputs) for n in before & {*replayed}), set())
            wanted = set().union(*(homes(graph.ops[n].inputs) for n in after & {*replayed}), set())
            held = kept & saved | done & saved | (kept | done) & wanted - saved
            past = set().union(*(homes(graph.ops[n].outputs) for n in before), set())
            future = set().union(*(homes(graph.ops[n].inputs) for n in after), set())
            transient = past & future - saved
            assert sum(size[s] for s in held) <= sum(size[s] for s in saved | transient)


def block(name, tp=1, sequence_parallel=False):
    whole = shard_graph(load_model(name), tp, sequence_parallel)
    number = max(set(whole.layer_type_of), key=whole.layer_type_of.count)
    return fuse_graph(whole).layer_types[number], whole.layer_types[number]


@pytest.mark.parametrize(("name", "tp"), [("llama2-7b", 1), ("bert-large", 1), ("llama3-8b", 4)])
def test_no_set_of_operators_of_a_real_block_beats_the_front(name, tp):
    """Every subset of a block's operators and tails: what it does not make again is kept."""
    layer, unfused = block(name, tp)
    sets = keep_sets(layer, unfused, trifle_share=0.0)
    times = random_times(sets, 1)
    tensors = layer.forward.tensors
    # The sum over a group takes the place of what was summed.
    summed = {tensors[t].name: tensors[s].name for op in sets.ops if op.collective
              for s, t in zip(op.inputs, op.outputs, strict=True)}  # fmt: skip

    def home(number):
        name = tensors[number].storage or tensors[number].name
        return summed.get(name, name)

    candidates = [
        n for n, op in enumerate(sets.ops)
        if op.kind is not OpKind.VIEW and sets.replayed_hn[:, n].any()
    ]  # fmt: skip
    size = {t.name: t.num_bytes.at(1) for t in (*layer.saved, *layer.inputs)}
    free = {home(n) for n, t in enumerate(tensors) if t.role.value in ("parameter", "constant")}
    free |= {t.name for t in layer.saved_inputs}
    saved = {t.name for t in layer.saved}
    full = (layer.saved_bytes + layer.saved_input_bytes).at(1)
    best = {}
    for mask in range(1 << len(candidates)):
        replayed = [n for bit, n in enumerate(candidates) if mask >> bit & 1]
        made, read, extra = set(), {}, 0
        for n in replayed:
            for t in sets.ops[n].inputs:
                if home(t) not in made:
                    read[home(t)] = t
            made.update(home(t) for t in sets.ops[n].outputs)
        for name, t in read.items():
            if name not in free and name not in saved:
                extra += size.get(name, tensors[t].num_bytes.at(1))
        kept = full - sum(size[name] for name in saved & made) + extra
        # A product whose sum over the group is not done again has made nothing.
        if any(
            home(op.outputs[0]) in made and n not in replayed for n, op in enumerate(sets.ops) if op.collective
        ):
            continue
        time = sum(times[replayed])
        best[kept] = min(time, best.get(kept, np.inf))
    least = layer.input_bytes.at(1)
    found = front_of(sets, times, 1e9, 1)
    for kept, time in best.items():
        kept = max(kept, least) if time else kept
        assert any(other <= kept and replay <= time * (1 + 1e-12) for other, replay in found), (kept, time)
    for kept, replay in found[:-1]:
        assert best[kept] == pytest.approx(replay)
