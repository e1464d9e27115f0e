"""A time no plan of a layout beats, in closed form (docs/proof.md, 5.8).

Nothing here knows of a cut. What is known of every cut: layers, their link times and their state add up, so the
slowest of pp stages has no less than a pp-th; some stage has its share of equal layers, rounded up; transfers hide
behind no more compute than there is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rephaze.compiled import inner_in_place

ROUNDING = 1e-9
"""Relative: prices, bounds and compiled sums add the same terms in another order."""
MEMORY_ROUNDING = 1e-12
"""Relative: what fits to the last byte is priced in another order of sums."""

ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE = 0, 1, 2
"""Codes of schedules in compiled functions."""


class Work(NamedTuple):
    """Compute of all layers, seconds of a microbatch without replays."""

    forward_s: float
    backward_s: float
    weight_backward_s: float


class Share(NamedTuple):
    """What some part of so many has at least: the longest layer, or its share of equal layers rounded up."""

    both_s: float
    forward_s: float
    input_backward_s: float
    ahead_s: float
    """Forward and input backward pass."""


class LinkTimes(NamedTuple):
    """Transfers of all layers under a layout, seconds; the least of them where it stands for several layouts."""

    message_s: float
    """Between two stages, one way."""
    sync_s: float
    """What sums gradients once a batch."""
    first_sync_s: float
    """Of the first layer alone."""
    regather_s: float
    """What gathers weights once a batch."""
    first_regather_s: float
    once_s: float
    """Both of them together: no less than their sum, more where it stands for several layouts."""
    gather_s: float
    """Weights for a pass; 0 where they are not gathered for every pass."""
    scatter_s: float
    copies_s: float
    """Sums over the copies of shards, where weights are gathered for every pass."""
    step_s: float
    longest_step_s: float
    """Of one layer."""
    tied_s: float


@inner_in_place
def free_links() -> LinkTimes:
    """Transfers that take no time."""
    return LinkTimes(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class Shape(NamedTuple):
    """Degrees and schedule of a layout."""

    pp: int
    chunks: int
    num_microbatches: int
    """Of a replica."""
    schedule: int
    gathers: bool
    """For every pass."""
    overlap: bool


@inner_in_place
def zero_bubble_fill(
    pp: int, count: int, load_s: float, ahead_s: float, input_s: float, forward_s: float
) -> float:
    """What the weight parts cannot fill of the ramps of a pipeline, beside ``count`` times the slowest load."""
    steady = min(pp - 1, count - 1)
    return max(
        (pp - 1) * ahead_s - steady * (load_s - ahead_s),
        (pp - 1 - steady) * ahead_s + steady * input_s,
        (pp - 1) * forward_s + (pp - 1 - steady) * input_s,
    )


class Floors(NamedTuple):
    """What the parts of a batch's time are at least under every cut; ``Share`` by stage, chunk and pass."""

    passes_s: float
    """Sum of all loads."""
    slowest_s: float
    """Slowest device, tail included."""
    longest_s: float
    """Longest chunk."""
    sync_s: float
    regather_s: float
    once_s: float
    """Both together, each the largest of any stage."""
    late_s: float
    """Own time, sync and regather of one device."""
    step_s: float
    ahead_s: float
    input_s: float
    forward_s: float
    message_s: float
    """Between two stages, one way."""


@inner_in_place
def least_floors(work: Work, stage: Share, chunk: Share, links: LinkTimes, shape: Shape) -> Floors:
    """The least of each part.

    Args:
        work: Of all layers.
        stage: What some device has, of pp.
        chunk: What some chunk has, of pp * chunks.
        links: Transfers.
        shape: Degrees and schedule.
    """
    pp = shape.pp
    num_chunks = pp * shape.chunks
    messages_s = 2 * (num_chunks - 1) * links.message_s
    # A stage has one message at least, if there are two stages.
    message_s = links.message_s if pp > 1 else 0.0
    forward_s = max(work.forward_s, links.gather_s)
    passes_s = messages_s + forward_s + max(work.backward_s, links.gather_s)
    busy_s = messages_s + forward_s + max(work.backward_s, links.gather_s + links.scatter_s)
    slowest_s = max(busy_s / pp, stage.both_s + (2 * shape.chunks - 1) * message_s)
    longest_s = max(passes_s / num_chunks, chunk.both_s + message_s)
    step_s = max(links.step_s / pp, links.longest_step_s)
    if shape.gathers:
        sync_s, regather_s = max(links.first_sync_s, links.copies_s / pp), 0.0
        once_s, late_s = sync_s, (busy_s + links.copies_s) / pp
    elif shape.overlap:
        hidden_s = work.weight_backward_s if shape.schedule == ZERO_BUBBLE else work.backward_s
        sync_s = max(0.0, links.sync_s - hidden_s)
        regather_s = max(0.0, links.regather_s - work.forward_s)
        both_s = max(sync_s + regather_s, links.once_s - hidden_s - work.forward_s)
        late_s = (busy_s + both_s) / pp
        sync_s = max(links.first_sync_s, sync_s / pp)
        regather_s = max(links.first_regather_s, regather_s / pp)
        once_s = max(sync_s + regather_s, both_s / pp)
    else:
        sync_s, regather_s = links.sync_s / pp, links.regather_s / pp
        once_s = max(sync_s + regather_s, links.once_s / pp)
        late_s = busy_s / pp + once_s
    input_s = work.backward_s - work.weight_backward_s
    half_s = 0.5 * messages_s
    return Floors(
        passes_s,
        slowest_s,
        longest_s,
        sync_s,
        regather_s,
        once_s,
        late_s,
        step_s + links.tied_s,
        max((messages_s + work.forward_s + input_s) / pp, stage.ahead_s + message_s),
        max((half_s + input_s) / pp, stage.input_backward_s),
        max((half_s + work.forward_s) / pp, stage.forward_s),
        links.message_s,
    )


@inner_in_place
def floor_time(floors: Floors, shape: Shape) -> float:
    """No plan of the layout is faster: a batch's time rises with each of its parts."""
    pp, count, slowest_s = shape.pp, shape.num_microbatches, floors.slowest_s
    if shape.schedule == ONE_F_ONE_B:
        return floors.passes_s + (count - 1) * slowest_s + floors.once_s + floors.step_s
    # Devices that are not the slowest have time to spare for their sums.
    end_s = max(slowest_s, floors.late_s) + floors.step_s
    if shape.schedule == INTERLEAVED:
        return (count - 1) * slowest_s + (pp - 1) * floors.longest_s + end_s
    fill_s = zero_bubble_fill(pp, count, slowest_s, floors.ahead_s, floors.input_s, floors.forward_s)
    return (count - 1) * slowest_s + fill_s + end_s


@inner_in_place
def most_load_s(floors: Floors, shape: Shape, limit_s: float) -> float:
    """The most a stage may take, tail and messages included, if the batch is to be faster than the limit."""
    pp, count = shape.pp, shape.num_microbatches
    if shape.schedule == ONE_F_ONE_B:
        rest_s = limit_s - floors.passes_s - floors.once_s - floors.step_s
        return rest_s / (count - 1) if count > 1 else np.inf
    if shape.schedule == INTERLEAVED:
        return (limit_s - (pp - 1) * floors.longest_s - floors.step_s) / count
    steady = min(pp - 1, count - 1)
    fill_s = max(
        (pp - 1 - steady) * floors.ahead_s + steady * floors.input_s,
        (pp - 1) * floors.forward_s + (pp - 1 - steady) * floors.input_s,
    )
    return (limit_s - fill_s - floors.step_s) / count
