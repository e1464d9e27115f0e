"""Replay of a plan, pass by pass, as the devices of a pipeline would run it.

Written apart from the cost model: nothing here adds loads up. Every device has one compute unit and one link. It
runs its passes in the published order of the schedule (``pass_order``); a pass starts when the device is free and
the pass it waits for has ended, first receives its message, then computes its layers, gathering weights one layer
ahead on the link where the plan says so (``pass_replay``). A stage waits for the one before it, on the way back
for the one after it. After a backward pass the link sums the gradients left before the device goes on.

What happens once a batch comes afterwards, as the formula has it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rephaze.place.full.pass_clock import Clock, Ints, Times, run_passes, turn_of
from rephaze.place.full.pass_order import NUM_KINDS, pass_order
from rephaze.place.full.replay_work import ChunkWork, chunk_works
from rephaze.types.full import FullGraph, FullPlan, FullPrice, FullProblem, PipelineSchedule

MOST_PASSES = 3_000_000
"""Passes of all devices that are replayed; of a longer batch the middle is taken to go on as it does there."""
WORTH_TELLING = 0.02
"""A replay this much above its formula is told."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FullReplay:
    """A batch as replayed."""

    pipe_s: float
    """Until the last pass has been computed."""
    batch_s: float
    """With what happens once a batch, and the gradients that interleaved passes leave to sum."""
    is_extrapolated: bool = False
    """The batch is too long: its middle was not replayed to the end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanRun:
    """The passes of a pipeline, and when each runs."""

    orders: Ints
    times: Times
    clock: Clock
    pipe_s: float
    left_s: float
    """Gradients left to sum then, which the formula of interleaved plans counts to the pipeline."""


def replay_full_plan(problem: FullProblem, graph: FullGraph, price: FullPrice) -> FullReplay:
    """The plan of a price replayed; it must be legal."""
    plan, count = price.plan, -(-problem.num_microbatches(graph) // price.plan.dp)
    works = chunk_works(problem, graph, plan)
    most = MOST_PASSES // (NUM_KINDS * len(plan.stages))
    # Interleaved devices take turns pp microbatches at a time: whole turns are left out.
    most = max(2, most // plan.pp) * plan.pp
    is_long = count > most + plan.pp
    turns = -(-(count - most) // plan.pp) if is_long else 0
    near = count - turns * plan.pp
    run = run_plan(plan, works, near)
    pipe_s = run.pipe_s
    if is_long:
        pipe_s += turns * (run_plan(plan, works, near + plan.pp).pipe_s - pipe_s)
    once_s = price.batch_s - price.time.pipe_s
    return FullReplay(pipe_s=pipe_s, batch_s=pipe_s + run.left_s + once_s, is_extrapolated=is_long)


def replay_note(replay_s: float, batch_s: float) -> str:
    """A sentence where a replay is well above the formula; else nothing."""
    if replay_s <= (1 + WORTH_TELLING) * batch_s:
        return ""
    return (
        f"the replay is {replay_s / batch_s - 1:.1%} above the formula, {batch_s:.6g} s: "
        f"the stages are unequal, and wait for each other longer than it counts"
    )


def run_plan(plan: FullPlan, works: tuple[ChunkWork, ...], num_microbatches: int) -> PlanRun:
    """A pipeline with so many microbatches, run to the end."""
    orders, times = _orders(plan, num_microbatches), _times(plan, works)
    clock: Clock = run_passes(orders, times, plan.pp, plan.chunks)
    pipe_s, left_s = float(clock.end_s_di.max()), 0.0
    if plan.schedule is PipelineSchedule.INTERLEAVED:  # else the last tail is part of what happens once a batch
        for device in range(plan.pp):
            number, kind = divmod(int(orders[device, -1]), NUM_KINDS)
            _, chunk = turn_of(number, kind, device, plan.pp, plan.chunks)
            left_s = max(left_s, float(clock.end_s_di[device, -1] + times.tail_s_c[chunk]) - pipe_s)
    return PlanRun(orders=orders, times=times, clock=clock, pipe_s=pipe_s, left_s=left_s)


def _orders(plan: FullPlan, count: int) -> Ints:
    return np.stack(
        [
            pass_order(plan.schedule, device=device, pp=plan.pp, chunks=plan.chunks, num_microbatches=count)
            for device in range(plan.pp)
        ]
    )


def _times(plan: FullPlan, works: tuple[ChunkWork, ...]) -> Times:
    is_split = plan.schedule is PipelineSchedule.ZERO_BUBBLE
    ends = [work.ends(is_split=is_split) for work in works]
    return Times(
        message_s_ck=np.array([[work.message_s, work.returned_s, 0.0] for work in works]),
        compute_s_ck=np.array([[one.forward_s, one.backward_s, one.weight_s] for one in ends]),
        tail_s_c=np.array([one.tail_s for one in ends]),
    )
