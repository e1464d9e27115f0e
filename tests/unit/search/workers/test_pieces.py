"""Boxes dealt out to workers."""

import pytest

from rephaze.search.workers.base import PIECE_BOXES, PIECES_EACH, box_pieces, joined_pieces


@pytest.mark.parametrize("num_workers", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("num_boxes", [1, 2, 7, 8, 129, 1000, 5000])
def test_every_box_is_in_one_piece_and_its_answer_in_its_place(num_boxes, num_workers):
    boxes = list(range(num_boxes))
    pieces = box_pieces(boxes, num_workers)
    assert sorted(box for piece in pieces for box in piece) == boxes
    assert max(map(len, pieces)) <= PIECE_BOXES
    assert joined_pieces(num_boxes, [[-box for box in piece] for piece in pieces]) == [-box for box in boxes]


def test_what_was_cut_has_no_answer():
    boxes = list(range(20))
    pieces = box_pieces(boxes, 3)
    assert len(pieces) > 2
    found = joined_pieces(20, [None if at == 1 else list(piece) for at, piece in enumerate(pieces)])
    assert [box for box, one in zip(boxes, found, strict=True) if one is None] == list(pieces[1])
    assert all(one in (None, box) for box, one in zip(boxes, found, strict=True))


def test_two_workers_get_what_one_gets_and_many_get_pieces_of_their_own():
    boxes = list(range(1024))
    assert box_pieces(boxes, 1) == box_pieces(boxes, 2)
    assert len(box_pieces(boxes, 64)) == 64 * PIECES_EACH
    assert len(box_pieces(boxes[:100], 64)) == 100, "one each: they are expanded more than once"
