"""A best-first search of one part that stops at a limit and can be continued, and what it knows of the part."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from rephaze.schedule import bestfirst, nodes
from rephaze.schedule.nodes import Nodes
from rephaze.schedule.relaxation import NEVER, ceil_safely, relax
from rephaze.schedule.tables import MODE_BITS, MODE_MASK, Floats, Ints, Preds, Task
from rephaze.schedule.teams import WORK_DONE
from rephaze.types.stopping import UNSTOPPED, StopSignal

NUM_ROUNDS = 200
"""Of the first relaxation."""
_FIRST_SHARPENING = 2000
_MAX_NODE_BYTES = 800_000_000
_SLICE, _DIVE_SLICE = 4096, 512
"""Most nodes from one look at the limit to the next."""
_MOST_STEEP = 8
"""How far above its bound a node nearly done may lie to come before one hardly begun, in parts of the gap."""


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


class ResumableSearch:
    """A best-first search that can be continued.

    Args:
        task: The part.
        known: What is known of it; what the search finds goes there.
        weight_im: A weight set to start with.
        width: Most operators that can run at once.
        cutoff: Only schedules shorter than this are looked for; a bound that reaches it ends the search.
    """

    def __init__(
        self, task: Task, known: PartSolution, weight_im: Floats, width: int, cutoff: int = NEVER
    ) -> None:
        self.task, self.known, self.cutoff = task, known, cutoff
        size, words = task.ancestors_iw.shape
        self.nodes: Nodes = nodes.new_nodes(task, width, max(1024, 8 * size * task.dur_im.shape[1] // 2))
        self.nodes.fact[0, nodes.BOUND] = known.bound
        self.words = words
        self.node_bytes = 8 * nodes.NUM_FACTS + 8 * self.nodes.bits.shape[1] + 12 * width + 24
        nodes.put_weights(task, self.nodes, weight_im, nodes.FIRST_RELAXED_SET)
        self.slice, self.steepness = 64, 1
        self.is_over = False
        self.sharpen_at, self.num_rounds = _FIRST_SHARPENING, NUM_ROUNDS

    def run(self, limit: Limit, *, dives: bool = False) -> None:
        """Search until proven, at the limit or out of memory; what is found goes into ``known``.

        Args:
            limit: Of all turns together.
            dives: Prefer nodes with more operators started to those of least bound: finds good schedules soon,
                proves late.
        """
        known, control = self.known, self.nodes.control
        control[nodes.INCUMBENT] = min(known.makespan, self.cutoff)
        control[nodes.BEST_NODE] = -1
        slope = self._slope() if dives else 0
        if slope != control[nodes.SLOPE]:
            nodes.reorder(self.nodes, slope)
        while not self.is_over and limit.time_left_s() > 0:
            expanded = int(control[nodes.NUM_EXPANDED])
            num_nodes = expanded + int(self.nodes.teams.num[WORK_DONE]) // nodes.PACKING_WORK_A_NODE
            if limit.num_nodes is not None and num_nodes >= limit.num_nodes:
                break
            if expanded >= self.sharpen_at and not control[nodes.PACKS]:
                self._sharpen()
            before = int(control[nodes.INCUMBENT])
            outcome = bestfirst.search_slice(self.task, self.nodes, self.slice)
            if dives:
                # Steeper until a schedule is found, then as flat as its gap allows.
                found = control[nodes.INCUMBENT] < before
                self.steepness = 1 if found or self.steepness >= _MOST_STEEP else 2 * self.steepness
                slope = self._slope()
                nodes.reorder(self.nodes, slope)
            if outcome == bestfirst.PROVEN:
                self.is_over = True
            elif outcome == bestfirst.FULL:
                capacity = 2 * len(self.nodes.fact)
                if capacity * self.node_bytes > _MAX_NODE_BYTES:
                    self.is_over = True
                    break
                self.nodes = nodes.enlarged(self.nodes, self.words, capacity)
            else:
                self.slice = min(2 * self.slice, _DIVE_SLICE if dives else _SLICE)
        incumbent = int(control[nodes.INCUMBENT])
        if control[nodes.BEST_NODE] >= 0:
            known.makespan = incumbent
            self._read_schedule(int(control[nodes.BEST_NODE]))
        lowest = incumbent
        if control[nodes.HEAP_SIZE] > 0:
            at_top = self.nodes.heap[: 1 if not slope else control[nodes.HEAP_SIZE]]
            lowest = min(lowest, int(self.nodes.fact[at_top, nodes.BOUND].min()))
        known.bound = max(known.bound, min(lowest, known.makespan))

    def _slope(self) -> int:
        """Steep while far from proven."""
        bound, incumbent = self.known.bound, int(self.nodes.control[nodes.INCUMBENT])
        gap = (incumbent - bound) / max(incumbent, 1)
        return max(1, int(self.steepness * gap * (1 << nodes.STEEPNESS_BITS)))

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
            Preds(task.pred_start, task.pred_index),
            self.num_rounds,
            1e-9,
            weight_im,
            pick_i,
        )
        nodes.put_weights(task, self.nodes, weight_im, nodes.FIRST_RELAXED_SET)
        known.bound = max(known.bound, min(ceil_safely(found), known.makespan))

    def _read_schedule(self, node: int) -> None:
        fact = self.nodes.fact
        while node >= 0:
            action = int(fact[node, nodes.ACTION])
            if action >= 0:
                self.known.start_i[action >> MODE_BITS] = fact[node, nodes.BEGAN]
                self.known.mode_i[action >> MODE_BITS] = action & MODE_MASK
            node = int(fact[node, nodes.PARENT])
