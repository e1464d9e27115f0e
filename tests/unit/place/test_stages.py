import pytest

from rephaze.errors import UnsupportedError
from rephaze.place.arrays import arrays_of, shape_of
from rephaze.place.stages import MAX_STAGES, depth_limit, tabulate_stages
from rephaze.place.tables import MemoryRules, Widths
from rephaze.types.placement import LayerCost, LayerGraph, LayerLink, TiedWeights


def line(num_layers, tied=()):
    layers = tuple(
        LayerCost(
            name=str(v), param_bytes=1.0, activation_bytes=4.0, forward_s=1.0, backward_s=1.0,
            is_sharded=False, input_bytes=1.0,
        )
        for v in range(num_layers)
    )  # fmt: skip
    links = tuple(LayerLink(src=v, dst=v + 1, payload_bytes=2.0) for v in range(num_layers - 1))
    return LayerGraph(tp=1, microbatch=1, layers=layers, links=links, tied=tied)


def tabulated(graph, memory_bytes, mode_limit_r=(100, 100, 100)):
    shape = shape_of(graph)
    rules = MemoryRules(memory_bytes=memory_bytes, resident_ratio=3.0, is_paper=False, mode_limit_r=mode_limit_r)
    widths = Widths(common_devices=1, rare_devices=1, num_rare_most=0, num_devices=100)
    return tabulate_stages(arrays_of(graph, shape), shape, rules, widths)


def table_of(graph, memory_bytes, mode_limit_r=(100, 100, 100)):
    return tabulated(graph, memory_bytes, mode_limit_r)[0]


@pytest.mark.parametrize("memory", [9.9, 10.0, 13.0, 13.5, 40.0])
def test_the_depth_limit_is_the_last_that_fits(memory):
    fits = [q for q in range(1, 6) if 10.0 + (q - 1) * 3.0 <= memory]
    assert depth_limit(10.0, 3.0, memory, 5) == max(fits, default=0)


def test_a_mode_that_is_not_allowed_never_fits():
    assert depth_limit(10.0, 3.0, 1000.0, 0) == 0


def test_limits_by_recompute_mode():
    table = table_of(line(3), memory_bytes=30.0)
    # One layer: 3 resident; none 4 a microbatch; block 1 and a peak of 3; stage 2, its input (first: 1).
    assert table.limit_er[table.start_k[1]].tolist() == [6, 24, 12]
    assert table.limit_er[table.start_k[0]].tolist() == [6, 24, 24]
    # Two layers: 6 resident; none 8; block 2 and 3; stage 8 at once and 2 each.
    assert table.limit_er[table.start_k[1] + 1].tolist() == [3, 10, 9]


def test_rows_end_where_nothing_fits():
    table = table_of(line(4), memory_bytes=10.0, mode_limit_r=(100, 0, 0))
    assert [table.start_k[k + 1] - table.start_k[k] for k in range(4)] == [1, 1, 1, 1]
    table = table_of(line(4), memory_bytes=2.0)
    assert len(table.end_e) == 0


def test_a_copy_of_tied_weights_counts_only_away_from_their_owner():
    tied = (TiedWeights(layers=(2, 0, 1), param_bytes=0.5),)
    table, copies = tabulated(line(3, tied), memory_bytes=1e6)
    held = {
        (k, int(table.end_e[e])): (float(table.param_bytes_e[e]), int(copies.num_copied_e[e]))
        for k in range(3)
        for e in range(table.start_k[k], table.start_k[k + 1])
    }
    assert held[0, 1] == (1.5, 1)
    assert held[0, 2] == (2.5, 1)
    assert held[0, 3] == (3.0, 0)
    assert held[2, 3] == (1.0, 0)


def test_too_many_stages_are_refused_with_the_limit():
    towers = line(160)
    links = tuple(link for link in towers.links if link.src != 79)
    graph = LayerGraph(tp=1, microbatch=1, layers=towers.layers, links=links)
    with pytest.raises(UnsupportedError, match=str(MAX_STAGES)):
        table_of(graph, 1e6)
