"""What a run by boxes tells of each field: how near designs come to the answer with each of its values.

Axis letters: b = box, d = design, f = field.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rephaze.hardware.grid import FIELDS, DesignGrid
from rephaze.hardware.space import within_limits
from rephaze.search.evaluator import Preparation
from rephaze.store.reader import RunReader
from rephaze.study.yardstick import Yardstick
from rephaze.types.boxes import FieldReach, FieldReaches, Position
from rephaze.types.comparison import ChipAnswer
from rephaze.types.search import SearchSettings
from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal


def field_reaches(run: RunReader, budget_s: float = 0.0, stop: StopSignal = UNSTOPPED) -> FieldReaches:
    """One record for each field that a run by boxes varies; none of a run through a list, or without an answer.

    Args:
        run: The run.
        budget_s: Time for measuring the winner with one field changed, after the first, which always is.
        stop: Ends the measuring.
    """
    closed, left, result = run.closed_boxes(), run.open_boxes(), run.result()
    if not (closed or left) or result is None or result.design is None:
        return FieldReaches(fields=(), changed=())
    settings = run.info().settings
    grid = DesignGrid(settings.scenario.space)
    ends_bef = np.array([(box.first, box.last) for box in closed] + [(box.first, box.last) for box in left])
    # Nothing does better than the bound of the search, whatever was known of a box when it stopped.
    upper_b = np.minimum([box.bound for box in closed] + [box.upper for box in left], result.bound)
    solved = [item for item in run.evaluations() if item.is_exact and item.objective > 0]
    at_df = grid.positions(np.array([item.design for item in solved], dtype=np.int64))
    objective_d = np.array([item.objective for item in solved])
    answer = grid.position_of(result.design)
    known = {grid.position_of(item.design): item.objective for item in solved}
    measured = _measured(settings, grid, answer, known, budget_s, stop)
    changed = known | {position: one.objective for position, one in measured.items()}
    found = []
    for f, name in enumerate(FIELDS):
        # Sides of another kind come last in the grid.
        order = np.argsort(grid.values[f], kind="stable").tolist()
        if len(order) < 2:
            continue
        inside = [(ends_bef[:, 0, f] <= at) & (at <= ends_bef[:, 1, f]) for at in order]
        moved = [(*answer[:f], at, *answer[f + 1 :]) for at in order]
        found.append(
            FieldReach(
                field=name,
                values=tuple(int(grid.values[f][at]) for at in order),
                bound=tuple(float(upper_b[is_inside_b].max(initial=0.0)) for is_inside_b in inside),
                solved=tuple(float(objective_d[at_df[:, f] == at].max(initial=0.0)) for at in order),
                changed=tuple(changed.get(position) for position in moved),
                fits=tuple(within_limits(grid.space, grid.chips(np.array(moved))).tolist()),
                position=order.index(answer[f]),
            )
        )
    return FieldReaches(fields=tuple(found), changed=tuple(_without_stages(one) for one in measured.values()))


def _without_stages(answer: ChipAnswer) -> ChipAnswer:
    """Plans as a picture of many chips needs them."""
    return replace(answer, plans=tuple(plan and replace(plan, stages=()) for plan in answer.plans))


def _measured(
    settings: SearchSettings,
    grid: DesignGrid,
    answer: Position,
    known: Mapping[Position, float],
    budget_s: float,
    stop: StopSignal,
) -> dict[Position, ChipAnswer]:
    """The winner with one field changed, the nearest values of all fields first, within a budget."""
    found: dict[Position, ChipAnswer] = {}
    if budget_s <= 0:
        return found
    moves = [
        (abs(at - answer[f]), f, (*answer[:f], at, *answer[f + 1 :]))
        for f, size in enumerate(grid.shape)
        for at in range(size)
    ]
    try:
        yardstick = Yardstick(Preparation(settings, stop))
        for _, _, position in sorted(move for move in moves if move[2] not in known):
            chip = grid.chip(grid.design_at(position))
            found[position] = yardstick.with_searched_plans(chip)
            if len(found) == 1:
                began = time.perf_counter()  # what loading took is nobody's fault
            if time.perf_counter() - began > budget_s:
                break
    except StoppedError:
        pass
    return found
