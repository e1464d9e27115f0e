"""What the slowest device of a layout takes at least, with what it must replay to fit (docs/proof.md, 5.9).

A time that no cut into stages keeps to is a bound on the slowest stage of every cut; the longest such time is
found by halving. Transfers are left out: they only add to what a stage takes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place
from rephaze.place.full.least_time import INTERLEAVED, Floors, Shape
from rephaze.place.full.line_fits import asked_of, can_be_cut
from rephaze.place.full.line_memory import may_deal_blocks, may_interleave_within
from rephaze.place.full.lines import Line
from rephaze.place.full.spans import Costs

Floats = NDArray[np.float64]

EVEN_ENOUGH = 1.002
"""A slowest stage within this part of an even share is not worth looking for."""
NUM_HALVINGS = 9
MOST_LOADS = 4.0
"""How many times an even share of all layers is looked for: replays do not make it more."""


@inner_in_place
def least_stage(line: Line, costs: Costs, shape: Shape, link_vq: Floats, run_kq: Floats) -> float:
    """Seconds that some device takes under every cut of the line that fits.

    Args:
        line: The layers.
        costs: Of the layout.
        shape: Of the layout.
        link_vq: Of any transfers: they are not looked at.
        run_kq: Memory to work in.
    """
    total_s = 0.0
    for v in range(len(line.forward_s_v)):
        total_s += line.forward_s_v[v] + line.compute_s_vk[v, 0]
    share_s = total_s / shape.pp
    free = _without_links(costs)
    low_s, high_s = share_s, MOST_LOADS * share_s
    if _may_keep_to(line, free, link_vq, shape, EVEN_ENOUGH * share_s, run_kq):
        return share_s
    if not _may_keep_to(line, free, link_vq, shape, high_s, run_kq):
        return high_s
    for _ in range(NUM_HALVINGS):
        middle_s = 0.5 * (low_s + high_s)
        if _may_keep_to(line, free, link_vq, shape, middle_s, run_kq):
            high_s = middle_s
        else:
            low_s = middle_s
    return low_s


@inner_in_place
def _may_keep_to(line: Line, costs: Costs, link_vq: Floats, shape: Shape, most_s: float, run_kq: Floats) -> bool:
    """Whether some cut may fit with no device that takes longer."""
    if shape.schedule == INTERLEAVED:
        may = may_interleave_within(line, costs, shape.pp, most_s, most_s, 0.0)
        return may and may_deal_blocks(line, costs, shape, most_s)
    return can_be_cut(line, costs, link_vq, asked_of(shape, most_s), run_kq)


@inner_in_place
def _without_links(costs: Costs) -> Costs:
    return Costs(
        costs.message, costs.shards, costs.copies, costs.gradients, costs.experts, costs.shard_group,
        costs.gradient_ratio, costs.is_sharded, False, costs.overlap, costs.is_zero_bubble, costs.own_ratio,
        costs.expert_ratio, costs.pair_ratio, costs.largest_ratio, 0.0, 0.0, costs.memory_bytes,
    )  # fmt: skip


@inner_in_place
def with_slowest(floors: Floors, slowest_s: float) -> Floors:
    """The floors if the layers of some device take this long, transfers left out: all layers take no less."""
    return Floors(
        max(floors.passes_s, slowest_s), max(floors.slowest_s, slowest_s), floors.longest_s, floors.sync_s,
        floors.regather_s, floors.once_s, floors.late_s, floors.step_s, floors.ahead_s, floors.input_s,
        floors.forward_s, floors.message_s,
    )  # fmt: skip
