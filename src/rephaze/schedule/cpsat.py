"""The same problem for OR-Tools CP-SAT, with the rows that make it close (``docs/scheduling.md``, section 5).

Axis letters: i = operator of a part, m = mode (0 one core, 1 all cores), r = resource.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.schedule.nodes import NUM_SPARE_MEASURES, Task
from rephaze.schedule.relaxation import NEVER

Ints = NDArray[np.int64]

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
    has_one, has_all = (task.dur_im < NEVER).T
    one, every = np.where(task.dur_im < NEVER, task.dur_im, 0).T.tolist()
    total = model.new_int_var(bound, makespan, "T")
    start = [model.new_int_var(0, makespan, f"t{i}") for i in range(size)]
    # choice[i] is 1 for all cores: a variable where both modes are left, else a constant.
    choice: list[Any] = [
        model.new_bool_var(f"y{i}") if has_one[i] and has_all[i] else int(has_all[i]) for i in range(size)
    ]
    length = [one[i] + (every[i] - one[i]) * choice[i] for i in range(size)]
    preds = [task.pred_index[task.pred_start[i] : task.pred_start[i + 1]].tolist() for i in range(size)]
    for i in range(size):
        model.add(start[i] + length[i] <= total)
        for j in preds[i]:
            model.add(start[j] + length[j] <= start[i])
        if task.twin_i[i] >= 0:
            model.add(start[task.twin_i[i]] <= start[i])
    spans: list[list[Any]] = []
    for i in range(size):
        if has_one[i] and has_all[i]:
            spans.append(
                [
                    model.new_optional_fixed_size_interval_var(start[i], one[i], ~choice[i], f"a{i}"),
                    model.new_optional_fixed_size_interval_var(start[i], every[i], choice[i], f"b{i}"),
                ]
            )
        else:
            span = model.new_fixed_size_interval_var(start[i], one[i] + every[i], f"a{i}")
            spans.append([span if has_one[i] else None, span if has_all[i] else None])
    held = sum(every[i] * choice[i] for i in range(size)) if task.exclusive else 0
    for r in range(len(task.cap_r)):
        cap = int(task.cap_r[r])
        scale = 1 if cap <= _MAX_CAP else cap / _MAX_CAP
        cap = min(cap, _MAX_CAP)
        need = (task.need_imr[:, :, r] // scale).astype(np.int64).tolist()
        is_chip = task.exclusive and r == len(task.cap_r) - 1
        users, needs, load = [], [], []
        for i in range(size):
            for m in range(2):
                span = spans[i][m]
                if span is None or need[i][m] == 0 or (task.exclusive and m == 1 and not is_chip):
                    continue
                users.append(span)
                needs.append(need[i][m])
                share = choice[i] if m == 1 else 1 - choice[i]
                load.append(need[i][m] * int(task.dur_im[i, m]) * share)
        if users:
            model.add_cumulative(users, needs, cap)
            if not is_chip:
                model.add(sum(load) <= cap * (total - held))
    for k in range(len(task.cap_r), task.frac_imr.shape[2] - NUM_SPARE_MEASURES):
        apart = [i for i in range(size) if task.frac_imr[i, 0, k] > 0]
        spent = [one[i] * (1 - choice[i]) if task.exclusive else length[i] for i in apart]
        model.add(sum(spent) <= total - held)
    if task.exclusive:
        _add_exclusive_rows(model, task, total, start, choice, one, every, preds, makespan)
    model.minimize(total)
    for i in range(size):
        model.add_hint(start[i], int(start_i[i]))
        if not isinstance(choice[i], int):
            model.add_hint(choice[i], int(mode_i[i]))
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
        np.array([int(solver.value(choice[i])) for i in range(size)], dtype=np.int64),
    )


def _add_exclusive_rows(
    model: Any,
    task: Task,
    total: Any,
    start: list[Any],
    choice: list[Any],
    one: list[int],
    every: list[int],
    preds: list[list[int]],
    makespan: int,
) -> None:
    """Time splits into exclusive and shared: all exclusive time plus any path of the rest fits in T.

    The same holds for what comes before an operator, with its ancestors only, and for what comes after it.
    """
    size = len(one)
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
    held = sum(every[i] * choice[i] for i in range(size))
    for i in range(size):
        for j in preds[i]:
            model.add(head[j] + one[j] * (1 - choice[j]) <= head[i])
        for j in followers[i]:
            model.add(tail[j] + one[j] * (1 - choice[j]) <= tail[i])
        model.add(held + head[i] + one[i] * (1 - choice[i]) + tail[i] <= total)
        model.add(sum(every[j] * choice[j] for j in before[i]) + head[i] <= start[i])
        model.add(
            start[i]
            + one[i]
            + (every[i] - one[i]) * choice[i]
            + sum(every[j] * choice[j] for j in after[i])
            + tail[i]
            <= total
        )


def members(words: NDArray[np.uint64], size: int) -> list[int]:
    """The numbers in a bitset."""
    return [i for i in range(size) if int(words[i >> 6]) >> (i & 63) & 1]
