"""Fused attention by hand: two heads of 32 queries and keys, of 8 numbers each, on arrays of 4 by 8."""

from dataclasses import replace

import numpy as np
import pytest

from rephaze.estimate.attention import attention_cost, attention_lane_cycles, attention_macs, computed_keys
from rephaze.estimate.vector_weights import lane_ops
from rephaze.types.graph import Affine, AttentionDims, Op, OpKind

DIMS = AttentionDims(
    batch=Affine(0, 1),
    num_heads=2,
    num_kv_heads=2,
    query_len=32,
    key_len=32,
    head_dim=8,
    value_dim=8,
    causal=False,
    backward=False,
)
SCORES = 2 * 32 * 32


def attention(dims=DIMS):
    return Op(
        name="a",
        target="rephaze.attention",
        kind=OpKind.ATTENTION,
        module="",
        attention=dims,
        input_bytes=Affine(0, 3072),
        output_bytes=Affine(0, 1024),
    )


@pytest.mark.parametrize(("key_len", "expected"), [(64, 64), (128, 128), (256, 192), (1024, 576)])
def test_a_causal_query_meets_half_the_keys_and_half_a_block(key_len, expected):
    assert computed_keys(replace(DIMS, key_len=key_len, causal=True)) == expected
    assert computed_keys(replace(DIMS, key_len=key_len)) == key_len


def test_two_products_forward_and_five_backward():
    assert attention_macs(DIMS, 3) == 3 * SCORES * 2 * 8
    # Scores again and gradients of queries and keys; gradients of scores and of values.
    assert attention_macs(replace(DIMS, backward=True, value_dim=16), 1) == SCORES * (3 * 8 + 2 * 16)


@pytest.mark.parametrize("key_len", [128, 1024, 4096, 4100])
@pytest.mark.parametrize("window_len", [1, 64, 128, 129, 1000, 5000])
def test_a_query_in_a_window_meets_the_blocks_that_the_window_touches(key_len, window_len):
    found = computed_keys(replace(DIMS, key_len=key_len, causal=True, window_len=window_len))
    # Row by row: the blocks from the first key that the block's first query sees to the block itself.
    met = []
    for row in range(key_len):
        block = row // 128
        first = max(0, block * 128 - window_len + 1) // 128
        met.append(128 * (block - first + 1))
    assert found == pytest.approx(sum(met) / key_len, rel=0.01)
    assert found <= computed_keys(replace(DIMS, key_len=key_len, causal=True))


def test_steps_of_a_ring_share_the_keys():
    for dims in (DIMS, replace(DIMS, causal=True, key_len=1024), replace(DIMS, causal=True, window_len=3)):
        parts = [replace(dims, num_ring_steps=steps, num_ring_members=4) for steps in (3, 1)]
        assert sum(map(computed_keys, parts)) == pytest.approx(computed_keys(dims))
        assert computed_keys(parts[0]) == pytest.approx(3 * computed_keys(parts[1]))


def test_lanes_do_the_softmax_and_backward_the_exponentials_again():
    lanes = np.array([16])
    assert attention_lane_cycles(attention(), 1, lanes).tolist() == [SCORES / 16 * lane_ops("softmax")]
    again = lane_ops("softmax_backward") + lane_ops("exp")
    assert attention_lane_cycles(attention(replace(DIMS, backward=True)), 1, lanes) == [SCORES / 16 * again]


def test_blocks_of_queries_spread_over_the_arrays(rates):
    # With lanes to spare: each of two products streams its rows through 8 tiles of the array.
    many_lanes = replace(rates, chips=replace(rates.chips, vector_lanes=np.array([4096])))
    cost = attention_cost(attention(), 1, many_lanes)
    assert cost.one_core.cycles_c.tolist() == [2 * 32 * 2 * 8]
    assert cost.all_cores.cycles_c.tolist() == [32 * 2 * 8]
    # Blocks of 16 rows, tried first, read keys and values of both heads twice; blocks of 32 would once.
    keys_and_values = 2 * 32 * 16 * 2
    assert cost.all_cores.hbm_bytes_c.tolist() == [4096]
    assert cost.all_cores.buffer_bytes_c.tolist() == [4096 + keys_and_values]


def test_few_lanes_hold_the_arrays_up(rates):
    few_lanes = replace(rates, chips=replace(rates.chips, vector_lanes=np.array([8])))
    cost = attention_cost(attention(), 4, few_lanes)
    assert cost.one_core.cycles_c.tolist() == [4 * SCORES / 8 * lane_ops("softmax")]
