"""Replay of a plan, microbatch by microbatch: 1F1B as the devices would run it.

Written apart from the cost model: nothing here adds loads up. A stage does its warm-up forwards, then one
backward and one forward in turn, then the remaining backwards; an operation starts when its device is free
and what it waits for has ended. Afterwards each stage sums its gradients and takes its optimizer step.

How close the formula is: with P = the end of the last backward pass, l_k the stages' loads and m the
microbatches,

    max_k (m l_k + sum_{j<k} l_j)  <=  P, formula  <=  (m + S - 1) max_k l_k

so both agree for equal stages, and never differ by more than ``formula_gap_s``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rephaze.place.network import pipeline_level
from rephaze.place.price import graph_of, price_plan, stage_passes
from rephaze.types.placement import PlacementModel, PlacementProblem, Plan, PricedPlan

MAX_REPLAYED_PASSES = 400_000
"""Passes of all stages that are replayed for a report: about a second."""


class Activity(StrEnum):
    """What a stage's device does."""

    FORWARD = "forward"
    """Waiting for the inputs' transfer included."""
    BACKWARD = "backward"
    """Replay and waiting for the gradients' transfer included."""
    SYNC = "sync"
    TIED = "tied"
    STEP = "step"


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One operation of one stage."""

    stage: int
    activity: Activity
    microbatch: int
    """Which one, from 0; -1 for what happens once a batch."""
    start_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """What one pipeline does in a batch."""

    events: tuple[Event, ...]
    batch_s: float
    pipeline_s: float
    """End of the last backward pass."""


def replay_plan(problem: PlacementProblem, plan: Plan) -> Timeline:
    """The timeline of the pipeline with the most microbatches."""
    priced = price_plan(problem, plan)
    graph = graph_of(problem, plan)
    pipeline = sum(stage.num_devices for stage in priced.stages)
    crossed = problem.cluster.levels[: pipeline_level(problem.cluster, pipeline, plan.dp) + 1]
    rate = min(level.bytes_per_s for level in crossed)
    latency = max(level.latency_s for level in crossed)
    forward_s, backward_s = [], []
    for stage, cost in zip(plan.stages, priced.stages, strict=True):
        passes = stage_passes(graph, stage, cost.num_in_flight, rate, latency)
        forward_s.append(passes[0])
        backward_s.append(passes[1])
    events = run_1f1b(forward_s, backward_s, priced.num_microbatches)
    pipeline_s = max(event.end_s for event in events)
    free = [max(event.end_s for event in events if event.stage == k) for k in range(plan.pp)]
    once = []
    for k, cost in enumerate(priced.stages):
        once.append(_once(k, Activity.SYNC, free[k], cost.sync_s))
    # Owners of tied weights take part one exchange at a time, once every stage is in step.
    in_step = max(event.end_s for event in once)
    for k, cost in enumerate(priced.stages):
        if cost.tied_s:
            once.append(_once(k, Activity.TIED, in_step, cost.tied_s))
            in_step += cost.tied_s
    has_ties = any(cost.tied_s for cost in priced.stages)
    for k, cost in enumerate(priced.stages):
        start = in_step if has_ties else once[k].end_s
        once.append(_once(k, Activity.STEP, start, cost.step_s))
    return Timeline(
        events=tuple(events) + tuple(event for event in once if event.end_s > event.start_s),
        batch_s=max(event.end_s for event in (*events, *once)),
        pipeline_s=pipeline_s,
    )


def run_1f1b(forward_s: list[float], backward_s: list[float], num_microbatches: int) -> list[Event]:
    """Events of one pipeline whose stages take these times for a pass of one microbatch."""
    num_stages = len(forward_s)
    orders = [_order(num_stages - k, num_microbatches) for k in range(num_stages)]
    free = [0.0] * num_stages
    at = [0] * num_stages
    ended: dict[tuple[int, Activity, int], float] = {}
    events: list[Event] = []
    moved = True
    while moved:
        moved = False
        for k in range(num_stages):
            while at[k] < len(orders[k]):
                activity, microbatch = orders[k][at[k]]
                is_forward = activity is Activity.FORWARD
                lasts = forward_s[k] if is_forward else backward_s[k]
                source = k - 1 if is_forward else k + 1
                arrives = 0.0
                if 0 <= source < num_stages:
                    if (source, activity, microbatch) not in ended:
                        break
                    arrives = ended[source, activity, microbatch]
                start = max(free[k], arrives)
                free[k] = ended[k, activity, microbatch] = start + lasts
                events.append(
                    Event(stage=k, activity=activity, microbatch=microbatch, start_s=start, end_s=start + lasts)
                )
                at[k] += 1
                moved = True
    assert all(done == len(order) for done, order in zip(at, orders, strict=True)), "1F1B came to a halt"
    return events


def replayed_batch_s(problem: PlacementProblem, plan: Plan) -> float | None:
    """The replayed time of a batch; None for the paper's model (no schedule) and for very long batches."""
    count = -(-problem.microbatches_of(graph_of(problem, plan)) // plan.dp)
    if problem.cost_model is PlacementModel.PAPER or 2 * count * plan.pp > MAX_REPLAYED_PASSES:
        return None
    return replay_plan(problem, plan).batch_s


def formula_gap_s(priced: PricedPlan) -> float:
    """Greatest possible difference between the replayed and the formula's batch time of a 1f1b plan."""
    loads = [stage.load_s for stage in priced.stages]
    count = priced.num_microbatches
    least = max(count * load + sum(loads[:k]) for k, load in enumerate(loads))
    most = (count + len(loads) - 1) * max(loads)
    once = [stage.sync_s + stage.step_s for stage in priced.stages]
    tied = sum(stage.tied_s for stage in priced.stages)
    return most - least + max(once) - once[0] + tied


def _order(depth: int, num_microbatches: int) -> list[tuple[Activity, int]]:
    """What the stage ``depth`` from the end does, in order."""
    warm_up = min(depth - 1, num_microbatches)
    order = [(Activity.FORWARD, i) for i in range(warm_up)]
    for i in range(num_microbatches - warm_up):
        order += [(Activity.FORWARD, warm_up + i), (Activity.BACKWARD, i)]
    order += [(Activity.BACKWARD, i) for i in range(num_microbatches - warm_up, num_microbatches)]
    return order


def _once(stage: int, activity: Activity, start_s: float, lasts_s: float) -> Event:
    return Event(stage=stage, activity=activity, microbatch=-1, start_s=start_s, end_s=start_s + lasts_s)
