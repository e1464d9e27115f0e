"""How many boxes are looked at together, and how they are dealt out: by the search's own state alone.

Who works, and how many, must not change what is looked at: a search is to be the same box by box on a laptop and
on a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

from rephaze.measure.best_plan import STAGE_NAMES, Stage
from rephaze.types.boxes import OpenBox

LEAST_WAVE, MOST_WAVE = 256, 4096
WAVE_PART = 4
"""One such part of the open boxes is expanded at a time, within these limits: the rest may not matter any more
once there is a better answer."""
DEAR_WAVE = 1024
"""Where boxes are brought below margins, so many: what lies above a margin has to be looked at in any case."""
PIECE_BOXES = 128
"""Most boxes expanded together: their bounds are found together, with less work each the more they are."""
QUICK_PIECE_BOXES, DEAR_PIECE_BOXES = 32, 2
"""Where a look at a box is dear: of those that coarse bounds may close, of those that took finer ones before."""
LEAST_TO_DIVIDE = 8
"""So many boxes are worth two pieces."""
LEAST_BATCH, BATCH_PART = 8, 4
"""Designs solved between two looks at the answer: one such part of those to be solved, and so many at least."""
DEAR = frozenset(STAGE_NAMES[Stage.MAPPED :])
"""Bounds of boxes that take long to look at again."""


def wave_size(num_open: int, *, is_dear: bool) -> int:
    """How many of the open boxes are expanded together."""
    return DEAR_WAVE if is_dear else min(max(LEAST_WAVE, num_open // WAVE_PART), MOST_WAVE)


def batch_size(num_ready: int) -> int:
    """How many of the designs to be solved are solved together."""
    return max(LEAST_BATCH, num_ready // BATCH_PART)


def box_pieces(boxes: Sequence[OpenBox], *, is_dear: bool) -> list[Sequence[OpenBox]]:
    """A wave in pieces, in the order they are to be given out: nobody should wait for one that began last.

    What could only be bounded by mapped products or finer takes five to ten times as long as what has coarser
    bounds, which halves mostly close; and the better such a box may be, the more of it is looked at.
    """
    if not is_dear:
        return _dealt(boxes, PIECE_BOXES)
    dear = [box for box in boxes if box.bounded_by in DEAR]
    quick = [box for box in boxes if box.bounded_by not in DEAR]
    dear.sort(key=lambda box: box.upper, reverse=True)
    return [*_dealt(dear, DEAR_PIECE_BOXES), *_dealt(quick, QUICK_PIECE_BOXES)]


def _dealt(boxes: Sequence[OpenBox], most: int) -> list[Sequence[OpenBox]]:
    """Dealt out one by one: neighbours in the order of bounds take about as long."""
    least = 2 if len(boxes) >= LEAST_TO_DIVIDE else 1
    num_pieces = min(max(-(-len(boxes) // most), least), len(boxes))
    return [boxes[start::num_pieces] for start in range(num_pieces)]
