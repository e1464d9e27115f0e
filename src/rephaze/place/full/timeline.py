"""What every device of a pipeline does when, event by event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from rephaze.place.full.pass_clock import Times, turn_of
from rephaze.place.full.pass_order import BACKWARD, NUM_KINDS
from rephaze.place.full.replay import run_plan
from rephaze.place.full.replay_work import chunk_works
from rephaze.types.full import FullGraph, FullPlan, FullPrice, FullProblem, PipelineSchedule


class PassKind(StrEnum):
    """What a device does."""

    MESSAGE = "message"
    """Waits for the inputs or gradients that are being sent to it."""
    FORWARD = "forward"
    BACKWARD = "backward"
    """Replay included; under zero-bubble without the weight part."""
    WEIGHT = "weight"
    """The weight part of a backward pass, put off."""
    SCATTER = "scatter"
    """Gradients left to sum after a backward pass."""
    SYNC = "sync"
    TIED = "tied"
    STEP = "step"
    REGATHER = "regather"


@dataclass(frozen=True, kw_only=True, slots=True)
class PassEvent:
    """One thing one device does."""

    device: int
    """Number in the pipeline."""
    kind: PassKind
    microbatch: int
    """Which one, from 0; -1 for what happens once a batch."""
    chunk: int
    """Which stage or chunk of the plan; -1 for what happens once a batch."""
    start_s: float
    end_s: float


def replay_events(problem: FullProblem, graph: FullGraph, price: FullPrice) -> tuple[PassEvent, ...]:
    """What every device of the pipeline with the most microbatches does when, by device and time.

    What happens once a batch is shown on all devices for as long as the slowest takes.
    """
    plan, count = price.plan, -(-problem.num_microbatches(graph) // price.plan.dp)
    run = run_plan(plan, chunk_works(problem, graph, plan), count)
    lasts_s = _lasts_s(run.times)
    events = [
        event
        for device in range(plan.pp)
        for code, start_s in zip(run.orders[device].tolist(), run.clock.start_s_di[device].tolist(), strict=True)
        for event in _pass_events(plan, lasts_s, device, code, start_s)
    ]
    now_s = run.pipe_s + run.left_s
    if plan.schedule is not PipelineSchedule.INTERLEAVED:
        # What the last microbatch leaves to sum is part of what happens once a batch.
        events = [event for event in events if event.kind != PassKind.SCATTER or event.microbatch < count - 1]
    for kind, part_s in (
        (PassKind.SYNC, price.time.sync_s),
        (PassKind.TIED, price.time.tied_s),
        (PassKind.STEP, price.time.step_s),
        (PassKind.REGATHER, price.time.regather_s),
    ):
        end_s = now_s + part_s
        events += [
            PassEvent(device=device, kind=kind, microbatch=-1, chunk=-1, start_s=now_s, end_s=end_s)
            for device in range(plan.pp)
            if part_s > 0
        ]
        now_s = end_s
    return tuple(sorted(events, key=lambda event: (event.device, event.start_s)))


def _lasts_s(times: Times) -> list[list[tuple[tuple[PassKind, float], ...]]]:
    """By chunk and kind of pass, what it consists of."""
    names = (PassKind.FORWARD, PassKind.BACKWARD, PassKind.WEIGHT)
    message_s, compute_s, tail_s = (
        times.message_s_ck.tolist(),
        times.compute_s_ck.tolist(),
        times.tail_s_c.tolist(),
    )
    return [
        [
            (
                (PassKind.MESSAGE, message_s[chunk][kind]),
                (name, compute_s[chunk][kind]),
                (PassKind.SCATTER, tail_s[chunk] if kind == BACKWARD else 0.0),
            )
            for kind, name in enumerate(names)
        ]
        for chunk in range(len(tail_s))
    ]


def _pass_events(
    plan: FullPlan,
    lasts_s: list[list[tuple[tuple[PassKind, float], ...]]],
    device: int,
    code: int,
    start_s: float,
) -> Iterator[PassEvent]:
    number, kind = divmod(code, NUM_KINDS)
    microbatch, chunk = turn_of(number, kind, device, plan.pp, plan.chunks)
    for what, part_s in lasts_s[chunk][kind]:
        if part_s > 0:
            yield PassEvent(
                device=device,
                kind=what,
                microbatch=microbatch,
                chunk=chunk,
                start_s=start_s,
                end_s=start_s + part_s,
            )
            start_s += part_s
