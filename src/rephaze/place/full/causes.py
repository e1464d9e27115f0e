"""Where the time of a batch goes: the pipeline by what its busiest device does, the rest as priced."""

from __future__ import annotations

from rephaze.place.full.replay_work import ChunkWork, chunk_works
from rephaze.types.full import FullGraph, FullPrice, FullProblem, PipelineSchedule, TimeCauses


def causes_of(problem: FullProblem, graph: FullGraph, price: FullPrice) -> TimeCauses:
    """The price of a plan by causes.

    The busiest device is the one with the longest passes of a microbatch, gradients left to sum included. What the
    pipeline takes beyond all its passes is bubble.
    """
    plan, count = price.plan, -(-problem.num_microbatches(graph) // price.plan.dp)
    works = chunk_works(problem, graph, plan)
    devices = [_Device(works[device :: plan.pp]) for device in range(plan.pp)]
    busiest = max(devices, key=lambda device: device.load_s + device.tail_s)
    # Interleaved plans count every tail to the pipeline, the others all but the last.
    num_tails = count if plan.schedule is PipelineSchedule.INTERLEAVED else count - 1
    passes_s = count * busiest.load_s + num_tails * busiest.tail_s
    known_s = count * (busiest.compute_s + busiest.replay_s + busiest.messages_s)
    time = price.time
    return TimeCauses(
        compute_s=count * busiest.compute_s,
        replay_s=count * busiest.replay_s,
        messages_s=count * busiest.messages_s,
        gathers_s=max(0.0, passes_s - known_s) if plan.is_gathering else 0.0,
        bubble_s=max(0.0, time.pipe_s - (passes_s if plan.is_gathering else known_s)),
        sync_s=time.sync_s,
        tied_s=time.tied_s,
        step_s=time.step_s,
        regather_s=time.regather_s,
    )


class _Device:
    """What a device does for a microbatch."""

    def __init__(self, works: tuple[ChunkWork, ...]) -> None:
        layers = [layer for work in works for layer in work.layers]
        ends = [work.ends(is_split=False) for work in works]
        self.compute_s = sum(layer.forward_s + layer.backward_s - layer.replay_s for layer in layers)
        self.replay_s = sum(layer.replay_s for layer in layers)
        self.messages_s = sum(work.message_s + work.returned_s for work in works)
        self.load_s = self.messages_s + sum(end.forward_s + end.backward_s for end in ends)
        self.tail_s = sum(end.tail_s for end in ends)
