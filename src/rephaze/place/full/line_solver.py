"""Problems whose graphs are lines, made ready for ``line_search``, and its answers as plans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np

from rephaze.place.full import line_items as codes
from rephaze.place.full.layout_cuts import GRAPH, ITEM, LAYOUT, State
from rephaze.place.full.layouts import (
    EQUAL_BLOCKS,
    FAMILY_SHARDING,
    LEAST_ZERO_BUBBLE_STAGES,
    WHOLE_CLUSTER,
    Layout,
)
from rephaze.place.full.least_time import INTERLEAVED, ONE_F_ONE_B, ZERO_BUBBLE
from rephaze.place.full.line_items import Tables
from rephaze.place.full.line_layouts import Choices, Figures, Wanted, graph_totals
from rephaze.place.full.line_search import LineSearch
from rephaze.place.full.lines import PP_OUTER_BIT, Ints, Lines, Times, lines_of
from rephaze.place.full.rates import Degrees, Levels, Sizes, least_expert_rates, least_rates
from rephaze.types.cluster import Cluster
from rephaze.types.full import (
    DeviceOrder,
    FullGraph,
    FullPlan,
    FullProblem,
    FullStage,
    PipelineSchedule,
    PlanFamily,
    ShardGroups,
    Sharding,
)

SCHEDULES = {
    PipelineSchedule.ONE_F_ONE_B: ONE_F_ONE_B,
    PipelineSchedule.INTERLEAVED: INTERLEAVED,
    PipelineSchedule.ZERO_BUBBLE: ZERO_BUBBLE,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class LineAnswer:
    """The fastest plan of some graphs below a cutoff."""

    position: int
    """Of its graph; -1: there is none."""
    plan: FullPlan | None
    batch_s: float
    """Of the plan, as the search adds it up: its price but for rounding; infinite if there is none."""
    open_s: float
    """The least bound of layouts solved only over cuts of equal numbers of blocks; infinite if there are none."""
    unsolved_s: float
    """The least bound of layouts not solved over a family of cuts."""
    may_exist: bool
    """Whether there may be plans above the cutoff."""


class LineSolver:
    """Solves the graphs of a problem that are lines.

    Args:
        problem: The problem.
        graphs: Those graphs.
    """

    def __init__(self, problem: FullProblem, graphs: Sequence[FullGraph]) -> None:
        self.problem, self.graphs = problem, list(graphs)
        lines = lines_of(problem, self.graphs)
        if problem.options.family in WHOLE_CLUSTER:
            lines = lines._replace(orders_g=lines.orders_g & PP_OUTER_BIT)
        self.lines: Lines = lines
        self.choices = choices_of(problem)
        self.tables = _tables(problem, lines, self.choices)
        self._searches: dict[int, LineSearch] = {}
        """By the number of points of ``keep``."""

    def only(self, schedule: PipelineSchedule) -> LineSolver:
        """The same for plans of one schedule, if the problem allows it."""
        made = copy(self)
        is_asked = np.array([one is schedule for one in SCHEDULES])
        made.choices = self.choices._replace(is_schedule=self.choices.is_schedule & is_asked)
        return made

    def solve(
        self, times: Times, cutoff_s: float, memory_bytes: float, *, any_will_do: bool = False
    ) -> LineAnswer:
        """The fastest plan below the cutoff in so much memory, or some plan: the first that is found."""
        figures = self.choices.figures._replace(memory_bytes=memory_bytes)
        choices = self.choices._replace(figures=figures)
        totals = graph_totals(self.lines, times)
        num_points = times.kept_bytes_vk.shape[1]
        if num_points not in self._searches:
            self._searches[num_points] = LineSearch(self.lines, self.tables, num_points, choices.chunks)
        answer = self._searches[num_points].run(times, totals, choices, cutoff_s, any_will_do=any_will_do)
        g = int(answer.row_q[GRAPH])
        return LineAnswer(
            position=g,
            plan=None if g < 0 else self._plan(self.graphs[g], answer),
            batch_s=math.inf if g < 0 else float(answer.best_s[0]),
            open_s=float(answer.best_s[1]),
            unsolved_s=float(answer.best_s[2]),
            may_exist=bool(answer.may_be[0]),
        )

    def _plan(self, graph: FullGraph, answer: State) -> FullPlan:
        layout = layout_at(answer.row_q)
        num_stages = layout.pp * layout.chunks
        starts = [*answer.cut_qc[0, :num_stages].tolist(), len(graph.layers)]
        stages = tuple(
            FullStage(layers=tuple(range(starts[at], starts[at + 1])), keep=int(answer.cut_qc[1, at]))
            for at in range(num_stages)
        )
        return layout.plan(graph, stages)


def layout_at(row_q: Ints) -> Layout:
    """The layout of a row."""
    found = row_q.tolist()
    item, layout_code = found[ITEM:LAYOUT], found[LAYOUT:]
    return Layout(
        dp=item[codes.DP],
        pp=item[codes.PP],
        order=DeviceOrder.DP_OUTER if layout_code[codes.IS_DP_OUTER] else DeviceOrder.PP_OUTER,
        sharding=tuple(Sharding)[layout_code[codes.SHARDING]],
        shard_group=layout_code[codes.SHARD_GROUP],
        reshard=bool(item[codes.GATHERS]),
        schedule=next(one for one, number in SCHEDULES.items() if number == item[codes.SCHEDULE]),
        chunks=item[codes.CHUNKS],
    )


def _wanted(problem: FullProblem) -> Wanted:
    """Choices made beforehand, as codes."""
    limits = problem.limits
    if limits is None:
        return Wanted()

    def code(value: int | None) -> int:
        return -1 if value is None else int(value)

    return Wanted(
        dp=code(limits.dp),
        pp=code(limits.pp),
        is_dp_outer=-1 if limits.order is None else int(limits.order is DeviceOrder.DP_OUTER),
        sharding=-1 if limits.sharding is None else tuple(Sharding).index(limits.sharding),
        shard_group=code(limits.shard_group),
        reshard=code(limits.reshard),
        schedule=-1 if limits.schedule is None else SCHEDULES[limits.schedule],
        chunks=code(limits.chunks),
    )


def choices_of(problem: FullProblem) -> Choices:
    """What a plan may choose from, for compiled functions."""
    options, precision = problem.options, problem.precision
    allowed = FAMILY_SHARDING.get(options.family, tuple(Sharding))
    per_byte = precision.step_bytes / precision.weight_bytes
    return Choices(
        figures=Figures(
            memory_bytes=problem.device_memory_bytes,
            gradient_ratio=precision.gradient_bytes / precision.weight_bytes,
            state_ratio=precision.state_bytes / precision.weight_bytes,
            step_s_per_byte=per_byte / problem.hbm_bytes_per_s if problem.hbm_bytes_per_s else 0.0,
            overlap=options.overlap,
        ),
        wanted=_wanted(problem),
        num_devices=problem.cluster.num_devices,
        global_batch=problem.global_batch,
        is_exact=options.family is not PlanFamily.ANY,
        uses_all=options.family in WHOLE_CLUSTER,
        has_equal_blocks=options.family in EQUAL_BLOCKS,
        is_sharding_o=np.array([one in options.sharding and one in allowed for one in Sharding]),
        sizes=Sizes(ShardGroups.ALL in options.shard_group, ShardGroups.LEVEL in options.shard_group),
        may_reshard=True in options.reshard,
        may_keep=False in options.reshard,
        is_schedule=np.array([one in options.schedule for one in SCHEDULES]),
        chunks=np.array(options.chunks, dtype=np.int64),
        least_zero_bubble=LEAST_ZERO_BUBBLE_STAGES,
    )


def levels_of(cluster: Cluster) -> Levels:
    """The network for compiled functions."""
    rates = accumulate((level.bytes_per_s for level in cluster.levels), min)
    latencies = accumulate((level.latency_s for level in cluster.levels), max)
    return Levels(
        num_devices_l=np.array([level.num_devices for level in cluster.levels], dtype=np.int64),
        s_per_byte_l=np.array([1.0 / rate for rate in rates]),
        latency_s_l=np.array(list(latencies), dtype=np.float64),
    )


def _tables(problem: FullProblem, lines: Lines, choices: Choices) -> Tables:
    most = min(int(lines.count_g.max()), problem.cluster.num_devices // int((lines.tp_g * lines.cp_g).min()))
    return _tables_for(
        problem.cluster,
        None if problem.options.family is PlanFamily.ANY else problem.global_batch,
        most,
        choices.sizes,
        choices.figures.gradient_ratio,
        tuple(zip(lines.tp_g.tolist(), lines.cp_g.tolist(), lines.experts_g.tolist(), strict=True)),
        int(np.diff(lines.first_v_g).max()),
    )


@lru_cache(maxsize=128)
def _tables_for(
    cluster: Cluster,
    batch: int | None,
    most: int,
    shard_sizes: Sizes,
    gradient_ratio: float,
    widths_g: tuple[tuple[int, int, int], ...],
    num_layers: int,
) -> Tables:
    """What microbatch sizes and chips of a model share.

    Args:
        cluster: The network.
        batch: What degrees must divide; None: nothing.
        most: The largest degree.
        shard_sizes: Which shard groups are asked for.
        gradient_ratio: Bytes of a gradient over those of a weight.
        widths_g: (tp, cp, devices of experts) of each graph.
        num_layers: Of the longest graph.
    """
    levels, degrees = levels_of(cluster), _degrees(batch, most)
    widths, width_g = _distinct([(tp, cp) for tp, cp, _ in widths_g])
    depths = cluster.num_devices // (widths.prod(axis=1)[:, None] * degrees.dp_d[None, :])
    first_row = _starts(np.minimum(depths, num_layers))
    kinds, kind_g = _distinct([(*one, w) for one, w in zip(widths_g, width_g.tolist(), strict=True)])
    sizes = (first_row[:, -1] - first_row[:, 0])[kinds[:, 3]]
    first_kind = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Tables(
        levels=levels,
        degrees=degrees,
        width_g=width_g,
        first_row=first_row,
        row_rq=least_rates(levels, degrees, shard_sizes, widths, first_row, gradient_ratio),
        kind_g=kind_g,
        first_kind=first_kind,
        expert_row_rq=least_expert_rates(levels, degrees, kinds, first_row, first_kind),
    )


def _distinct(rows: list[tuple[int, ...]]) -> tuple[Ints, Ints]:
    """The different rows, sorted, and the position of each row among them."""
    found = {row: at for at, row in enumerate(sorted(set(rows)))}
    return np.array(list(found), dtype=np.int64), np.array([found[row] for row in rows], dtype=np.int64)


def _starts(num_rows: Ints) -> Ints:
    """Where the rows of each width and degree begin, one more entry at the end of each width."""
    before = np.concatenate([[0], np.cumsum(num_rows.sum(axis=1))])[:-1]
    inside = np.concatenate([np.zeros((len(num_rows), 1), dtype=np.int64), np.cumsum(num_rows, axis=1)], axis=1)
    return np.ascontiguousarray(before[:, None] + inside, dtype=np.int64)


def _degrees(batch: int | None, most: int) -> Degrees:
    """Degrees some graph may have, with their divisors."""
    found = list(range(1, max(most, 1) + 1))
    if batch is not None:
        found = [dp for dp in _divisors(batch) if dp <= max(most, 1)]
    divisors = [_divisors(dp) for dp in found]
    return Degrees(
        dp_d=np.array(found, dtype=np.int64),
        first_divisor_d=np.array([0, *accumulate(len(one) for one in divisors)], dtype=np.int64),
        divisor_i=np.array([one for some in divisors for one in some], dtype=np.int64),
    )


def _divisors(number: int) -> list[int]:
    small = [one for one in range(1, math.isqrt(number) + 1) if number % one == 0]
    return sorted({*small, *(number // one for one in small)})
