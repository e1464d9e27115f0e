"""Every layout of a graph that options and family allow, for compiled functions; ``layouts`` has them for others.

Items are (dp, pp, schedule, gathered for every pass or not); the layouts of an item are its orders and shardings.

Axis letters: i = item, y = layout of an item, q = figure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place, unfolded
from rephaze.place.full.least_time import (
    INTERLEAVED,
    ONE_F_ONE_B,
    ROUNDING,
    ZERO_BUBBLE,
    Shape,
    Share,
    Work,
    floor_time,
    least_floors,
)
from rephaze.place.full.line_layouts import (
    GRADIENTS_TOO,
    NONE,
    OPTIMIZER,
    WEIGHTS_TOO,
    Choices,
    Figures,
    Sharded,
    item_links,
    memory_costs,
    mesh_costs,
    sharded_costs,
)
from rephaze.place.full.lines import DP_OUTER_BIT, PP_OUTER_BIT, Lines
from rephaze.place.full.rates import Degrees, Levels, Mesh, Rate, are_experts_legal, list_sizes, shard_rates
from rephaze.place.full.spans import Costs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NUM_ITEM = 6
DEGREE, DP, PP, SCHEDULE, CHUNKS, GATHERS = range(NUM_ITEM)
"""Of an item; its degree is the position of dp among the degrees."""
NUM_LAYOUT = 3
IS_DP_OUTER, SHARDING, SHARD_GROUP = range(NUM_LAYOUT)
"""Of a layout of an item."""

YES, NO = unfolded(True), unfolded(False)


class Tables(NamedTuple):
    """The network and its least rates."""

    levels: Levels
    degrees: Degrees
    width_g: Ints
    first_row: Ints
    """By width and degree: where the rows of pp = 1, 2, ... begin."""
    row_rq: Floats
    kind_g: Ints
    first_kind: Ints
    expert_row_rq: Floats


def most_items(num_degrees: int, num_layers: int, num_chunks: int) -> int:
    """No graph has more."""
    return num_degrees * num_layers * (4 + 2 * num_chunks)


@inner_in_place
def list_items(
    g: int, lines: Lines, tables: Tables, choices: Choices, work_s: float, limit_s: float, item_iq: Ints
) -> tuple[int, bool]:
    """Put the items into ``item_iq``: how many, and whether some were left out whose work alone takes too long."""
    tp, cp, count = lines.tp_g[g], lines.cp_g[g], lines.count_g[g]
    wanted = choices.wanted
    width, num_layers, found, is_cut = tp * cp, lines.first_v_g[g + 1] - lines.first_v_g[g], 0, False
    for d in range(len(tables.degrees.dp_d)):
        dp = tables.degrees.dp_d[d]
        most = min(num_layers, choices.num_devices // (width * dp))
        if dp > count or most == 0:
            break
        if choices.is_exact and choices.global_batch % (dp * lines.microbatch_g[g]) != 0:
            continue
        if not are_experts_legal(tp, cp, dp, lines.experts_g[g]) or not _agrees(wanted.dp, dp):
            continue
        per_replica = -(-count // dp)
        # Of the slowest stage every microbatch takes its work.
        least = 1
        if per_replica * work_s * (1 - ROUNDING) >= limit_s:
            least = int(min(per_replica * work_s * (1 - ROUNDING) / limit_s, float(num_layers + 1)))
            is_cut = True
        for pp in range(max(least, 1), most + 1):
            if (choices.uses_all and dp * pp * width != choices.num_devices) or not _agrees(wanted.pp, pp):
                continue
            for schedule in (ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE):
                if not choices.is_schedule[schedule] or not _agrees(wanted.schedule, schedule):
                    continue
                if schedule == ZERO_BUBBLE and (pp < choices.least_zero_bubble or not lines.is_split_g[g]):
                    continue
                for variant in range(len(choices.chunks) if schedule == INTERLEAVED else 1):
                    chunks = choices.chunks[variant] if schedule == INTERLEAVED else 1
                    if schedule == INTERLEAVED and (pp < 2 or per_replica % pp or pp * chunks > num_layers):
                        continue
                    if not _agrees(wanted.chunks, chunks):
                        continue
                    for gathers in range(2):
                        if not _agrees(wanted.reshard, gathers):
                            continue
                        if gathers == 1 and not _is_gathering_legal(choices, cp * dp, schedule):
                            continue
                        row = item_iq[found]
                        row[DEGREE], row[DP], row[PP] = d, dp, pp
                        row[SCHEDULE], row[CHUNKS], row[GATHERS] = schedule, chunks, gathers
                        found += 1
    return found, is_cut


@inner_in_place
def _agrees(wanted: int, value: int) -> bool:
    return wanted == -1 or wanted == value


@inner_in_place
def _is_gathering_legal(choices: Choices, replicas: int, schedule: int) -> bool:
    is_sharded = choices.is_sharding_o[WEIGHTS_TOO] and choices.may_reshard
    return is_sharded and replicas > 1 and schedule != ZERO_BUBBLE


@inner_in_place
def list_layouts(
    item: Ints, cp: int, orders: int, degrees: Degrees, choices: Choices, size_s: Ints, layout_yq: Ints
) -> int:
    """Put the layouts of an item into ``layout_yq``; gives back how many.

    Left out: weights gathered once a batch where gradients may be sharded: the same time, more memory.
    """
    dp, pp, gathers = item[DP], item[PP], item[GATHERS] == 1
    replicas, found, wanted = cp * dp, 0, choices.wanted
    is_free = dp == 1 or pp == 1
    num_sizes = list_sizes(degrees, item[DEGREE], cp, choices.sizes, size_s) if replicas > 1 else 0
    for bit in (DP_OUTER_BIT, PP_OUTER_BIT):
        if (is_free and bit != DP_OUTER_BIT) or (not is_free and not orders & bit):
            continue
        if not is_free and not _agrees(wanted.is_dp_outer, 1 if bit == DP_OUTER_BIT else 0):
            continue
        for sharding in range(4):
            is_legal = choices.is_sharding_o[sharding] if replicas > 1 else sharding == NONE
            if gathers:
                is_legal = is_legal and sharding == WEIGHTS_TOO
            elif sharding == WEIGHTS_TOO:
                is_legal = is_legal and choices.may_keep and not choices.is_sharding_o[GRADIENTS_TOO]
            if not is_legal or not _agrees(wanted.sharding, sharding):
                continue
            for at in range(1 if sharding == NONE else num_sizes):
                if not _agrees(wanted.shard_group, 1 if sharding == NONE else size_s[at]):
                    continue
                row = layout_yq[found]
                row[IS_DP_OUTER], row[SHARDING] = 1 if bit == DP_OUTER_BIT else 0, sharding
                row[SHARD_GROUP] = 1 if sharding == NONE else size_s[at]
                found += 1
    return found


@inner_in_place
def item_mesh(item: Ints, tp: int, cp: int, is_dp_outer: bool) -> Mesh:
    """How its devices are numbered."""
    return Mesh(tp, cp, item[DP], item[PP], is_dp_outer)


@inner_in_place
def item_shape(item: Ints, count: int, overlap: bool) -> Shape:
    """Its degrees and schedule; ``count``: microbatches of a batch."""
    per_replica = -(-count // item[DP])
    return Shape(item[PP], item[CHUNKS], per_replica, item[SCHEDULE], item[GATHERS] == 1, overlap)


@inner_in_place
def layout_costs(
    item: Ints, layout: Ints, tp: int, cp: int, num_expert_devices: int, levels: Levels, figures: Figures
) -> Costs:
    """What a layout makes of bytes."""
    mesh = item_mesh(item, tp, cp, layout[IS_DP_OUTER] == 1)
    costs = mesh_costs(levels, mesh, num_expert_devices, item[SCHEDULE] == ZERO_BUBBLE)
    if layout[SHARDING] != NONE:
        shards, copies = shard_rates(levels, mesh, layout[SHARD_GROUP])
        costs = sharded_costs(costs, shards, copies)
    sharded = Sharded(layout[SHARDING], layout[SHARD_GROUP], item[GATHERS] == 1)
    return memory_costs(costs, figures, sharded, tp * cp * item[DP] // num_expert_devices)


class Least(NamedTuple):
    """What bounds of items need of a graph and a depth."""

    work: Work
    stage: Share
    chunk: Share


class Allowed(NamedTuple):
    """Which layouts an item has."""

    unsharded: bool
    sharded: bool
    """And not gathered for every pass."""


@inner_in_place
def allowed_of(choices: Choices) -> Allowed:
    """What the options allow where there are two replicas."""
    allowed = choices.is_sharding_o
    kept = allowed[WEIGHTS_TOO] and choices.may_keep
    return Allowed(allowed[NONE], allowed[OPTIMIZER] or allowed[GRADIENTS_TOO] or kept)


@inner_in_place
def item_bound_s(
    shape: Shape,
    mesh: Mesh,
    total: Floats,
    row: Floats,
    experts: Rate,
    least: Least,
    allowed: Allowed,
    figures: Figures,
) -> float:
    """No plan of the item is faster, whatever its order and sharding; infinite if it has none.

    Args:
        shape: Degrees and schedule.
        mesh: Degrees.
        total: Of the graph.
        row: Least rates of the degrees.
        experts: Least rate of the experts' replicas.
        least: What some stage and some chunk have at least.
        allowed: By the options.
        figures: Of the problem.
    """
    is_single = mesh.cp * mesh.dp == 1
    least_s = np.inf
    if shape.gathers or (allowed.sharded and not is_single):
        links = item_links(total, row, experts, figures, mesh, YES, shape.gathers)
        least_s = floor_time(least_floors(least.work, least.stage, least.chunk, links, shape), shape)
    if not shape.gathers and (is_single or allowed.unsharded):
        links = item_links(total, row, experts, figures, mesh, NO, NO)
        least_s = min(least_s, floor_time(least_floors(least.work, least.stage, least.chunk, links, shape), shape))
    return least_s * (1 - ROUNDING)
