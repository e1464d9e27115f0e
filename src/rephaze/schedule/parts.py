"""One series part solved: quick bounds first, then best-first search and CP-SAT in turns until proven."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from rephaze.schedule.cpsat import Solved
from rephaze.schedule.list_schedule import first_schedule, improve
from rephaze.schedule.relaxation import NEVER
from rephaze.schedule.resumable_search import NUM_ROUNDS, Limit, PartSolution, ResumableSearch
from rephaze.schedule.tables import Floats, Ints, Task
from rephaze.schedule.trimming import trimmed
from rephaze.types.stopping import UNSTOPPED, StopSignal

DEFAULT_BACKEND = "scip"
SEARCH_WORK = 300_000
"""Work limit for outer searches: hard parts end after some two seconds, and alike on every machine."""
HURRIED_WORK = 3_000
"""Enough for most proofs and, where it is not, for a bound near the optimum."""
WIDE_WORK = 100_000
"""Of mixtures, whose parts stay unproven whatever is spent on them: thrice as much closes a tenth of their gap."""
SKETCH_WORK = 20_000
"""Enough for schedules of wide parts that are hardly longer than the best that are ever found."""
_LENIENCES = (0.0, 0.0, 0.002, 0.0, 0.0, 0.02)
"""Of rounds of random moves: strict ones mostly end soonest, lenient ones where those are stuck."""
_MAX_TRIES, _MAX_TRIES_TIMES_OPS_2 = 3_000, 30_000_000
_OPS_2_A_NODE = 900
"""A try takes as long as one node of the search for so many operators, squared."""
_TICKS_A_NODE = 5e-7
"""CP-SAT's own measure of work that takes as long as a node of the search, some five microseconds."""
_LEAST_CPSAT_S = 0.02
_CPSAT_OVERRUN_S = 1.0
"""CP-SAT may end a little before its time: given this much more, what time has cut ends past the deadline."""
_MAX_SEARCH_OPS = 1024
"""Larger parts go to CP-SAT at once: a node would no longer be small."""


class Solver(StrEnum):
    """Which method may be used."""

    AUTO = "auto"
    """Search and CP-SAT in turns."""
    SEARCH = "search"
    CPSAT = "cpsat"
    ILP = "ilp"
    """The paper's integer program, an independent check."""


# Whose turn it is, and until which share of the limit. A dive finds schedules, a search proves. Under rule chip
# the search and CP-SAT either close in a moment much of what the other never would, so both get a short turn
# before either gets a long one; under engine the search is nearly always the one.
_SEARCH_FIRST = (
    ("search", 0.0005),
    ("dive", 0.004),
    ("improve", 0.006),
    ("search", 0.01),
    ("improve", 0.03),
    ("dive", 0.05),
    ("search", 0.1),
    ("dive", 0.15),
    ("search", 0.4),
    ("dive", 0.5),
    ("search", 1.0),
)
_IN_TURNS = (
    ("search", 0.02),
    ("improve", 0.06),
    ("dive", 0.08),
    ("search", 0.11),
    ("cpsat", 0.18),
    ("dive", 0.22),
    ("search", 0.55),
    ("improve", 0.85),
    ("cpsat", 1.0),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """How hard to look for a schedule, and by which means."""

    time_limit_s: float = 10.0
    """Wall time for all parts together; a valid schedule comes back whatever it is."""
    work_limit: int | None = None
    """Nodes to search in each part, some five microseconds each, and as much work of CP-SAT. No clock decides
    then, so the answer is the same on any machine. The integer program knows time only."""
    solver: Solver = Solver.AUTO
    """Which methods may be used."""
    backend: str = DEFAULT_BACKEND
    """Of the integer program: scip, highs, cp_sat or gurobi."""
    cutoff_cycles: int | None = None
    """The question: is there a schedule below this? The answer is a proven schedule below it, or a bound that
    reaches it; what was not needed for that is left open."""
    stop: StopSignal = UNSTOPPED
    """Interrupts the work, whatever its limit."""


class Turns(NamedTuple):
    """When turns end."""

    began: float
    """By ``time.perf_counter``."""
    time_limit_s: float
    cutoff: int


def solve_part(task: Task, width: int, effort: Effort, time_limit_s: float, cutoff: int = NEVER) -> PartSolution:
    """The best schedule and bound of a part within the limit.

    Args:
        task: The part.
        width: Most operators that can run at once.
        effort: By which means, and how much work.
        time_limit_s: Wall time for this part; the quick bounds are always made.
        cutoff: A bound that reaches this will do: longer schedules are of no use.

    Raises:
        StoppedError: The stop signal came before a proof and before the limit.
    """
    solver, stop = effort.solver, effort.stop
    stop.check()
    began = time.perf_counter()
    size = len(task.dur_im)
    weight_im = np.zeros(task.dur_im.shape)
    known = PartSolution(0, 0, np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64))
    known.bound, known.makespan = first_schedule(task, NUM_ROUNDS, weight_im, known.start_i, known.mode_i)
    if solver is Solver.ILP:
        from rephaze.schedule.ilp import solve_by_ilp

        left_s = Limit(deadline=began + time_limit_s, stop=stop).time_left_s()
        _merge(task, known, solve_by_ilp(task, known.makespan, left_s, effort.backend))
        if not known.is_proven:
            stop.check()
        return known
    if (known.is_proven or known.bound >= cutoff) and solver is not Solver.CPSAT:
        return known
    if task.exclusive or solver is Solver.CPSAT:
        _solve_in_turns(task, known, weight_im, width, effort, Turns(began, time_limit_s, cutoff))
        return known
    small, was_im, width = trimmed(task, width, known.makespan)
    inner = PartSolution(known.bound, 0, np.zeros_like(known.start_i), np.zeros_like(known.mode_i))
    weight_im = np.zeros(small.dur_im.shape)
    bound, inner.makespan = first_schedule(small, NUM_ROUNDS, weight_im, inner.start_i, inner.mode_i)
    inner.bound = max(inner.bound, min(bound, known.makespan))
    if known.makespan <= inner.makespan:
        inner.makespan, inner.start_i = known.makespan, known.start_i
        inner.mode_i = np.argmax(was_im == known.mode_i[:, None], axis=1)
    if not inner.is_proven and inner.bound < cutoff:
        _solve_in_turns(small, inner, weight_im, width, effort, Turns(began, time_limit_s, cutoff))
    inner.mode_i = was_im[np.arange(size), inner.mode_i]
    return inner


def _solve_in_turns(
    task: Task,
    known: PartSolution,
    weight_im: Floats,
    width: int,
    effort: Effort,
    turns: Turns,
) -> None:
    """Methods in turns until ``known`` is proven, its bound reaches the cutoff, or the limit is reached."""
    solver, work_limit, stop = effort.solver, effort.work_limit, effort.stop
    began, time_limit_s, cutoff = turns
    size = len(task.dur_im)
    may_search = solver is not Solver.CPSAT and size <= _MAX_SEARCH_OPS
    search = ResumableSearch(task, known, weight_im, width, cutoff) if may_search else None
    num_nodes = 0
    for seed, (method, share) in enumerate(_turns(task, solver)):
        num_nodes_before = num_nodes
        if work_limit is None:
            limit = Limit(deadline=began + share * time_limit_s, stop=stop)
        else:
            # Turns end after the same work whatever the limit: what a lower one proves, a higher proves alike.
            num_nodes = work_limit if share == 1.0 else min(int(share * SEARCH_WORK), work_limit)
            limit = Limit(num_nodes=num_nodes, stop=stop)
        if method in ("search", "dive") and search:
            search.run(limit, dives=method == "dive")
        elif method == "improve":
            _improve(task, known, limit, num_nodes_before)
        elif method == "cpsat":
            _run_cpsat(task, known, limit, seed)
        if known.is_proven or known.bound >= cutoff:
            break
        stop.check()
        if work_limit is not None and limit.num_nodes == work_limit:
            break


def _turns(task: Task, solver: Solver) -> tuple[tuple[str, float], ...]:
    if solver is Solver.AUTO:
        return _IN_TURNS if task.exclusive else _SEARCH_FIRST
    return ((solver.value, 1.0),)


def _improve(task: Task, known: PartSolution, limit: Limit, num_nodes_before: int) -> None:
    """A better schedule by rounds of random moves.

    Args:
        task: The part.
        known: Improved.
        limit: Of all turns together.
        num_nodes_before: Where the turn before ended.
    """
    ops_2 = len(known.mode_i) ** 2
    num_tries = max(1, min(_MAX_TRIES, _MAX_TRIES_TIMES_OPS_2 // ops_2))
    num_left = math.inf
    if limit.num_nodes is not None:
        num_left = (limit.num_nodes - num_nodes_before) * _OPS_2_A_NODE // ops_2
    seed = 0
    while num_left > 0 and not known.is_proven and limit.time_left_s() > 0:
        known.makespan = improve(
            task,
            int(min(num_tries, num_left)),
            known.bound,
            _LENIENCES[seed % len(_LENIENCES)],
            seed,
            known.mode_i,
            known.start_i,
            known.makespan,
        )
        num_left -= num_tries
        seed += 1


def _run_cpsat(task: Task, known: PartSolution, limit: Limit, seed: int) -> None:
    """Improve ``known`` with CP-SAT, unless building its model alone would take the time there is."""
    time_limit_s = limit.time_left_s()
    by_work = limit.num_nodes is not None
    if time_limit_s <= (0.0 if by_work else _LEAST_CPSAT_S):
        return
    time_limit_s += _CPSAT_OVERRUN_S if by_work else 0.0
    from rephaze.schedule.cpsat import solve_by_cpsat

    found = solve_by_cpsat(
        task,
        known.bound,
        known.makespan,
        known.start_i,
        known.mode_i,
        time_limit_s,
        num_ticks=math.inf if limit.num_nodes is None else limit.num_nodes * _TICKS_A_NODE,
        seed=seed,
    )
    _merge(task, known, found)


def _merge(task: Task, known: PartSolution, found: Solved) -> None:
    """Take a solver's bound, and its schedule if it is valid and shorter."""
    if found.start_i is not None and found.mode_i is not None:
        makespan = replay(task, found.start_i, found.mode_i)
        if makespan is not None and makespan < known.makespan:
            known.makespan, known.start_i, known.mode_i = makespan, found.start_i, found.mode_i
    known.bound = max(known.bound, min(found.bound_cycles, known.makespan))


def replay(task: Task, start_i: Ints, mode_i: Ints) -> int | None:
    """The makespan of a schedule of a part, or None if it breaks a rule."""
    size = len(start_i)
    every = np.arange(size)
    end_i = start_i + task.dur_im[every, mode_i]
    need_ir = task.need_imr[every, mode_i]
    for i in range(size):
        preds = task.pred_index[task.pred_start[i] : task.pred_start[i + 1]]
        if (end_i[preds] > start_i[i]).any():
            return None
        now = (start_i <= start_i[i]) & (start_i[i] < end_i)
        if (need_ir[now].sum(axis=0) > task.cap_r).any():
            return None
    return int(end_i.max())
