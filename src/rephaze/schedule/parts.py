"""One series part solved: quick bounds first, then best-first search and CP-SAT in turns until proven."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rephaze.schedule import bestfirst, nodes
from rephaze.schedule.list_schedule import first_schedule, improve
from rephaze.schedule.nodes import Nodes, Task
from rephaze.schedule.packing import MODE_BITS, MODE_MASK
from rephaze.schedule.relaxation import ceil_safely, relax
from rephaze.types.stopping import UNSTOPPED, StopSignal

Ints = NDArray[np.int64]

SEARCH_WORK = 300_000
"""Work limit for outer searches: hard parts end after some two seconds, and alike on every machine."""
HURRIED_WORK = 3_000
"""Enough for most proofs and, where it is not, for a bound near the optimum."""
_NUM_ROUNDS = 200
_FIRST_SHARPENING = 2000
_MAX_NODE_BYTES = 800_000_000
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
    ("dive", 0.005),
    ("search", 0.01),
    ("dive", 0.02),
    ("search", 0.05),
    ("dive", 0.1),
    ("search", 0.3),
    ("dive", 0.4),
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
_DIVE_STEEPNESS = 0.5
"""How far above the least bound a dive's last operators may start, as part of the gap it wants to close."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """When a turn ends: at a moment of the clock, or after so much work, which repeats on any machine."""

    deadline: float = math.inf
    """Of ``time.perf_counter``."""
    num_nodes: int | None = None
    """Work in nodes of the search, all its turns together."""
    stop: StopSignal = UNSTOPPED
    """Cuts the turn short: its outcome is then nobody's answer."""

    def time_left_s(self) -> float:
        """Wall time to the deadline, 0 when it has passed."""
        return min(max(self.deadline - time.perf_counter(), 0.0), self.stop.time_left_s())


@dataclass(slots=True)
class PartSolution:
    """What is known of a part; ``bound == makespan`` is a proof."""

    bound: int
    makespan: int
    start_i: Ints
    mode_i: Ints

    @property
    def is_proven(self) -> bool:
        """Whether nothing is left to find."""
        return self.bound >= self.makespan


def solve_part(
    task: Task,
    width: int,
    time_limit_s: float,
    work_limit: int | None,
    solver: Solver,
    backend: str,
    stop: StopSignal = UNSTOPPED,
) -> PartSolution:
    """The best schedule and bound of a part within the limit.

    Args:
        task: The part.
        width: Most operators that can run at once.
        time_limit_s: Wall time; the quick bounds are always made.
        work_limit: Nodes to search instead, and likewise for CP-SAT; the integer program knows time only.
        solver: Which methods may be used.
        backend: Of the integer program.
        stop: Ends the work before its limit.

    Raises:
        StoppedError: ``stop`` came before a proof and before the limit.
    """
    stop.check()
    began = time.perf_counter()
    size = len(task.dur_im)
    weight_im = np.zeros(task.dur_im.shape)
    known = PartSolution(0, 0, np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64))
    known.bound, known.makespan = first_schedule(task, _NUM_ROUNDS, weight_im, known.start_i, known.mode_i)
    if solver is Solver.ILP:
        from rephaze.schedule.ilp import solve_by_ilp

        left_s = Limit(deadline=began + time_limit_s, stop=stop).time_left_s()
        _merge(task, known, solve_by_ilp(task, known.makespan, left_s, backend))
        if not known.is_proven:
            stop.check()
        return known
    if known.is_proven and solver is not Solver.CPSAT:
        return known
    may_search = solver is not Solver.CPSAT and size <= _MAX_SEARCH_OPS
    search = _Search(task, known, weight_im, width) if may_search else None
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
        if known.is_proven:
            break
        stop.check()
        if work_limit is not None and limit.num_nodes == work_limit:
            break
    return known


def _turns(task: Task, solver: Solver) -> tuple[tuple[str, float], ...]:
    if solver is Solver.AUTO:
        return _IN_TURNS if task.exclusive else _SEARCH_FIRST
    return ((solver.value, 1.0),)


class _Search:
    """A best-first search that can be continued."""

    def __init__(self, task: Task, known: PartSolution, weight_im: Any, width: int) -> None:
        self.task, self.known = task, known
        size, words = task.ancestors_iw.shape
        self.nodes: Nodes = nodes.new_nodes(task, width, max(1024, 8 * size * task.dur_im.shape[1] // 2))
        self.nodes.fact[0, nodes.BOUND] = known.bound
        self.words = words
        self.node_bytes = 8 * nodes.NUM_FACTS + 8 * self.nodes.bits.shape[1] + 12 * width + 24
        nodes.put_weights(task, self.nodes, weight_im, 0)
        self.slice = 64
        self.is_over = False
        self.sharpen_at, self.num_rounds = _FIRST_SHARPENING, _NUM_ROUNDS

    def run(self, limit: Limit, *, dives: bool = False) -> None:
        """Search until proven, at the limit or out of memory; what is found goes into ``known``.

        Args:
            limit: Of all turns together.
            dives: Prefer nodes with more operators started to those of least bound: finds good schedules soon,
                proves late.
        """
        known, control = self.known, self.nodes.control
        control[nodes.INCUMBENT] = known.makespan
        control[nodes.BEST_NODE] = -1
        gap = known.makespan - known.bound
        slope = int(np.ceil(_DIVE_STEEPNESS * gap / len(known.mode_i))) if dives else 0
        if slope != control[nodes.SLOPE]:
            nodes.reorder(self.nodes, slope)
        while not self.is_over and limit.time_left_s() > 0:
            expanded = int(control[nodes.NUM_EXPANDED])
            num_nodes = expanded + int(self.nodes.teams.num[1]) // nodes.PACKING_WORK_A_NODE
            if limit.num_nodes is not None and num_nodes >= limit.num_nodes:
                break
            if expanded >= self.sharpen_at and not control[nodes.PACKS]:
                self._sharpen()
            outcome = bestfirst.search_slice(self.task, self.nodes, self.slice)
            if outcome == bestfirst.PROVEN:
                self.is_over = True
            elif outcome == bestfirst.FULL:
                capacity = 2 * len(self.nodes.fact)
                if capacity * self.node_bytes > _MAX_NODE_BYTES:
                    self.is_over = True
                    break
                self.nodes = nodes.enlarged(self.nodes, self.words, capacity)
            else:
                self.slice = min(2 * self.slice, 4096)
        incumbent = int(control[nodes.INCUMBENT])
        if control[nodes.BEST_NODE] >= 0:
            known.makespan = incumbent
            self._read_schedule(int(control[nodes.BEST_NODE]))
        lowest = incumbent
        if control[nodes.HEAP_SIZE] > 0:
            at_top = self.nodes.heap[: 1 if not slope else control[nodes.HEAP_SIZE]]
            lowest = min(lowest, int(self.nodes.fact[at_top, nodes.BOUND].min()))
        known.bound = max(known.bound, min(lowest, known.makespan))

    def _sharpen(self) -> None:
        """Tune the root's weight set further, the harder the part proves: a little better prunes much."""
        self.sharpen_at *= 16
        self.num_rounds = min(16 * self.num_rounds, 200_000)
        task, known = self.task, self.known
        weight_im, pick_i = np.zeros(task.dur_im.shape), np.zeros_like(known.mode_i)
        found = relax(
            task.dur_im,
            task.frac_imr,
            task.alone_im,
            task.pred_start,
            task.pred_index,
            self.num_rounds,
            1e-9,
            weight_im,
            pick_i,
        )
        nodes.put_weights(task, self.nodes, weight_im, 0)
        known.bound = max(known.bound, min(ceil_safely(found), known.makespan))

    def _read_schedule(self, node: int) -> None:
        fact = self.nodes.fact
        while node >= 0:
            action = int(fact[node, nodes.ACTION])
            if action >= 0:
                self.known.start_i[action >> MODE_BITS] = fact[node, nodes.BEGAN]
                self.known.mode_i[action >> MODE_BITS] = action & MODE_MASK
            node = int(fact[node, nodes.PARENT])


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
            task.dur_im,
            task.need_imr,
            task.cap_r,
            task.pred_start,
            task.pred_index,
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


def _merge(task: Task, known: PartSolution, found: Any) -> None:
    """Take a solver's bound, and its schedule if it is valid and shorter."""
    if found.start_i is not None:
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
