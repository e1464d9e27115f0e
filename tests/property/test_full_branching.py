"""Cost model ``full``, graphs whose layers branch: encoders beside decoders, against every plan there is."""

import importlib.util
import itertools
import math
from dataclasses import replace
from pathlib import Path

import pytest

from rephaze.place.full.branch_layouts import branch_layouts
from rephaze.place.full.branching import BranchingSolver
from rephaze.place.full.line_solver import layout_at
from rephaze.place.full.lines import is_line, times_of
from rephaze.place.full.solver import FullPlacer
from rephaze.place.full.times import recorded_times
from rephaze.types.full import PipelineSchedule
from rephaze.types.placement import LayerLink, SolveStatus
from rephaze.types.stopping import StoppedError, StopSignal

_spec = importlib.util.spec_from_file_location("full_cases", Path(__file__).with_name("full_cases.py"))
full_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(full_cases)

SAME = 1e-9
MOST_PLANS = 4_000


def with_two_towers(problem, seed):
    """The layers of each graph as an encoder, and a decoder that reads all of it at every layer but the first."""

    def changed(graph):
        num_layers = len(graph.layers)
        middle = 1 + seed % (num_layers - 2)
        pairs = [(v, v + 1) for v in range(num_layers - 1) if v + 1 != middle]
        pairs += [(middle - 1, v) for v in range(middle + 1, num_layers)]
        sizes = [link.payload_bytes for link in graph.links]
        links = [
            LayerLink(src=src, dst=dst, payload_bytes=sizes[at % len(sizes)])
            for at, (src, dst) in enumerate(sorted(pairs))
        ]
        return replace(graph, links=tuple(links))

    return replace(problem, graphs=tuple(map(changed, problem.graphs)))


def tried_towers(first, count):
    """So many problems that can be looked at whole; in half of them memory is short."""

    def made():
        for seed in itertools.count(first):
            problem = full_cases.worth_trying(seed, least=4, most=1_000)
            if problem is None or len(problem.graphs[0].layers) < 3:
                continue
            problem = with_two_towers(problem, seed)
            if sum(1 for _ in itertools.islice(full_cases.all_plans(problem), MOST_PLANS + 1)) <= MOST_PLANS:
                yield problem

    return itertools.islice(made(), count)


@pytest.mark.parametrize("part", range(4))
def test_no_plan_of_two_towers_beats_the_solver(part):
    num_out_of_order = 0
    for problem in tried_towers(20_000_000 + 100_000 * part, 60):
        best = full_cases.best_by_brute_force(problem)
        found = FullPlacer(problem).solve()
        if best is None:
            assert found.status is SolveStatus.INFEASIBLE, problem
            continue
        assert found.status is SolveStatus.OPTIMAL, problem
        assert found.best.fits
        assert found.best.batch_s == pytest.approx(best.batch_s, rel=SAME), problem
        layers = [v for stage in found.best.plan.stages for v in stage.layers]
        num_out_of_order += layers != sorted(layers)
    assert num_out_of_order > 0, "plans along the file's order were always the best"


def test_no_plan_of_two_towers_is_faster_than_the_bound_of_its_layout():
    """Whether or not it fits: with memory enough all layouts are listed."""
    num_compared = 0
    for problem in tried_towers(21_000_000, 60):
        graph = problem.graphs[0]
        problem = replace(problem, graphs=(graph,), device_memory_bytes=1e30)
        solver, times = BranchingSolver(problem, graph).lines, times_of([recorded_times(graph)])
        listed = branch_layouts(solver, times, solver.choices, math.inf)
        bounds = {layout_at(row): bound_s for row, bound_s in zip(listed.row_yq, listed.bound_s_y, strict=True)}
        assert len(bounds) == len(listed.bound_s_y)
        for price in full_cases.all_prices(problem):
            plan = price.plan
            bound_s = next((b for key, b in bounds.items() if key.plan(graph, plan.stages) == plan), None)
            if bound_s is not None:
                num_compared += 1
                assert bound_s <= price.batch_s, plan
    assert num_compared > 3_000


def test_a_cutoff_leaves_the_best_plan_of_two_towers_or_none():
    num_cut = 0
    for problem in tried_towers(22_000_000, 40):
        placer, times = FullPlacer(problem), [recorded_times(graph) for graph in problem.graphs]
        best = placer.solve().best
        if best is None:
            assert placer.bound_s(math.inf, times) == math.inf
            assert not placer.is_there(1.0, times)
            continue
        num_cut += 1
        below_s, above_s = best.batch_s * (1 - 1e-6), best.batch_s * (1 + 1e-6)
        assert placer.solve(below_s).status is SolveStatus.CUTOFF
        assert placer.solve(above_s).best.batch_s == pytest.approx(best.batch_s, rel=SAME)
        assert not placer.is_there(below_s, times)
        assert placer.is_there(above_s, times)
    assert num_cut > 10


def long_towers(num_layers):
    """Too many cuts for brute force."""
    problem = next(tried_towers(23_000_000, 1))
    graph = replace(problem.graphs[0], tied=(), ep=1, etp=1)
    layer = replace(graph.layers[0], is_block=True)
    layers = tuple(replace(layer, name=f"layer{at}") for at in range(num_layers))
    links = tuple(LayerLink(src=v, dst=v + 1, payload_bytes=1e6) for v in range(num_layers - 1))
    options = replace(problem.options, schedule=(PipelineSchedule.ONE_F_ONE_B, PipelineSchedule.ZERO_BUBBLE))
    problem = replace(problem, options=options, device_memory_bytes=1e12, global_batch=8)
    graph = replace(graph, layers=layers, links=links)
    return with_two_towers(replace(problem, graphs=(graph,)), num_layers // 2)


def test_a_solve_that_must_stop_has_no_answer():
    problem = long_towers(20)
    assert not is_line(problem.graphs[0])
    placer, times = FullPlacer(problem), [recorded_times(problem.graphs[0])]
    asked = StopSignal(is_asked=lambda: True)
    for ask in (
        lambda: placer.solve(stop=asked),
        lambda: placer.bound_s(math.inf, times, asked),
        lambda: BranchingSolver(problem, problem.graphs[0]).solve(math.inf, stop=asked),
    ):
        with pytest.raises(StoppedError):
            ask()
    assert placer.solve().status is SolveStatus.OPTIMAL
