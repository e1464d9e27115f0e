"""Compiled list scheduling: operators placed one by one in order of a key, and random moves from there.

Quick valid schedules: the first upper bounds.

Axis letters: i = operator of a part, m = mode (a way to run it), r = resource.
"""

from __future__ import annotations

import numpy as np

from rephaze.compiled import kernel
from rephaze.schedule.relaxation import NEVER, ceil_safely, relax
from rephaze.schedule.tables import Demand, Floats, Ints, Preds, Task

# What an attempt at a list schedule changes against the one before. Modes: the fastest, the relaxation's choice,
# those that hold least, and faster ones where they at least halve the time. Order: longest tail first, in the
# faster modes (with the fastest and the lightest) or in the modes chosen; or as given.
_FASTEST, _RELAXED, _BY_TAIL, _AS_GIVEN, _LIGHTEST, _HALVED = range(6)
_ATTEMPTS = (_FASTEST, _RELAXED, _BY_TAIL, _AS_GIVEN, _LIGHTEST, _BY_TAIL, _HALVED, _BY_TAIL)


@kernel
def place_in_order(demand: Demand, preds: Preds, mode_i: Ints, key_i: Floats, start_i: Ints) -> int:
    """Fill starts by placing operators one by one at their earliest feasible time; return the makespan.

    Args:
        demand: What operators take, and what there is.
        preds: Immediate predecessors.
        mode_i: The mode of each operator.
        key_i: Among operators whose predecessors are placed, the smallest key is next.
        start_i: Filled.
    """
    # Unpacked once: every field access of a tuple in compiled code counts references.
    dur_im, need_imr, cap_r = demand.dur_im, demand.need_imr, demand.cap_r
    pred_start, pred_index = preds.start_i, preds.pred
    size, num_resources = dur_im.shape[0], cap_r.shape[0]
    waiting = np.zeros(size, dtype=np.int64)
    # Successors of i: succ_index[succ_end[i - 1]:succ_end[i]], by counting.
    succ_end = np.zeros(size + 1, dtype=np.int64)
    succ_index = np.zeros(pred_index.shape[0], dtype=np.int64)
    for i in range(size):
        waiting[i] = pred_start[i + 1] - pred_start[i]
        for e in range(pred_start[i], pred_start[i + 1]):
            succ_end[pred_index[e] + 1] += 1
    for i in range(size):
        succ_end[i + 1] += succ_end[i]
    for i in range(size):
        for e in range(pred_start[i], pred_start[i + 1]):
            j = pred_index[e]
            succ_index[succ_end[j]] = i
            succ_end[j] += 1
    ready = np.zeros(size, dtype=np.int64)
    num_ready = 0
    for i in range(size):
        if waiting[i] == 0:
            ready[num_ready] = i
            num_ready += 1
    # The profile of use, a linked list: step k holds use[k] from time at[k] to at[after[k]].
    at = np.zeros(2 * size + 2, dtype=np.int64)
    after = np.full(2 * size + 2, -1, dtype=np.int64)
    use = np.zeros((2 * size + 2, num_resources), dtype=np.int64)
    steps = 1
    makespan = 0
    for _ in range(size):
        first = 0
        for q in range(1, num_ready):
            i, best = ready[q], ready[first]
            if key_i[i] < key_i[best] or (key_i[i] == key_i[best] and i < best):
                first = q
        best = ready[first]
        num_ready -= 1
        ready[first] = ready[num_ready]
        m = mode_i[best]
        length = dur_im[best, m]
        begin = 0
        for e in range(pred_start[best], pred_start[best + 1]):
            j = pred_index[e]
            begin = max(begin, start_i[j] + dur_im[j, mode_i[j]])
        k = 0
        while after[k] >= 0 and at[after[k]] <= begin:
            k = after[k]
        here = k  # the step that begin lies in
        while k >= 0 and at[k] < begin + length:
            for r in range(num_resources):
                if use[k, r] + need_imr[best, m, r] > cap_r[r]:
                    # Blocked during step k: nothing earlier than its end can work.
                    here = after[k]
                    begin = at[here]
                    break
            k = after[k]
        start_i[best] = begin
        makespan = max(makespan, begin + length)
        for edge in range(2):
            time = begin + edge * length
            k = here
            while after[k] >= 0 and at[after[k]] <= time:
                k = after[k]
            if at[k] < time:
                for r in range(num_resources):
                    use[steps, r] = use[k, r]
                at[steps] = time
                after[steps] = after[k]
                after[k] = steps
                steps += 1
        k = here if at[here] == begin else after[here]
        while k >= 0 and at[k] < begin + length:
            for r in range(num_resources):
                use[k, r] += need_imr[best, m, r]
            k = after[k]
        for e in range(succ_end[best - 1] if best > 0 else 0, succ_end[best]):
            i = succ_index[e]
            waiting[i] -= 1
            if waiting[i] == 0:
                ready[num_ready] = i
                num_ready += 1
    return makespan


@kernel
def improve(
    task: Task,
    num_tries: int,
    target: int,
    lenience: float,
    seed: int,
    mode_i: Ints,
    start_i: Ints,
    makespan: int,
) -> int:
    """Better starts and modes by random moves from a valid schedule, in place; return the makespan.

    Args:
        task: The part.
        num_tries: Schedules to try.
        target: Stop when this makespan is reached.
        lenience: How much worse, as part of the makespan, a schedule may be to be gone on from at first.
        seed: Of the moves; the same seed gives the same schedule.
        mode_i: In and out.
        start_i: In and out.
        makespan: Of the schedule given.
    """
    dur_im = task.dur_im
    demand = Demand(task.dur_im, task.need_imr, task.cap_r)
    preds = Preds(task.pred_start, task.pred_index)
    size, num_modes = dur_im.shape
    np.random.seed(seed)  # noqa: NPY002 - compiled code has only this generator, and it is private to it
    key_i = np.empty(size)
    here_mode, here_start = mode_i.copy(), start_i.copy()
    trial_mode, trial_start = mode_i.copy(), start_i.copy()
    here = makespan
    for k in range(num_tries):
        if makespan <= target:
            break
        for i in range(size):
            key_i[i] = here_start[i]
            trial_mode[i] = here_mode[i]
        for _ in range(1 + np.random.randint(0, 3)):  # noqa: NPY002
            i = np.random.randint(0, size)  # noqa: NPY002
            other = trial_mode[i]
            if num_modes > 1:
                other = (other + 1 + np.random.randint(0, num_modes - 1)) % num_modes  # noqa: NPY002
            if other != trial_mode[i] and dur_im[i, other] < NEVER and np.random.random() < 0.5:  # noqa: NPY002
                trial_mode[i] = other
            else:
                key_i[i] += (np.random.random() - 0.5) * 0.5 * makespan  # noqa: NPY002
        found = place_in_order(demand, preds, trial_mode, key_i, trial_start)
        # A little worse is a way out of where no move is better; ever less so towards the end.
        if found <= here + lenience * (1.0 - k / num_tries) * makespan:
            here = found
            for i in range(size):
                here_mode[i], here_start[i] = trial_mode[i], trial_start[i]
        if found < makespan:
            makespan = found
            for i in range(size):
                mode_i[i], start_i[i] = trial_mode[i], trial_start[i]
    return makespan


@kernel
def first_schedule(task: Task, num_rounds: int, weight_im: Floats, start_i: Ints, mode_i: Ints) -> tuple[int, int]:
    """Fill a weight set and the best of a few list schedules; return a lower bound and the makespan.

    Args:
        task: The part.
        num_rounds: Of the relaxation.
        weight_im: Filled.
        start_i: Filled.
        mode_i: Filled.
    """
    dur_im, frac_imr = task.dur_im, task.frac_imr
    demand = Demand(task.dur_im, task.need_imr, task.cap_r)
    preds = Preds(task.pred_start, task.pred_index)
    size, num_modes, num_resources = frac_imr.shape
    # Modes of each operator by what they hold of the scarcest resource, least first.
    held_im = np.zeros((size, num_modes))
    for i in range(size):
        for m in range(num_modes):
            for r in range(num_resources):
                held_im[i, m] = max(held_im[i, m], frac_imr[i, m, r])
            if dur_im[i, m] >= NEVER:
                held_im[i, m] = 2.0
    longest = 0
    for i in range(size):
        longest = max(longest, task.tail_i[i])
    trial_mode = np.zeros(size, dtype=np.int64)
    trial_start = np.zeros(size, dtype=np.int64)
    key_i = np.zeros(size)
    bound, makespan = longest, NEVER
    for change in _ATTEMPTS:
        if change == _FASTEST:
            for i in range(size):
                trial_mode[i] = 0
                for m in range(1, num_modes):
                    if dur_im[i, m] < dur_im[i, trial_mode[i]]:
                        trial_mode[i] = m
                key_i[i] = -task.tail_i[i]
        elif change == _RELAXED:
            relaxed = relax(dur_im, frac_imr, task.alone_im, preds, num_rounds, 1e-7, weight_im, trial_mode)
            bound = max(bound, ceil_safely(relaxed))
        elif change == _BY_TAIL:
            for i in range(size):
                key_i[i] = 0.0
            for i in range(size - 1, -1, -1):
                key_i[i] -= dur_im[i, trial_mode[i]]
                for e in range(task.pred_start[i], task.pred_start[i + 1]):
                    j = task.pred_index[e]
                    key_i[j] = min(key_i[j], key_i[i])
        elif change == _AS_GIVEN:
            for i in range(size):
                key_i[i] = i
        elif change == _LIGHTEST:
            for i in range(size):
                trial_mode[i] = 0
                for m in range(1, num_modes):
                    if held_im[i, m] < held_im[i, trial_mode[i]]:
                        trial_mode[i] = m
                key_i[i] = -task.tail_i[i]
        else:
            for i in range(size):
                for m in range(num_modes):
                    if 2 * dur_im[i, m] < dur_im[i, trial_mode[i]]:
                        trial_mode[i] = m
        found = place_in_order(demand, preds, trial_mode, key_i, trial_start)
        if found < makespan:
            makespan = found
            for i in range(size):
                start_i[i] = trial_start[i]
                mode_i[i] = trial_mode[i]
        if change != _FASTEST and makespan <= bound:
            break
    return bound, makespan
