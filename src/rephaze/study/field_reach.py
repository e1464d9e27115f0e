"""What a run by boxes tells of each field: how near designs come to the answer with each of its values.

Axis letters: b = box, d = design, f = field.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.grid import FIELDS
from rephaze.hardware.space import within_limits
from rephaze.hardware.system_grid import AnyGrid, SystemGrid
from rephaze.search.evaluator import Preparation
from rephaze.search.systems import grid_of, system_settings
from rephaze.store.reader import RunReader
from rephaze.study.yardstick import Yardstick
from rephaze.types.boxes import FieldReach, FieldReaches, Position
from rephaze.types.comparison import ChipAnswer
from rephaze.types.search import SearchSettings
from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class _Axis:
    """One field along which the answer may be moved."""

    name: str
    values: tuple[int, ...]
    """Ascending."""
    moved: tuple[Position, ...]
    """The answer with each of them."""
    has_value: tuple[Flags, ...]
    """Of each value, by position of the grid's own axis, whether it is there."""
    grid_axis: int


def field_reaches(run: RunReader, budget_s: float = 0.0, stop: StopSignal = UNSTOPPED) -> FieldReaches:
    """One record for each field that a run by boxes varies; none of a run through a list, or without an answer.

    Args:
        run: The run.
        budget_s: Time for measuring the winner with one field changed, after the first, which always is; what is
            under way then is left out.
        stop: Ends the measuring.
    """
    closed, left, result = run.closed_boxes(), run.open_boxes(), run.result()
    if not (closed or left) or result is None or result.design is None:
        return FieldReaches(fields=(), changed=())
    settings = run.info().settings
    grid = grid_of(settings)
    ends_bef = np.array([(box.first, box.last) for box in closed] + [(box.first, box.last) for box in left])
    # Nothing does better than the bound of the search, whatever was known of a box when it stopped.
    upper_b = np.minimum([box.bound for box in closed] + [box.upper for box in left], result.bound)
    solved = [item for item in run.evaluations() if item.is_exact and item.objective > 0]
    at_df = grid.positions(np.array([item.design for item in solved], dtype=np.int64))
    objective_d = np.array([item.objective for item in solved])
    answer = grid.position_of(result.design)
    known = {grid.position_of(item.design): item.objective for item in solved}
    axes = [*_chip_axes(grid, answer), *_system_axes(settings, grid, answer)]
    measured = _measured(settings, grid, axes, answer, known, budget_s, stop)
    changed = known | {position: one.objective for position, one in measured.items()}
    found = []
    for axis in axes:
        f = axis.grid_axis
        # Boxes span no two systems, and ranges of a chip's fields.
        inside = [_spans(ends_bef[:, 0, f], ends_bef[:, 1, f], own) for own in axis.has_value]
        found.append(
            FieldReach(
                field=axis.name,
                values=axis.values,
                bound=tuple(float(upper_b[is_inside_b].max(initial=0.0)) for is_inside_b in inside),
                solved=tuple(float(objective_d[own[at_df[:, f]]].max(initial=0.0)) for own in axis.has_value),
                changed=tuple(changed.get(position) for position in axis.moved),
                fits=tuple(_fits(grid, position) for position in axis.moved),
                position=axis.moved.index(answer),
            )
        )
    return FieldReaches(fields=tuple(found), changed=tuple(_without_stages(one) for one in measured.values()))


def _without_stages(answer: ChipAnswer) -> ChipAnswer:
    """Plans as a picture of many chips needs them."""
    return replace(answer, plans=tuple(plan and replace(plan, stages=()) for plan in answer.plans))


def _spans(first_b: Ints, last_b: Ints, has_value: Flags) -> Flags:
    """Which ranges have a position of a value."""
    num_before = np.concatenate([[0], np.cumsum(has_value)])
    found: Flags = num_before[last_b + 1] > num_before[first_b]
    return found


def _fits(grid: AnyGrid, position: Position) -> bool:
    design = grid.design_at(position)
    space = grid.space_of(design) if isinstance(grid, SystemGrid) else grid.space
    return bool(within_limits(space, grid.chips(np.array([position], dtype=np.int64)))[0])


def _chip_axes(grid: AnyGrid, answer: Position) -> list[_Axis]:
    found = []
    for f, name in enumerate(FIELDS, 1 if isinstance(grid, SystemGrid) else 0):
        # Sides of another kind come last in the grid.
        order = np.argsort(grid.values[f], kind="stable").tolist()
        if len(order) < 2:
            continue
        found.append(
            _Axis(
                name=name,
                values=tuple(int(grid.values[f][at]) for at in order),
                moved=tuple((*answer[:f], at, *answer[f + 1 :]) for at in order),
                has_value=tuple(np.arange(len(order)) == at for at in order),
                grid_axis=f,
            )
        )
    return found


def _system_axes(settings: SearchSettings, grid: AnyGrid, answer: Position) -> list[_Axis]:
    """Fields of the system that are numbers and have several values."""
    if not isinstance(grid, SystemGrid):
        return []
    choices = settings.systems.choices()
    own, numbers = choices[answer[0]], {choice: number for number, choice in enumerate(choices)}
    found = []
    for field in fields(settings.systems):
        values = getattr(settings.systems, field.name)
        if len(values) < 2 or field.name == "hbm":
            continue
        order = sorted(values)
        found.append(
            _Axis(
                name=field.name,
                values=tuple(round(value) for value in order),
                moved=tuple((numbers[replace(own, **{field.name: value})], *answer[1:]) for value in order),
                has_value=tuple(
                    np.array([getattr(choice, field.name) == value for choice in choices]) for value in order
                ),
                grid_axis=0,
            )
        )
    return found


def _measured(
    settings: SearchSettings,
    grid: AnyGrid,
    axes: Sequence[_Axis],
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
        (abs(at - axis.moved.index(answer)), number, position)
        for number, axis in enumerate(axes)
        for at, position in enumerate(axis.moved)
    ]
    deadline_s = math.inf
    yardsticks = _Yardsticks(
        settings, grid, StopSignal(is_asked=lambda: stop.is_over() or time.perf_counter() > deadline_s)
    )
    try:
        for _, _, position in sorted(move for move in moves if move[2] not in known):
            chip = grid.chip(grid.design_at(position))
            found[position] = yardsticks.of(position).with_searched_plans(chip)
            if len(found) == 1:
                deadline_s = time.perf_counter() + budget_s  # what loading took is nobody's fault
    except StoppedError:
        pass
    return found


class _Yardsticks:
    """A yardstick for each system, made when it is asked for."""

    def __init__(self, settings: SearchSettings, grid: AnyGrid, stop: StopSignal) -> None:
        self._is_one, self._stop = not isinstance(grid, SystemGrid), stop
        self._settings = (settings,) if self._is_one else system_settings(settings)
        self._made: dict[int, Yardstick] = {}

    def of(self, position: Position) -> Yardstick:
        """The one of a position's system."""
        number = 0 if self._is_one else position[0]
        if number not in self._made:
            others = next((one.prepared for one in self._made.values()), None)
            self._made[number] = Yardstick(Preparation(self._settings[number], self._stop, alike=others))
        return self._made[number]
