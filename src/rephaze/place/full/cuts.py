"""Where a model can be cut: the sets of layers that the first stages can hold, and every stage between two.

A set is closed under predecessors. Where each layer feeds the next the sets are the prefixes; otherwise they are
enumerated.

Axis letters: e = candidate stage, i = member of a stage.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.errors import UnsupportedError
from rephaze.types.full import FullGraph

Ints = NDArray[np.int64]

MAX_SETS = 2_000
"""A graph with more cuts than this is refused."""
MAX_STAGES = 500_000


class Cuts(NamedTuple):
    """Candidate stages, by rising size of the set they start from."""

    num_sets: int
    start_e: Ints
    """The set of layers before the stage; set 0 is empty, the last one everything."""
    end_e: Ints
    first_i_e: Ints
    """Where a stage's members begin; one more entry at the end."""
    layer_i: Ints
    """Members in the file's order."""
    by_end: Ints
    """Stages sorted by the set they end at."""


def cuts_of(graph: FullGraph) -> Cuts:
    """All candidate stages of a graph.

    Raises:
        UnsupportedError: It branches so much that there are too many.
    """
    return _cuts_between(len(graph.layers), frozenset((link.src, link.dst) for link in graph.links))


@lru_cache(maxsize=8)
def _cuts_between(num_layers: int, pairs: frozenset[tuple[int, int]]) -> Cuts:
    """The same for all graphs of one model, however their layers are cut."""
    before = [0] * num_layers
    for src, dst in pairs:
        before[dst] |= 1 << src
    sets = _closed_sets(before)
    starts, ends, members = [], [], []
    for a, smaller in enumerate(sets):
        for b, larger in enumerate(sets):
            if smaller != larger and smaller & larger == smaller:
                starts.append(a)
                ends.append(b)
                inside = larger & ~smaller
                members.append([v for v in range(num_layers) if inside >> v & 1])
                if len(starts) > MAX_STAGES:
                    raise UnsupportedError(f"the layers can form over {MAX_STAGES:,} stages; merge some of them")
    end_e = np.array(ends, dtype=np.int64)
    return Cuts(
        num_sets=len(sets),
        start_e=np.array(starts, dtype=np.int64),
        end_e=end_e,
        first_i_e=np.cumsum([0] + [len(layers) for layers in members]),
        layer_i=np.array([v for layers in members for v in layers], dtype=np.int64),
        by_end=np.argsort(end_e, kind="stable"),
    )


def _closed_sets(before: list[int]) -> list[int]:
    """All sets closed under predecessors, as bits, smaller ones first."""
    found, level = [0], {0}
    while level:
        larger = {
            known | 1 << v
            for known in level
            for v, needed in enumerate(before)
            if not known >> v & 1 and needed & known == needed
        }
        found += sorted(larger)
        level = larger
        if len(found) > MAX_SETS:
            raise UnsupportedError(f"the layers branch into over {MAX_SETS:,} ways to cut; merge some of them")
    return found
