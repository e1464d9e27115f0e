"""What a device keeps of the microbatches on their way, under each schedule (docs/plans.md, section 4)."""

from __future__ import annotations

from collections.abc import Sequence

from rephaze.types.full import FullPlan, PipelineSchedule


def kept_bytes(plan: FullPlan, num_microbatches: int, device: int, chunk_bytes: Sequence[float]) -> float:
    """The most a device keeps at any moment.

    Args:
        plan: Schedule and depth.
        num_microbatches: A replica works through in a batch.
        device: Number in the pipeline.
        chunk_bytes: What each of its chunks keeps of a microbatch.
    """
    pp = plan.pp
    if plan.schedule is PipelineSchedule.ONE_F_ONE_B:
        return min(pp - device, num_microbatches) * chunk_bytes[0]
    if plan.schedule is PipelineSchedule.ZERO_BUBBLE:
        # Weight parts come late: every stage keeps as many as the first of 1F1B.
        return min(pp, num_microbatches) * chunk_bytes[0]
    return _interleaved_bytes(pp, plan.chunks, num_microbatches, device, chunk_bytes)


def _interleaved_bytes(
    pp: int, num_chunks: int, num_microbatches: int, device: int, chunk_bytes: Sequence[float]
) -> float:
    total = num_microbatches * num_chunks
    ahead = min(total, 2 * (pp - device - 1) + (num_chunks - 1) * pp)
    held, most = 0.0, 0.0
    # From then on each forward pass is followed by a backward pass, and all repeats after a round of all chunks.
    for forward in range(min(total, ahead + 2 * pp * num_chunks)):
        held += chunk_bytes[(forward // pp) % num_chunks]
        most = max(most, held)
        if forward >= ahead:
            held -= chunk_bytes[num_chunks - 1 - ((forward - ahead) // pp) % num_chunks]
    return most
