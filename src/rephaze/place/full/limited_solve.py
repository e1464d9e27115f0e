"""The fastest plan under choices made beforehand, what all stages keep included."""

from __future__ import annotations

from dataclasses import replace

from rephaze.place.full.legality import graph_like
from rephaze.place.full.limits import is_within, limited_problem
from rephaze.place.full.price import price_full_plan
from rephaze.place.full.solver import FullPlacement, FullPlacer
from rephaze.types.full import FullGraph, FullLayer, FullLimits, FullPrice, FullProblem
from rephaze.types.placement import SolveStatus


def limited_solve(problem: FullProblem, limits: FullLimits) -> FullPlacement:
    """The best plan that makes these choices; they may lie outside the problem's options and family."""
    limited = limited_problem(problem, limits)
    found = FullPlacer(limited).solve() if limits.keep is None else _solve_at(limited, limits.keep)
    assert found.best is None or is_within(limits, found.best.plan), "the solver made other choices"
    return found


def _solve_at(problem: FullProblem, keep: int) -> FullPlacement:
    """The best plan whose stages all use one position of ``keep``.

    The solver chooses positions itself. So each layer is left with one point, and what a device needs to rebuild
    the rest is counted to the working set of its layers: first layer by layer, which is never too much, and if the
    best plan then lacks memory, with the largest of all layers, which is never too little.
    """
    least = FullPlacer(_with_one_point(problem, keep, is_safe=False)).solve()
    if least.best is None:
        return least
    price = _repriced(problem, least.best, keep)
    if price.fits:
        return replace(least, best=price)
    safe = FullPlacer(_with_one_point(problem, keep, is_safe=True)).solve()
    reason = f"what plans at position {keep} of keep need to rebuild was bounded"
    if safe.best is None:
        return FullPlacement(status=SolveStatus.CUTOFF, bound_s=least.bound_s, best=None, reason=reason)
    price = _repriced(problem, safe.best, keep)
    assert price.fits, "memory was counted too low"
    return FullPlacement(
        status=SolveStatus.FEASIBLE, bound_s=min(least.bound_s, price.batch_s), best=price, reason=reason
    )


def _with_one_point(problem: FullProblem, keep: int, *, is_safe: bool) -> FullProblem:
    def lost_bytes(layer: FullLayer) -> float:
        return layer.keep[0].kept_bytes - layer.keep[min(keep, len(layer.keep) - 1)].kept_bytes

    def changed(graph: FullGraph) -> FullGraph:
        most = max(map(lost_bytes, graph.layers))
        layers = [
            replace(
                layer,
                keep=(layer.keep[min(keep, len(layer.keep) - 1)],),
                working_bytes=layer.working_bytes + (most if is_safe else lost_bytes(layer)),
            )
            for layer in graph.layers
        ]
        return replace(graph, layers=tuple(layers))

    return replace(problem, graphs=tuple(map(changed, problem.graphs)))


def _repriced(problem: FullProblem, price: FullPrice, keep: int) -> FullPrice:
    """The plan found, with its position, by the problem's own numbers."""
    stages = tuple(replace(stage, keep=keep) for stage in price.plan.stages)
    return price_full_plan(problem, graph_like(problem, price.plan), replace(price.plan, stages=stages))
