"""NEST's scenarios: figures as printed, networks and choices as its program has them."""

import pytest

from rephaze.study.nest_setups import nest_chip, nest_data, nest_figures, nest_limits, nest_scenario
from rephaze.types.placement import Optimizer
from rephaze.units import GIB

BY_CELL = {(one.setup, one.model, one.num_devices): one for one in nest_figures()}
TREE = "tpuv4-fat-tree"


def test_every_published_cell_is_there():
    sizes = [64, 128, 256, 512, 1024]
    models = ["bert-large", "llama2-7b", "llama3-70b", "mixtral-8x7b", "gpt3-175b"]
    assert {key[1:] for key in BY_CELL if key[0] == TREE} == {(model, size) for model in models for size in sizes}
    assert len(BY_CELL) == 28


@pytest.mark.parametrize(
    ("model", "num_devices", "nest", "phaze", "run_s"),
    [
        ("bert-large", 64, 1.35, 1.35, 54),
        ("llama2-7b", 1024, 16.63, 14.42, 96),
        ("llama3-70b", 512, 10.94, 10.93, 153),
        ("mixtral-8x7b", 256, 3.89, 2.60, 168),
        ("gpt3-175b", 1024, 10.15, 9.03, 13361),
    ],
)
def test_figures_are_those_its_artifact_prints(model, num_devices, nest, phaze, run_s):
    found = BY_CELL[TREE, model, num_devices]
    assert (found.nest_factor, found.phaze_factor, found.run_s) == (nest, phaze, run_s)


@pytest.mark.parametrize("figure", BY_CELL.values(), ids=str)
def test_scenarios_have_its_network_and_choices(figure):
    restricted, free = nest_scenario(figure, is_free=False), nest_scenario(figure, is_free=True)
    for scenario in (restricted, free):
        assert [level.num_devices for level in scenario.cluster.levels] == [8, 32, figure.num_devices]
        assert [level.latency_s for level in scenario.cluster.levels] == [1e-4, 2e-4, 3e-4]
        assert scenario.cluster.levels[0].bytes_per_s == 900 * GIB
        assert scenario.training.global_batch == 4096
        assert scenario.training.optimizer is Optimizer.SGD
    outer = {"tpuv4-fat-tree": 100, "h100-spine-leaf": 12.5}[figure.setup]
    assert restricted.cluster.levels[2].bytes_per_s == outer * GIB
    assert restricted.training.microbatches == (1,)
    assert len(free.training.microbatches) > 1


def test_its_degrees_fit_its_clusters():
    for figure in BY_CELL.values():
        limits = nest_limits(figure)
        if limits is not None:
            assert limits.tp * limits.pp * limits.dp <= figure.num_devices


def test_the_chip_is_its_template_with_the_setups_memory():
    chip = nest_chip("h100-spine-leaf")
    assert (chip.num_tensor_cores, chip.tensor_width, chip.num_vector_cores, chip.vector_lanes) == (8, 128, 2, 128)
    assert (chip.hbm_bytes, chip.clock_hz) == (90 * GIB, 1.05e9)
    assert nest_data()["source"]
