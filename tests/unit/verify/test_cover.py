"""Covers of a grid: what is whole passes, whatever is wrong with one is found, and fast."""

import random
import time

import numpy as np
import pytest

from rephaze.types.boxes import ClosedBox
from rephaze.verify.cover import overlaps, wrong_cover


def box(first, last):
    return ClosedBox(first=tuple(first), last=tuple(last), bound=1.0, closed_by="device time")


def random_cover(rng, shape, num):
    """Boxes cut from the whole, one at a time, anywhere."""
    boxes = [([0] * len(shape), [size - 1 for size in shape])]
    while len(boxes) < num:
        at = rng.randrange(len(boxes))
        first, last = boxes[at]
        wide = [f for f in range(len(shape)) if first[f] < last[f]]
        if not wide:
            continue
        f = rng.choice(wide)
        cut = rng.randrange(first[f], last[f])
        boxes[at] = (first, [*last[:f], cut, *last[f + 1 :]])
        boxes.append(([*first[:f], cut + 1, *first[f + 1 :]], last))
    return [box(*ends) for ends in boxes]


@pytest.mark.parametrize("seed", range(10))
def test_a_cover_and_what_is_wrong_with_it(seed):
    rng, shape = random.Random(seed), (6, 5, 4, 3)
    boxes = random_cover(rng, shape, rng.choice((1, 7, 120)))
    rng.shuffle(boxes)
    assert list(wrong_cover(shape, boxes)) == []
    assert list(wrong_cover(shape, boxes[1:]))
    assert "in common" in next(wrong_cover(shape, [*boxes, boxes[0]]))
    assert "no box of a grid" in next(wrong_cover((6, 5, 4, 2), boxes))
    assert "no box of a grid" in next(wrong_cover((6, 5, 4), boxes))


def test_a_point_covered_twice_does_not_make_up_for_one_left_out():
    boxes = [box((0, 0), (1, 0)), box((1, 0), (2, 0))]
    assert sum(one.num_points for one in boxes) == 4
    assert "in common" in next(wrong_cover((4, 1), boxes))


@pytest.mark.parametrize("seed", range(10))
def test_overlaps_are_found_as_by_looking_at_every_pair(seed):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 12, (300, 4))
    last = first + rng.integers(0, 2, (300, 4))
    meets = ((first[:, None] <= last[None]) & (first[None] <= last[:, None])).all(axis=2)
    want = {(a, b) for a, b in zip(*np.nonzero(meets), strict=True) if a < b}
    found = {tuple(sorted(pair)) for pair in overlaps(first, last)}
    assert found == want


def test_fifty_thousand_boxes_take_seconds():
    rng, shape = random.Random(1), (31, 4, 4, 8, 12, 47, 8)
    boxes = random_cover(rng, shape, 50_000)
    began = time.process_time()
    assert list(wrong_cover(shape, boxes)) == []
    assert time.process_time() - began < 20
    assert list(wrong_cover(shape, [*boxes[:-1], boxes[7]]))
