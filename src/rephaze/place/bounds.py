"""A lower bound on the batch time for many chips at once: the first sieve of a search over chips.

For each graph, depth S and data-parallel degree that memory and devices allow, no plan is faster than one
with perfectly even stages; nor can any plan do with less in its slowest stage than one S-th, rounded up, of
the layers of one type. All that depends on a chip are the layers' times, so the depths are listed once:

    T >= C + (m_d - 1) * L + sync
    C = work + 2 (S - 1) transfers
    L = max(C / S, max_t ceil(n_t / S) * work_t + transfer, bottleneck(S) + transfer, device_work / devices)

bottleneck(S) is the slowest of S stages cut from a line of layers as evenly as whole layers allow. A pipeline
wider than a group of the network pays the next level's transfers.

Axis letters: c = chip, t = layer type, o = option (a depth and a degree).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rephaze.compiled import inner, kernel
from rephaze.errors import SpecError
from rephaze.place.paper_bounds import LineTypes, Pipelines, lower_paper_line
from rephaze.place.prepare import PreparedGraph, options_of
from rephaze.place.solver import Placer
from rephaze.place.tables import Floats, Ints, Options
from rephaze.types.placement import PlacementModel

_BISECTION_STEP = 1e-3


class LayerTypes(NamedTuple):
    """A graph's layers by type; the types along a line, where they form one."""

    num_t: Ints
    """Layers of each type."""
    held_t: Ints
    """The same, each layer counted once for every device it holds."""
    run_type: Ints
    """Types along the line, and how often each follows itself; empty if the layers branch."""
    run_length: Ints


class OptionTable(NamedTuple):
    """A graph's ``Options`` with what its bound needs to know of each."""

    depth_o: Ints
    count_o: Ints
    once_s_o: Floats
    next_depth_o: Ints
    """Where the next depth's options start."""
    transfer_s_o: Floats
    """Least time of one transfer."""
    most_devices_o: Ints
    """Devices one pipeline can have: the others need theirs."""


class ChipBounds:
    """Lower bounds for a prepared problem.

    Args:
        placer: The problem, with a device memory: what fits does not depend on a chip's cores.
        layer_type_of: For each layer of the problem, its column in the times given later.
    """

    def __init__(self, placer: Placer, layer_type_of: Sequence[int]) -> None:
        num_layers = len(placer.problem.graphs[0].layers)
        if len(layer_type_of) != num_layers:
            raise SpecError(
                "layer_type_of", len(layer_type_of), f"must name a type for each of {num_layers} layers"
            )
        self._placer = placer
        self._type_of = np.array(layer_type_of, dtype=np.int64)
        self._num_of_t = np.bincount(self._type_of).astype(np.int64)
        run_type, run_length = self._runs()
        self._options = []
        for prepared in placer.prepared:
            options = self._list_options(prepared)
            types = LayerTypes(self._num_of_t, self._held(prepared), run_type, run_length)
            table = OptionTable(
                *options,
                next_depth_o=np.searchsorted(options.depth_o, options.depth_o, side="right"),
                transfer_s_o=self._least_transfers(prepared, options),
                most_devices_o=self._most_devices(prepared, options),
            )
            self._options.append((prepared, types, table))

    def batch_s(self, times: Sequence[tuple[Floats, Floats]]) -> Floats:
        """For each chip, a time no plan beats; infinite where no plan fits.

        Args:
            times: For each graph of the problem, (forward_s_ct, backward_s_ct), chips x layer types; times
                that are themselves lower bounds give a lower bound.
        """
        is_paper = self._placer.problem.cost_model is PlacementModel.PAPER
        bound_c = np.full(len(times[0][0]), np.inf)
        for prepared, types, options in self._options:
            forward_ct, backward_ct = times[prepared.position]
            if is_paper and self._placer.shape.is_line:
                self._lower_paper_line(bound_c, prepared, types, forward_ct, backward_ct)
                continue
            work_ct = np.ascontiguousarray(np.asarray(forward_ct) + np.asarray(backward_ct), dtype=np.float64)
            _lower(bound_c, work_ct, types, options, is_paper)
        return bound_c

    def _lower_paper_line(
        self,
        bound_c: Floats,
        prepared: PreparedGraph,
        types: LayerTypes,
        forward_ct: Floats,
        backward_ct: Floats,
    ) -> None:
        lower_paper_line(
            bound_c,
            np.ascontiguousarray(forward_ct, dtype=np.float64),
            np.ascontiguousarray(backward_ct, dtype=np.float64),
            LineTypes(
                type_v=self._type_of[list(self._placer.shape.order)],
                param_bytes_v=prepared.arrays.layers.param_bytes_v,
                held_t=types.held_t,
            ),
            Pipelines(
                stages_least=prepared.stages_least,
                devices_s=prepared.devices_s,
                num_devices=self._placer.problem.cluster.num_devices,
                transfer_s=float(prepared.transfer_s_l[-1]),
                must_replay=prepared.must_replay,
            ),
            prepared.degrees,
            4.0 / float(self._placer.links.bytes_per_s_l[-1]),
        )

    def _runs(self) -> tuple[Ints, Ints]:
        """Types along a line of layers and how often each follows itself; empty if the layers branch."""
        if not self._placer.shape.is_line:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        type_v = self._type_of[list(self._placer.shape.order)]
        starts = np.flatnonzero(np.concatenate(([True], type_v[1:] != type_v[:-1])))
        return type_v[starts], np.diff(np.concatenate((starts, [len(type_v)]))).astype(np.int64)

    def _held(self, prepared: PreparedGraph) -> Ints:
        """By layer type, the devices its layers hold."""
        devices_v = np.where(prepared.arrays.layers.wide_v == 1, prepared.graph.tp, 1)
        type_v = self._type_of[list(self._placer.shape.order)]
        return np.bincount(type_v, weights=devices_v, minlength=len(self._num_of_t)).astype(np.int64)

    def _most_devices(self, prepared: PreparedGraph, options: Options) -> Ints:
        """For each option, the devices one pipeline can have: the others need theirs.

        An option also stands for the degrees after it that were not listed, since they have more microbatches and
        save nothing at the end of the batch: those have fewer pipelines, so each may have more devices.
        """
        count_c, dp_c = prepared.degrees
        position_o = np.searchsorted(count_c, options.count_o)
        is_last_o = np.append(options.depth_o[1:] != options.depth_o[:-1], True)[: len(position_o)]
        following_o = np.where(is_last_o, len(dp_c), np.append(position_o[1:], 0)[: len(position_o)])
        num_devices = self._placer.problem.cluster.num_devices
        most: Ints = num_devices // dp_c[following_o - 1]
        return most

    def _least_transfers(self, prepared: PreparedGraph, options: Options) -> Floats:
        """Least time of one transfer for each option: a pipeline wider than a group leaves it."""
        if self._placer.problem.cost_model is PlacementModel.PAPER:
            return np.full(len(options.depth_o), prepared.transfer_s_l[-1])
        group_l = self._placer.links.num_devices_l
        # Of a depth there are as many options as degrees: once a depth is enough.
        depths, depth_at_o = np.unique(options.depth_o, return_inverse=True)
        levels = np.minimum(np.searchsorted(group_l, prepared.fewest_devices(depths)), len(group_l) - 1)
        return np.asarray(prepared.transfer_s_l)[levels][depth_at_o]

    def _list_options(self, prepared: PreparedGraph) -> Options:
        """The graph's options with what repeated layers add: some stage holds its share of them, rounded up."""
        placer = self._placer
        params_v = prepared.arrays.layers.param_bytes_v
        type_v = self._type_of[list(placer.shape.order)]
        depths = np.arange(1, prepared.stages_most + 1)
        heaviest_s = np.maximum(params_v.sum() / depths, params_v.max())
        for column, count in enumerate(self._num_of_t.tolist()):
            if count:
                # The least of a type: where its layers differ, the bound must hold for all.
                share = -(-count // depths) * params_v[type_v == column].min()
                heaviest_s = np.maximum(heaviest_s, share)
        return options_of(prepared, placer.problem, placer.shape, placer.links, heaviest_s)


@kernel
def _lower(bound_c: Floats, work_ct: Floats, types: LayerTypes, options: OptionTable, is_paper: bool) -> None:
    """Lower ``bound_c`` to this graph's bound where that is less."""
    # Unpacked once: every field access of a tuple in compiled code counts references.
    num_of_t, held_t, run_type, run_length = types.num_t, types.held_t, types.run_type, types.run_length
    depth_o, count_o, once_s_o = options.depth_o, options.count_o, options.once_s_o
    next_depth_o, transfer_s_o, most_devices_o = options.next_depth_o, options.transfer_s_o, options.most_devices_o
    num_types = len(num_of_t)
    for c in range(len(bound_c)):
        work = largest = device_work = 0.0
        for t in range(num_types):
            device_work += held_t[t] * work_ct[c, t]
            work += num_of_t[t] * work_ct[c, t]
            if num_of_t[t] > 0:
                largest = max(largest, work_ct[c, t])
        best = bound_c[c]
        o = 0
        while o < len(depth_o):
            depth = depth_o[o]
            transfer_s = transfer_s_o[o]
            total = work + 2 * (depth - 1) * transfer_s
            slowest = max(total / depth, largest)
            for t in range(num_types):
                held = -(-num_of_t[t] // depth)
                slowest = max(slowest, held * work_ct[c, t] + (transfer_s if depth > 1 else 0.0))
            if len(run_type) > 0 and depth > 1:
                pipe = (depth - 1) * slowest if is_paper else total - slowest
                # Worth the time only where the coarser bound leaves room.
                if pipe + count_o[o] * slowest < best:
                    floor_s = slowest - transfer_s
                    if floor_s > 0.0:
                        longest = _least_bottleneck(work_ct[c], run_type, run_length, depth, floor_s)
                        slowest = max(slowest, longest + transfer_s)
            filling = (depth - 1) * slowest if is_paper else total - slowest
            while o < len(depth_o) and depth_o[o] == depth:
                pipe = filling + count_o[o] * slowest
                if pipe >= best:
                    o = next_depth_o[o]
                    break
                # No fewer device seconds than the layers take on the devices they hold.
                slower = max(slowest, device_work / most_devices_o[o])
                filled = (depth - 1) * slower if is_paper else total - slower
                best = min(best, filled + count_o[o] * slower + once_s_o[o])
                o += 1
        bound_c[c] = best


@inner
def _least_bottleneck(work_t: Floats, run_type: Ints, run_length: Ints, depth: int, floor_s: float) -> float:
    """A time below which no cut of the line into ``depth`` stages keeps its slowest stage.

    Bisection between ``floor_s``, which must be such a time itself, and a multiple of it; the lower end, which too
    few stages can keep to, is given back, so that the result is a bound to whatever precision.
    """
    if _stages_needed(work_t, run_type, run_length, floor_s) <= depth:
        return floor_s
    low, high = floor_s, 2.0 * floor_s
    while _stages_needed(work_t, run_type, run_length, high) > depth:
        low, high = high, 2.0 * high
    while high - low > _BISECTION_STEP * low:
        middle = 0.5 * (low + high)
        if _stages_needed(work_t, run_type, run_length, middle) <= depth:
            high = middle
        else:
            low = middle
    return low


@inner
def _stages_needed(work_t: Floats, run_type: Ints, run_length: Ints, limit_s: float) -> int:
    """Stages a line needs when none may take longer than ``limit_s``: each is filled before the next starts."""
    stages = 1
    used = 0.0
    for r in range(len(run_type)):
        work = work_t[run_type[r]]
        left = run_length[r]
        if work <= 0.0:
            continue
        # Rounding must not make a stage hold less than it does.
        a_stage = int(limit_s / work * (1.0 + 1e-12))
        if a_stage < 1:
            return 1 << 40
        here = min(left, int((limit_s - used) / work * (1.0 + 1e-12)))
        left -= here
        used += here * work
        if left > 0:
            more = -(-left // a_stage)
            stages += more
            used = (left - (more - 1) * a_stage) * work
    return stages
