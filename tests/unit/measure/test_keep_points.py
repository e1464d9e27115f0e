"""The front of kept bytes against replay time, by hand and on shipped models."""

import numpy as np
import pytest

from rephaze.measure.keep_points import LEAST, pareto_points
from rephaze.types.graph import Affine, OpGraph
from rephaze.workload import fuse_graph, load_model, shard_graph
from rephaze.workload.passes.keep_sets import KeepSets, keep_sets


def by_hand(least_bytes=2, num_ops=3, full_bytes=20):
    """Two decisions: the first frees 5 or 8 bytes, the second 4; the inputs alone are ``least_bytes``."""
    replayed = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1]], dtype=bool)
    return KeepSets(
        ops=(None,) * num_ops,
        tails=OpGraph(ops=(), edges=()),
        full_bytes=Affine(0, full_bytes),
        least_bytes=Affine(0, least_bytes),
        least_replayed_n=np.ones(3, dtype=bool),
        first_choice_d=np.array([0, 3, 5]),
        const_bytes_h=np.zeros(5, dtype=np.int64),
        per_sample_bytes_h=np.array([0, -5, -8, 0, -4]),
        replayed_hn=replayed,
        dropped_h=((), ("a",), ("a", "b"), (), ("c",)),
        added_h=((), (), (), (), ("d",)),
        saved=("a", "b", "c"),
    )


def rows(points):
    kept, replay, choices = points
    return [(int(b), float(s), tuple(c)) for b, s, c in zip(kept, replay, choices.tolist(), strict=True)]


def test_a_front_by_hand():
    sets = by_hand()
    times = np.array([1.0, 2.0, 2.5])
    kept, replay, choices = pareto_points(sets, times, 100.0, 1)
    # Behind are 16 bytes after 2.5 s, and, with the operators that the inputs alone need, 8 bytes after 5.5 s.
    assert rows((kept, replay, choices)) == [
        (20, 0.0, (0, 0)),
        (15, 1.0, (1, 0)),
        (12, 3.0, (2, 0)),
        (11, 3.5, (1, 1)),
        (2, 5.5, (LEAST, LEAST)),
    ]
    assert sets.replayed_ops(choices[3]) == (0, 2)
    assert sets.kept_storages(choices[3]) == ("b", "d")


def test_bytes_follow_the_microbatch_and_times_do_not_pass_the_forward_pass():
    kept, replay, choices = pareto_points(by_hand(), np.array([1.0, 2.0, 2.5]), 3.0, 4)
    # Whatever takes as long as the whole forward pass is had with the least bytes.
    assert rows((kept, replay, choices)) == [(80, 0.0, (0, 0)), (60, 1.0, (1, 0)), (8, 3.0, (LEAST, LEAST))]


def test_a_set_that_replays_anything_counts_the_inputs_at_least():
    points = rows(pareto_points(by_hand(least_bytes=12), np.array([1.0, 2.0, 0.5]), 100.0, 1))
    # The sets of 12 and of 11 bytes: the quicker one stands for the inputs' 12.
    assert points == [(20, 0.0, (0, 0)), (16, 0.5, (0, 1)), (15, 1.0, (1, 0)), (12, 1.5, (1, 1))]
    assert rows(pareto_points(by_hand(least_bytes=25), np.ones(3), 9.0, 1)) == [(20, 0.0, (0, 0))]


def test_a_long_front_is_thinned_at_even_bytes_and_keeps_its_ends():
    whole = shard_graph(load_model("mixtral-8x7b"), 2)
    sets = keep_sets(fuse_graph(whole).layer_types[1], whole.layer_types[1])
    times = np.array([1e-6 + op.num_flops.at(1) / 1e14 + op.output_bytes.at(1) / 1e12 for op in sets.ops])
    all_of_them = rows(pareto_points(sets, times, 1e9, 1, max_points=0))
    assert len(all_of_them) > 32
    for most in (2, 5, 12, 32):
        few = rows(pareto_points(sets, times, 1e9, 1, max_points=most))
        assert set(few) <= set(all_of_them)
        assert (few[0], few[-1]) == (all_of_them[0], all_of_them[-1])
        assert len(few) <= most
        step = (few[0][0] - few[-1][0]) / (most - 1)
        for kept, replay, _ in all_of_them:
            # With a step more of memory, a point that stays is no slower than one that is left out.
            assert any(other <= kept + step and time <= replay for other, time, _ in few)
    assert pareto_points(sets, times, 1e9, 1)[0].size <= 32


@pytest.mark.parametrize("name", ["llama2-7b", "gpt3-175b", "t5-large", "bert-large", "vit-large"])
def test_fronts_of_shipped_models_run_from_none_to_block(name):
    whole = load_model(name)
    fused = fuse_graph(whole)
    for layer, unfused in zip(fused.layer_types, whole.layer_types, strict=True):
        sets = keep_sets(layer, unfused)
        times = np.array([1e-6 + op.num_flops.at(2) / 1e14 for op in sets.ops])
        kept, replay, _ = pareto_points(sets, times, float(times.sum()), 2, max_points=0)
        none, block = (layer.saved_bytes + layer.saved_input_bytes).at(2), layer.input_bytes.at(2)
        assert kept[0] == none
        assert replay[0] == 0.0
        assert kept[-1] == (block if layer.saved and block < none else none)
        assert (np.diff(kept) < 0).all()
        assert (np.diff(replay) > 0).all()
