"""The same problem for OR-Tools CP-SAT, with the rows that make it close (``docs/scheduling.md``, section 5).

Axis letters: i = operator of a part, m = mode (a way to run it), r = resource.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rephaze.schedule.nodes import NUM_SPARE_MEASURES
from rephaze.schedule.relaxation import NEVER
from rephaze.schedule.tables import Bits, Ints, Task

# Needs are scaled down to this before they meet durations: their products must fit 64 bits.
_MAX_CAP = 2**16


class Solved(NamedTuple):
    """What a solver knows of a part: a bound, and a schedule if it found one."""

    bound_cycles: int
    start_i: Ints | None
    mode_i: Ints | None


def solve_by_cpsat(
    task: Task,
    bound: int,
    makespan: int,
    start_i: Ints,
    mode_i: Ints,
    time_limit_s: float,
    num_ticks: float = math.inf,
    seed: int = 0,
) -> Solved:
    """The best bound and schedule CP-SAT finds in the time, on one thread with a fixed seed.

    Args:
        task: The part.
        bound: A proven lower bound.
        makespan: Of the schedule given.
        start_i: A valid schedule, to start from.
        mode_i: Its modes.
        time_limit_s: Wall time.
        num_ticks: Work by the solver's own deterministic measure, some seconds.
        seed: Of the solver.

    Where a bandwidth's units are too fine for 64-bit products its needs are rounded down: the bound stays
    valid, and the caller must check the schedule.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    size = len(task.dur_im)
    modes = [np.flatnonzero(task.dur_im[i] < NEVER).tolist() for i in range(size)]
    total = model.new_int_var(bound, makespan, "T")
    start = [model.new_int_var(0, makespan, f"t{i}") for i in range(size)]
    # picked[i][m]: whether i runs in mode m; the constant 1 where there is no choice.
    picked: list[dict[int, Any]] = [_choice(model, i, modes[i]) for i in range(size)]

    def spent(i: int, among: Any) -> Any:
        """Cycles of i in the modes that ``among`` holds for."""
        return sum(int(task.dur_im[i, m]) * picked[i][m] for m in modes[i] if among(i, m))

    def is_alone(i: int, m: int) -> bool:
        return bool(task.alone_im[i, m])

    def is_shared(i: int, m: int) -> bool:
        return not task.alone_im[i, m]

    length = [spent(i, lambda _i, _m: True) for i in range(size)]
    shared = [spent(i, is_shared) for i in range(size)]
    alone = [spent(i, is_alone) for i in range(size)]
    preds = [task.pred_index[task.pred_start[i] : task.pred_start[i + 1]].tolist() for i in range(size)]
    for i in range(size):
        model.add(start[i] + length[i] <= total)
        for j in preds[i]:
            model.add(start[j] + length[j] <= start[i])
        if task.twin_i[i] >= 0:
            model.add(start[task.twin_i[i]] <= start[i])
    spans = [
        {
            m: model.new_fixed_size_interval_var(start[i], int(task.dur_im[i, m]), f"a{i}")
            if len(modes[i]) == 1
            else model.new_optional_fixed_size_interval_var(
                start[i], int(task.dur_im[i, m]), picked[i][m], f"a{i}_{m}"
            )
            for m in modes[i]
        }
        for i in range(size)
    ]
    held = sum(alone)
    for r in range(len(task.cap_r)):
        cap = int(task.cap_r[r])
        scale = 1 if cap <= _MAX_CAP else cap / _MAX_CAP
        cap = min(cap, _MAX_CAP)
        need = (task.need_imr[:, :, r] // scale).astype(np.int64).tolist()
        is_chip = task.exclusive and r == len(task.cap_r) - 1
        users, needs, load = [], [], []
        for i in range(size):
            for m in modes[i]:
                if need[i][m] == 0 or (task.alone_im[i, m] and not is_chip):
                    continue
                users.append(spans[i][m])
                needs.append(need[i][m])
                load.append(need[i][m] * int(task.dur_im[i, m]) * picked[i][m])
        if users:
            model.add_cumulative(users, needs, cap)
            if not is_chip:
                model.add(sum(load) <= cap * (total - held))
    for k in range(len(task.cap_r), task.frac_imr.shape[2] - NUM_SPARE_MEASURES):
        apart = [i for i in range(size) if task.frac_imr[i, 0, k] > 0]
        model.add(sum(shared[i] for i in apart) <= total - held)
    if task.exclusive:
        _add_exclusive_rows(model, task, total, start, shared, alone, preds, makespan)
    model.minimize(total)
    for i in range(size):
        model.add_hint(start[i], int(start_i[i]))
        if len(modes[i]) > 1:
            for m in modes[i][: 1 if len(modes[i]) == 2 else None]:
                model.add_hint(picked[i][m], int(mode_i[i] == m))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_time_in_seconds = time_limit_s
    solver.parameters.max_deterministic_time = num_ticks
    status = solver.solve(model)
    if status == cp_model.MODEL_INVALID:
        return Solved(bound, None, None)
    proven = max(bound, int(np.ceil(solver.best_objective_bound - 1e-6)))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Solved(bound, None, None)
    return Solved(
        proven,
        np.array([solver.value(start[i]) for i in range(size)], dtype=np.int64),
        np.array(
            [next(m for m in modes[i] if len(modes[i]) == 1 or solver.value(picked[i][m])) for i in range(size)],
            dtype=np.int64,
        ),
    )


def _choice(model: Any, i: int, modes: list[int]) -> dict[int, Any]:
    """A 0/1 expression for each mode of an operator, of which exactly one is 1."""
    if len(modes) == 1:
        return {modes[0]: 1}
    if len(modes) == 2:
        # One variable: the solver knows that a literal and its negation exclude each other.
        last = model.new_bool_var(f"y{i}")
        return {modes[0]: ~last, modes[1]: last}
    picked = {m: model.new_bool_var(f"y{i}_{m}") for m in modes}
    model.add_exactly_one(picked.values())
    return picked


def _add_exclusive_rows(
    model: Any,
    task: Task,
    total: Any,
    start: list[Any],
    shared: list[Any],
    alone: list[Any],
    preds: list[list[int]],
    makespan: int,
) -> None:
    """Time splits into exclusive and shared: all exclusive time plus any path of the rest fits in T.

    The same holds for what comes before an operator, with its ancestors only, and for what comes after it.
    """
    size = len(start)
    before = [members(task.ancestors_iw[i], size) for i in range(size)]
    after: list[list[int]] = [[] for _ in range(size)]
    followers: list[list[int]] = [[] for _ in range(size)]
    for i in range(size):
        for j in before[i]:
            after[j].append(i)
        for j in preds[i]:
            followers[j].append(i)
    head = [model.new_int_var(0, makespan, f"h{i}") for i in range(size)]
    tail = [model.new_int_var(0, makespan, f"g{i}") for i in range(size)]
    held = sum(alone)
    for i in range(size):
        for j in preds[i]:
            model.add(head[j] + shared[j] <= head[i])
        for j in followers[i]:
            model.add(tail[j] + shared[j] <= tail[i])
        model.add(held + head[i] + shared[i] + tail[i] <= total)
        model.add(sum(alone[j] for j in before[i]) + head[i] <= start[i])
        model.add(start[i] + shared[i] + alone[i] + sum(alone[j] for j in after[i]) + tail[i] <= total)


def members(words: Bits, size: int) -> list[int]:
    """The numbers in a bitset."""
    return [i for i in range(size) if int(words[i >> 6]) >> (i & 63) & 1]
