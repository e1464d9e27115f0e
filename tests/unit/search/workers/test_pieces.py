"""Boxes dealt out to workers."""

from dataclasses import replace

import pytest

from rephaze.search.workers.base import (
    MANY_PIECE_BOXES,
    MANY_PIECES_EACH,
    PIECE_BOXES,
    PIECES_EACH,
    box_pieces,
    in_order,
    joined_pieces,
    longest_first,
)
from rephaze.types.boxes import OpenBox, UnitTimes


def open_boxes(num, num_models=1):
    times = (UnitTimes(unit_u=(0,), batch_s_u=(1.0,), others_s=2.0),) * num_models
    return [OpenBox(first=(at,), last=(at,), upper=1.0, bounded_by="", times=times) for at in range(num)]


@pytest.mark.parametrize(("num_models", "most"), [(1, PIECE_BOXES), (9, MANY_PIECE_BOXES)])
@pytest.mark.parametrize("num_workers", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("num_boxes", [1, 2, 7, 8, 129, 1000, 5000])
def test_every_box_is_in_one_piece_and_its_answer_in_its_place(num_boxes, num_workers, num_models, most):
    boxes = open_boxes(num_boxes, num_models)
    pieces = box_pieces(boxes, num_workers)
    assert sorted(box.first for piece in pieces for box in piece) == [box.first for box in boxes]
    assert max(map(len, pieces)) <= most
    numbers = [box.first[0] for box in boxes]
    assert joined_pieces(num_boxes, [[box.first[0] for box in piece] for piece in pieces]) == numbers


def test_what_was_cut_has_no_answer():
    boxes = open_boxes(20)
    pieces = box_pieces(boxes, 3)
    assert len(pieces) > 2
    found = joined_pieces(20, [None if at == 1 else list(piece) for at, piece in enumerate(pieces)])
    assert [box for box, one in zip(boxes, found, strict=True) if one is None] == list(pieces[1])
    assert all(one in (None, box) for box, one in zip(boxes, found, strict=True))


def test_two_workers_get_what_one_gets_and_many_get_pieces_of_their_own():
    boxes = open_boxes(1024)
    assert box_pieces(boxes, 1) == box_pieces(boxes, 2)
    assert len(box_pieces(boxes, 64)) == 64 * PIECES_EACH
    assert len(box_pieces(boxes[:100], 64)) == 100, "one each: they are expanded more than once"
    assert len(box_pieces(open_boxes(1024, num_models=2), 64)) == 64 * MANY_PIECES_EACH


def test_what_takes_longest_is_given_out_first_and_answers_find_their_places():
    box = open_boxes(1)[0]
    bounded = [("layer bounds", 3.0), ("mapped operators", 1.0), ("hurried schedules", 2.0), ("device time", 4.0)]
    pieces = [[replace(box, bounded_by=name, upper=upper)] for name, upper in bounded]
    order = longest_first(pieces)
    assert order == [2, 1, 3, 0]
    assert in_order(order, [pieces[p][0].upper for p in order]) == [3.0, 1.0, 2.0, 4.0]
