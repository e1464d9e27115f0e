import numpy as np
import pytest

from rephaze.errors import SpecError
from rephaze.schedule.structure import compile_structure, largest_antichain, series_parts
from rephaze.types.latency import Engine

T, V, F, N = Engine.TENSOR, Engine.VECTOR, Engine.FUSED, Engine.NONE


def parts_of(engines, edges, dropped=()):
    structure = compile_structure(engines, edges)
    kept = structure.takes_time.copy()
    kept[structure.place[list(dropped)]] = False
    return [sorted(part.ops.tolist()) for part in series_parts(structure, kept)]


def test_a_chain_falls_into_single_ops():
    assert parts_of([T, V, F], [(0, 1), (1, 2)]) == [[0], [1], [2]]


def test_branches_stay_together_between_cuts():
    # 0 -> (1 | 2 -> 3) -> 4
    assert parts_of([T] * 5, [(0, 1), (0, 2), (2, 3), (1, 4), (3, 4)]) == [[0], [1, 2, 3], [4]]


def test_paths_through_views_still_precede():
    assert parts_of([T, N, V], [(0, 1), (1, 2)]) == [[0], [2]]


def test_contracting_an_operator_of_no_duration_opens_a_cut():
    edges = [(0, 1), (1, 3), (2, 3)]
    assert parts_of([T, T, T, T], edges) == [[0, 1, 2], [3]]
    assert parts_of([T, T, T, T], edges, dropped=[2]) == [[0], [1], [3]]


def test_immediate_predecessors_leave_out_what_others_imply():
    structure = compile_structure([T] * 4, [(0, 1), (1, 2), (0, 2)])  # op 3 is free: one part
    (part,) = series_parts(structure, structure.takes_time)
    place = {op: i for i, op in enumerate(part.ops.tolist())}
    preds = part.pred_index[part.pred_start[place[2]] : part.pred_start[place[2] + 1]]
    assert preds.tolist() == [place[1]]


def test_widths_are_largest_antichains():
    structure = compile_structure([T, T, V, V, F], [(0, 2), (1, 2)])
    (part,) = series_parts(structure, structure.takes_time)
    assert part.tensor_width == 3  # 0, 1 and the fused op
    assert part.vector_width == 3  # 2, 3 and the fused op
    assert part.width == 4


def test_a_cycle_is_named():
    with pytest.raises(SpecError, match=r"(a -> b|b -> c|c -> a).*must form no cycle"):
        compile_structure([T, T, T, V], [(0, 1), (1, 2), (2, 0), (2, 3)], ["a", "b", "c", "d"])


def test_an_edge_from_an_op_to_itself_is_a_cycle():
    with pytest.raises(SpecError, match="a -> a"):
        compile_structure([T], [(0, 0)], ["a"])


@pytest.mark.parametrize(("size", "width"), [(1, 1), (6, 6)])
def test_antichain_without_precedence_is_everything(size, width):
    assert largest_antichain(np.zeros((size, size), dtype=bool)) == width


def test_antichain_of_two_chains_is_two():
    before = np.zeros((6, 6), dtype=bool)
    for chain in ([0, 1, 2], [3, 4, 5]):
        for k, i in enumerate(chain):
            before[i, chain[:k]] = True
    assert largest_antichain(before) == 2


def test_more_than_64_ops_use_several_words():
    edges = [(0, o) for o in range(1, 100)]
    structure = compile_structure([T] * 100 + [V], edges)
    (part,) = series_parts(structure, structure.takes_time)
    assert part.ancestors_iw.shape == (101, 2)
    root = part.ops.tolist().index(0)
    counts = [sum(int(word).bit_count() for word in row) for row in part.ancestors_iw]
    assert counts[root] == 0
    assert sorted(counts) == [0, 0] + [1] * 99
