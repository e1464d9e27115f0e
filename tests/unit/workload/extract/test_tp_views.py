"""Layouts through views, by hand; the property test checks them element by element."""

import pytest

from rephaze.workload.extract.tp_views import Shard, ShardingConflictError, cut, through_view


def test_columns_become_heads():
    heads = through_view("view", ((2, 8, 4, 16),), Shard(dim=2, num_units=64), (2, 8, 64), (2, 8, 4, 16))
    assert (heads.dim, heads.num_units, heads.outer) == (2, 4, 1)


def test_heads_merged_with_the_batch_keep_their_number():
    merged = through_view("view", ((8, 6, 16),), Shard(dim=1, num_units=4), (2, 4, 6, 16), (8, 6, 16))
    assert (merged.dim, merged.num_units, merged.outer) == (0, 4, 2)
    back = through_view("view", ((2, 4, 6, 16),), merged, (8, 6, 16), (2, 4, 6, 16))
    assert (back.dim, back.num_units, back.outer) == (1, 4, 1)


def test_transpose_permute_and_unsqueeze_move_the_axis():
    shard = Shard(dim=2, num_units=4)
    assert through_view("transpose", (1, 2), shard, (2, 8, 4, 16), (2, 4, 8, 16)).dim == 1
    assert through_view("permute", ((2, 0, 1, 3),), shard, (2, 8, 4, 16), (4, 2, 8, 16)).dim == 0
    assert through_view("unsqueeze", (0,), shard, (2, 8, 4), (1, 2, 8, 4)).dim == 3
    assert through_view("t", (), Shard(dim=0, num_units=8), (8, 4), (4, 8)).dim == 1


def test_a_packed_weight_is_cut_into_parts_dealt_out_alike():
    part = cut(Shard(dim=1, num_units=3 * 64), 3 * 64, 64)
    assert part.num_units == 64


def test_selecting_from_the_dealt_out_axis_is_a_conflict_that_names_the_weight():
    shard = Shard(dim=1, num_units=4, blame=frozenset({"q.weight"}))
    with pytest.raises(ShardingConflictError) as caught:
        through_view("select", (1, 0), shard, (2, 4, 8), (2, 8))
    assert caught.value.blame == {"q.weight"}


def test_a_view_that_mixes_chips_is_a_conflict():
    with pytest.raises(ShardingConflictError):
        through_view("view", ((4, 9),), Shard(dim=0, num_units=6), (6, 6), (4, 9))


def test_a_strided_view_that_cuts_another_axis_keeps_the_shard():
    shard = Shard(dim=1, num_units=4, blame=frozenset({"w"}))
    assert through_view("as_strided", (), shard, (2, 4, 6, 8), (2, 4, 6, 3)) == shard
    assert through_view("as_strided", (), shard, (2, 4, 6, 3), (2, 4, 6, 8)) == shard
    for out in ((2, 3, 6, 8), (2, 4, 5, 7), (8, 6, 8)):
        with pytest.raises(ShardingConflictError):
            through_view("as_strided", (), shard, (2, 4, 6, 8), out)
