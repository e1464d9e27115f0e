import pytest

from rephaze.errors import SpecError, UnsupportedError
from rephaze.place.arrays import MAX_IDEALS, arrays_of, shape_of
from rephaze.types.placement import LayerCost, LayerGraph, LayerLink, TiedWeights


def graph_of(num_layers, pairs, tied=()):
    layers = tuple(
        LayerCost(
            name=f"l{v}", param_bytes=1.0 + v, activation_bytes=2.0, forward_s=1.0, backward_s=2.0,
            is_sharded=False,
        )
        for v in range(num_layers)
    )  # fmt: skip
    links = tuple(LayerLink(src=u, dst=v, payload_bytes=10.0 * u + v) for u, v in pairs)
    return LayerGraph(tp=1, microbatch=1, layers=layers, links=links, tied=tied)


def test_a_line_with_skips_is_a_line_in_whatever_order_it_is_listed():
    shape = shape_of(graph_of(4, [(2, 0), (0, 3), (3, 1), (2, 3)]))
    assert shape.is_line
    assert shape.order == (2, 0, 3, 1)
    assert shape.num_ideals == 5


def test_a_lone_layer_is_a_line():
    assert shape_of(graph_of(1, [])).is_line


def test_a_diamond_has_its_six_ideals():
    shape = shape_of(graph_of(4, [(0, 1), (0, 2), (1, 3), (2, 3)]))
    assert not shape.is_line
    sets = {tuple(row) for row in shape.members_kv.tolist()}
    assert sets == {(0, 0, 0, 0), (1, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0), (1, 1, 1, 0), (1, 1, 1, 1)}


def test_two_towers_have_the_product_of_their_cuts():
    pairs = [(v, v + 1) for v in range(4)] + [(5 + v, 6 + v) for v in range(4)]
    assert shape_of(graph_of(10, pairs)).num_ideals == 36


def test_a_cycle_is_refused_by_name():
    with pytest.raises(SpecError, match=r"l1.*cycle"):
        shape_of(graph_of(3, [(0, 1), (1, 2), (2, 1)]))


def test_too_much_branching_is_refused_with_the_limit():
    with pytest.raises(UnsupportedError, match=str(MAX_IDEALS)):
        shape_of(graph_of(20, []))


def test_links_are_kept_by_both_ends():
    graph = graph_of(3, [(0, 2), (0, 1), (1, 2)], tied=(TiedWeights(layers=(2, 0), param_bytes=0.5),))
    arrays = arrays_of(graph, shape_of(graph))
    assert arrays.entering.start_v.tolist() == [0, 0, 1, 3]
    assert arrays.entering.other.tolist() == [0, 0, 1]
    assert arrays.entering.payload_bytes.tolist() == [1.0, 2.0, 12.0]
    assert arrays.leaving.other.tolist() == [1, 2, 2]
    assert arrays.layers.input_bytes_v.tolist() == [0.0, 1.0, 14.0]
    assert arrays.ties.is_owner.tolist() == [0, 1]
