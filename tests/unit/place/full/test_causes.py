"""Where the time of a batch goes, worked out by hand."""

import pytest

from rephaze.place.full.causes import causes_of
from rephaze.place.full.price import price_full_plan
from rephaze.types.full import PipelineSchedule, Sharding
from tests.kits.full_line import line, plan_of, problem_of


def causes(graph, plan, **given):
    problem = problem_of(graph, **given)
    price = price_full_plan(problem, graph, plan)
    found = causes_of(problem, graph, price)
    assert found.total_s == pytest.approx(price.batch_s, rel=1e-12)
    return {name: getattr(found, name) for name in found.__slots__ if getattr(found, name)}


def test_equal_stages_compute_the_work_over_pp_and_fill_the_pipeline():
    # 4 layers of 3 s, 8 microbatches: 8 * 12 / 4 of compute, 3 stages of 3 s to fill and drain.
    graph = line()
    assert causes(graph, plan_of(graph, 4)) == {"compute_s": 24.0, "bubble_s": 9.0}


def test_chunks_shorten_the_bubble():
    graph = line()
    assert causes(graph, plan_of(graph, 2, chunks=2)) == {"compute_s": 48.0, "bubble_s": 3.0}


def test_zero_bubble_leaves_the_ramp_that_weight_parts_do_not_fill():
    # Forward 1, input part 1, weight part 1: (pp - 1) * (1 + 1 - 1).
    graph = line()
    plan = plan_of(graph, 4, schedule=PipelineSchedule.ZERO_BUBBLE)
    assert causes(graph, plan) == {"compute_s": 24.0, "bubble_s": 3.0}


def test_replays_and_messages_are_told_apart():
    # 1e8 bytes at 1 GB/s: 0.1 s each way. The inner stages have both ways, and half a second of replay.
    graph = line(payload_bytes=1e8)
    found = causes(graph, plan_of(graph, 4, keep=1))
    assert found["compute_s"] == 24.0
    assert found["replay_s"] == 4.0
    assert found["messages_s"] == pytest.approx(8 * 0.2)
    # One inner stage of 3.7 s, the first and the last of 3.6 s.
    assert found["bubble_s"] == pytest.approx(3.7 + 3.6 + 3.6)


def test_weights_gathered_for_every_pass():
    # Two replicas, one layer a device of 4 GB: half of it, 2 s, to gather and as long to scatter (bf16).
    # Forward 2 + 1, backward 2 + 2, tail 2; the last of 4 tails is what sync waits for.
    graph = line(1, param_bytes=4e9)
    plan = plan_of(graph, 1, dp=2, sharding=Sharding.WEIGHTS, shard_group=2, reshard=True)
    found = causes(graph, plan)
    assert found == pytest.approx({"compute_s": 4 * 3.0, "gathers_s": 4 * 4.0 + 3 * 2.0, "sync_s": 2.0})


def test_what_happens_once_a_batch_is_as_priced():
    graph = line(1, param_bytes=4e9)
    found = causes(graph, plan_of(graph, 1, dp=2, sharding=Sharding.OPTIMIZER, shard_group=2))
    assert found == pytest.approx({"compute_s": 12.0, "sync_s": 2.0, "regather_s": 2.0})
