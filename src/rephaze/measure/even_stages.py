"""Layers dealt evenly to the stages of a pipeline, as people do by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def split_evenly(layer_type_of: Sequence[int], num_stages: int) -> tuple[tuple[int, ...], ...] | None:
    """Layers of each stage: blocks dealt as evenly as possible; None if there are fewer blocks than stages.

    A block is a layer whose type repeats. What comes before the first block (the embedding) joins the first
    stage, what comes after the last (the head) joins the last. Where blocks do not divide, the earlier stages
    take one more: the last has the head, which is heavier than the embedding.
    """
    counts = Counter(layer_type_of)
    blocks = [v for v, kind in enumerate(layer_type_of) if counts[kind] > 1] or list(range(len(layer_type_of)))
    if not 1 <= num_stages <= len(blocks):
        return None
    size, num_larger = divmod(len(blocks), num_stages)
    # A stage begins at its first block, but the first stage at the first layer.
    begins = [0] + [blocks[i * size + min(i, num_larger)] for i in range(1, num_stages)]
    ends = [*begins[1:], len(layer_type_of)]
    return tuple(tuple(range(first, last)) for first, last in zip(begins, ends, strict=True))
