"""Boxes expanded more than once before anybody is told: work enough for every one of many workers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rephaze.search.system_evaluator import AnyBoxEvaluator
from rephaze.types.boxes import Expansion, Goal, OpenBox
from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal

FEW_WORKERS = 2
"""More than these are given boxes to be expanded more than once."""
BOXES_EACH = 16
"""That every worker is to look at between two waves."""
MOST_ROUNDS = 6


def num_rounds(num_boxes: int, num_workers: int) -> int:
    """How often boxes of a wave are expanded, so that each worker has enough of them: two come of each at most."""
    rounds = 1
    while num_workers > FEW_WORKERS and rounds < MOST_ROUNDS and num_boxes << rounds <= num_workers * BOXES_EACH:
        rounds += 1
    return rounds


def expand_in_rounds(
    evaluator: AnyBoxEvaluator, boxes: Sequence[OpenBox], goal: Goal, rounds: int, stop: StopSignal = UNSTOPPED
) -> list[Expansion]:
    """What becomes of each box, and of what stays open of it.

    Args:
        evaluator: Of the search.
        boxes: The boxes.
        goal: What designs must reach.
        rounds: How often what may reach it is expanded.
        stop: Ends the work with what is known; with ``StoppedError`` before the first round is done.
    """
    found = evaluator.expand(boxes, goal, stop)
    for _ in range(rounds - 1):
        left = [[box for box in one.open if _is_for_more(box, goal)] for one in found]
        asked = [box for own in left for box in own]
        if not asked:
            break
        try:
            answers = evaluator.expand(asked, goal, stop)
        except StoppedError:
            break
        ends = [0]
        for own in left:
            ends.append(ends[-1] + len(own))
        found = [
            _with_more(one, goal, answers[first:last])
            for one, (first, last) in zip(found, pairwise(ends), strict=True)
        ]
    return found


def _is_for_more(box: OpenBox, goal: Goal) -> bool:
    return not box.is_ready and box.upper >= goal.threshold


def _with_more(one: Expansion, goal: Goal, answers: Sequence[Expansion]) -> Expansion:
    """An expansion with what became of its boxes that were expanded again."""
    kept = tuple(box for box in one.open if not _is_for_more(box, goal))
    return Expansion(
        closed=(*one.closed, *(box for answer in answers for box in answer.closed)),
        open=(*kept, *(box for answer in answers for box in answer.open)),
    )
