"""Boxes dealt out: by what is known of them, whoever works."""

import pytest

from rephaze.search import box_waves
from rephaze.search.box_waves import (
    DEAR_PIECE_BOXES,
    PIECE_BOXES,
    QUICK_PIECE_BOXES,
    batch_size,
    box_pieces,
    wave_size,
)
from rephaze.types.boxes import OpenBox


def open_boxes(num):
    """Of every third it took mapped products to bound it."""
    names = ["device time", "mapped operators", "layer bounds"]
    return [
        OpenBox(first=(at,), last=(at,), upper=float(num - at % 7), bounded_by=names[at % 3], times=())
        for at in range(num)
    ]


@pytest.mark.parametrize("is_dear", [False, True])
@pytest.mark.parametrize("num_boxes", [0, 1, 2, 7, 8, 129, 1000, 5000])
def test_every_box_is_in_one_piece(num_boxes, is_dear):
    boxes = open_boxes(num_boxes)
    pieces = box_pieces(boxes, is_dear=is_dear)
    assert sorted(box.first for piece in pieces for box in piece) == [box.first for box in boxes]
    assert all(pieces), "no piece is empty"
    assert max(map(len, pieces), default=0) <= (QUICK_PIECE_BOXES if is_dear else PIECE_BOXES)
    assert len(pieces) > 1 or num_boxes < 8


def test_what_takes_longest_is_given_out_first_in_small_pieces():
    pieces = box_pieces(open_boxes(300), is_dear=True)
    took_finer = [[box.bounded_by in box_waves.DEAR for box in piece] for piece in pieces]
    assert all(len(set(one)) == 1 for one in took_finer)
    is_dear = [one[0] for one in took_finer]
    assert is_dear == sorted(is_dear, reverse=True)
    dear = [piece for piece, is_one in zip(pieces, is_dear, strict=True) if is_one]
    assert max(map(len, dear)) == DEAR_PIECE_BOXES
    assert [piece[0].upper for piece in dear] == sorted((piece[0].upper for piece in dear), reverse=True)


def test_waves_and_batches_follow_what_is_open():
    assert wave_size(10_000, is_dear=False) == 2_500
    assert wave_size(10, is_dear=False) == box_waves.LEAST_WAVE
    assert wave_size(100_000, is_dear=False) == box_waves.MOST_WAVE
    assert wave_size(10, is_dear=True) == wave_size(100_000, is_dear=True) == box_waves.DEAR_WAVE
    assert batch_size(3) == box_waves.LEAST_BATCH
    assert batch_size(400) == 100
