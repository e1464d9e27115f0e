"""Design spaces: the paper's in under half a second."""

from rephaze.hardware.scenarios import load_scenario
from rephaze.hardware.space import enumerate_designs


def test_enumerate_the_papers_space(benchmark):
    census = benchmark(lambda: enumerate_designs(load_scenario("paper").space))
    assert census.num_designs == 29_360


def test_enumerate_the_default_space(benchmark):
    assert benchmark(lambda: enumerate_designs(load_scenario("coarse").space)).num_designs > 29_360
