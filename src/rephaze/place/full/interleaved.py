"""Interleaved plans: cuts into chunks, and what each keeps, looked at one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from rephaze.place.full.cuts import Cuts
from rephaze.place.full.layouts import EQUAL_BLOCKS, Layout, has_equal_blocks
from rephaze.place.full.price import price_full_plan
from rephaze.types.full import FullGraph, FullPlan, FullProblem, FullStage

MAX_TRIES = 20_000
"""Plans of one layout that are looked at; where there are more, the answer says so."""


def best_interleaved(
    problem: FullProblem, graph: FullGraph, cuts: Cuts, layout: Layout, cutoff_s: float
) -> tuple[FullPlan | None, bool]:
    """The fastest plan of the layout below the cutoff, and whether every plan was looked at."""
    best, best_s = None, cutoff_s
    num_tries = 0
    for chunks in _chunked(cuts, layout.pp * layout.chunks):
        if problem.options.family in EQUAL_BLOCKS and not has_equal_blocks(graph, chunks):
            continue
        points = [range(max(len(graph.layers[v].keep) for v in layers)) for layers in chunks]
        for keep in product(*points):
            num_tries += 1
            if num_tries > MAX_TRIES:
                return best, False
            stages = tuple(FullStage(layers=layers, keep=k) for layers, k in zip(chunks, keep, strict=True))
            price = price_full_plan(problem, graph, layout.plan(graph, stages))
            if price.fits and price.batch_s < best_s:
                best, best_s = price.plan, price.batch_s
    return best, True


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
