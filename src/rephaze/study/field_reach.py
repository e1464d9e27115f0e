"""What a run by boxes tells of each field: how near the best came with each of its values.

Axis letters: b = box, f = field.
"""

from __future__ import annotations

import numpy as np

from rephaze.hardware.grid import FIELDS, DesignGrid
from rephaze.store.reader import RunReader
from rephaze.types.boxes import FieldReach


def field_reaches(run: RunReader) -> tuple[FieldReach, ...]:
    """One record for each field that a run by boxes varies; none of a run through a list, or without an answer."""
    closed, left, result = run.closed_boxes(), run.open_boxes(), run.result()
    if not (closed or left) or result is None or result.design is None:
        return ()
    grid = DesignGrid(run.info().settings.scenario.space)
    ends = [(box.first, box.last) for box in closed] + [(box.first, box.last) for box in left]
    ends_bef = np.array(ends, dtype=np.int64)
    # Nothing does better than the bound of the search, whatever was known of a box when it stopped.
    upper_b = np.minimum([box.bound for box in closed] + [box.upper for box in left], result.bound)
    solved = [item for item in run.evaluations() if item.is_exact and item.objective > 0]
    at_df = grid.positions(np.array([item.design for item in solved], dtype=np.int64))
    objective_d = np.array([item.objective for item in solved])
    answer = grid.position_of(result.design)
    found = []
    for f, name in enumerate(FIELDS):
        # Sides of another kind come last in the grid.
        order = np.argsort(grid.values[f], kind="stable").tolist()
        if len(order) < 2:
            continue
        inside = [(ends_bef[:, 0, f] <= at) & (at <= ends_bef[:, 1, f]) for at in order]
        found.append(
            FieldReach(
                field=name,
                values=tuple(int(grid.values[f][at]) for at in order),
                solved=tuple(float(objective_d[at_df[:, f] == at].max(initial=0.0)) for at in order),
                bound=tuple(float(upper_b[is_inside_b].max(initial=0.0)) for is_inside_b in inside),
                answer=order.index(answer[f]),
            )
        )
    return tuple(found)
