"""Plans of cost model ``full``: how long large problems take once compiled. Run with ``make bench``.

Problems are prepared as records beforehand. Only one core is used.
"""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

from rephaze.place.full.chip_bounds import FullChipBounds
from rephaze.place.full.solver import FullPlacer
from rephaze.place.full.times import recorded_times
from rephaze.types.placement import SolveStatus

_spec = importlib.util.spec_from_file_location("full_problems", Path(__file__).with_name("full_problems.py"))
full_problems = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(full_problems)

PROBLEMS = {
    "gpt3, 16384 devices, 196 graphs": full_problems.gpt3_problem,
    "gpt3, 1024 devices, 196 graphs": lambda: full_problems.gpt3_problem(1024),
    "gpt3, 1024 devices, 14 graphs": lambda: full_problems.gpt3_problem(1024, microbatches=(1,), cps=(1, 2)),
    "deepseek, 2048 devices, 1092 graphs": full_problems.deepseek_problem,
    "deepseek, 16384 devices, 1092 graphs": lambda: full_problems.deepseek_problem(16384),
}


@pytest.fixture(scope="module", params=PROBLEMS, ids=str)
def problem(request):
    return PROBLEMS[request.param]()


def test_prepare(benchmark, problem):
    FullPlacer(problem)
    benchmark(FullPlacer, problem)


def test_solve(benchmark, problem):
    placer = FullPlacer(problem)
    placer.solve()
    found = benchmark(placer.solve)
    assert found.status is SolveStatus.OPTIMAL
    assert found.best.fits


def test_first_solve(benchmark, problem):
    """The first call also reads the records' times."""
    FullPlacer(problem).solve()
    benchmark.pedantic(lambda placer: placer.solve(), setup=lambda: ((FullPlacer(problem),), {}), rounds=5)


CUTS = [full_problems.Degrees(1, False, 1, 1), full_problems.Degrees(8, True, 1, 1)]
CHIPS = 1000


def chips(graph):
    """Times of the three types of layers on many chips."""
    rng = np.random.default_rng(0)
    factor = 10 ** rng.uniform(-0.5, 0.5, (CHIPS, 1)) * rng.uniform(0.8, 1.2, (CHIPS, 3))
    times = recorded_times(graph)
    ends = [0, 1, len(graph.layers) - 1]
    return factor, times.forward_s_v[ends] * factor, times.backward_s_v[ends] * factor


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: f"tp {cut.tp}")
@pytest.mark.parametrize("num_devices", [1024, 16384])
class TestOneGraph:
    def problem(self, cut, num_devices):
        graph = full_problems.gpt3_graph(cut)
        return full_problems.problem_of([graph], num_devices, 4096), graph

    def layer_types(self, graph):
        return [0, *[1] * (len(graph.layers) - 2), 2]

    def test_bounds_of_a_thousand_chips(self, benchmark, cut, num_devices):
        problem, graph = self.problem(cut, num_devices)
        bounds = FullChipBounds(problem, self.layer_types(graph))
        _, forward, backward = chips(graph)
        bounds.batch_s(forward[:1], backward[:1])
        bound_s = benchmark(bounds.batch_s, forward, backward)
        assert np.isfinite(bound_s).all()

    def test_bound_of_one_chip_from_scratch(self, benchmark, cut, num_devices):
        """What every process of a search does for each cut and microbatch size."""
        problem, graph = self.problem(cut, num_devices)
        _, forward, backward = chips(graph)

        def bound_s():
            return FullChipBounds(problem, self.layer_types(graph)).batch_s(forward[:1], backward[:1])

        assert np.isfinite(bound_s()).all()
        benchmark(bound_s)

    @pytest.mark.parametrize("below", ["none", "its bound"])
    def test_one_chip(self, benchmark, cut, num_devices, below):
        """Without a cutoff, and with one just above its bound: what a search asks of most chips."""
        problem, graph = self.problem(cut, num_devices)
        placer = FullPlacer(problem)
        factor, forward, backward = chips(graph)
        factor_v = np.repeat(factor[0], [1, len(graph.layers) - 2, 1])
        recorded = recorded_times(graph)
        times = recorded._replace(
            forward_s_v=recorded.forward_s_v * factor_v,
            backward_s_v=recorded.backward_s_v * factor_v,
            weight_backward_s_v=recorded.weight_backward_s_v * factor_v,
            replay_s_vk=recorded.replay_s_vk * factor_v[:, None],
        )
        best = placer.solve(times=[times]).best
        bounds = FullChipBounds(problem, self.layer_types(graph))
        bound_s = bounds.batch_s(forward[:1], backward[:1], 0.45 * backward[:1])[0]
        assert bound_s <= best.batch_s
        cutoff_s = math.inf if below == "none" else bound_s * 1.001
        benchmark(placer.solve, cutoff_s, [times])
