"""Interleaved plans: cuts into chunks, and what each keeps, looked at one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from rephaze.place.full.cuts import Cuts
from rephaze.place.full.layouts import EQUAL_BLOCKS, Layout, has_equal_blocks
from rephaze.place.full.price import price_full_plan
from rephaze.types.full import FullGraph, FullPlan, FullProblem, FullStage

MAX_TRIES = 20_000
"""Plans of one layout that are looked at; where there are more, none are."""


def is_too_much(graph: FullGraph, cuts: Cuts, num_chunks: int) -> bool:
    """Whether a layout with so many chunks has too many plans to look at."""
    num_points = max(len(layer.keep) for layer in graph.layers)
    return _num_cuts(cuts, num_chunks) * float(num_points) ** num_chunks > MAX_TRIES


def best_interleaved(
    problem: FullProblem, graph: FullGraph, cuts: Cuts, layout: Layout, cutoff_s: float
) -> FullPlan | None:
    """The fastest plan of the layout below the cutoff."""
    best, best_s, num_chunks = None, cutoff_s, layout.pp * layout.chunks
    for chunks in _chunked(cuts, num_chunks):
        if problem.options.family in EQUAL_BLOCKS and not has_equal_blocks(graph, chunks):
            continue
        points = [range(max(len(graph.layers[v].keep) for v in layers)) for layers in chunks]
        for keep in product(*points):
            stages = tuple(FullStage(layers=layers, keep=k) for layers, k in zip(chunks, keep, strict=True))
            price = price_full_plan(problem, graph, layout.plan(graph, stages))
            if price.fits and price.batch_s < best_s:
                best, best_s = price.plan, price.batch_s
    return best


def _num_cuts(cuts: Cuts, num_chunks: int) -> float:
    """Ways to cut into so many chunks."""
    ways_by_set: NDArray[np.float64] = np.zeros(cuts.num_sets)
    ways_by_set[0] = 1.0
    for _ in range(num_chunks):
        ways = np.bincount(cuts.end_e, weights=ways_by_set[cuts.start_e], minlength=cuts.num_sets)
        ways_by_set = ways.astype(np.float64)
    return float(ways_by_set[-1])


def _chunked(cuts: Cuts, num_chunks: int) -> Iterator[list[tuple[int, ...]]]:
    """Every cut into so many chunks, in order."""
    stages_from: dict[int, list[int]] = {}
    for e, start in enumerate(cuts.start_e.tolist()):
        stages_from.setdefault(start, []).append(e)
    last = cuts.num_sets - 1

    def onwards(at: int, left: int) -> Iterator[list[tuple[int, ...]]]:
        if at == last:
            if left == 0:
                yield []
            return
        if left == 0:
            return
        for e in stages_from.get(at, ()):
            members = tuple(cuts.layer_i[cuts.first_i_e[e] : cuts.first_i_e[e + 1]].tolist())
            for rest in onwards(int(cuts.end_e[e]), left - 1):
                yield [members, *rest]

    yield from onwards(0, num_chunks)
