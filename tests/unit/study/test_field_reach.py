"""How near designs come with each value of a field, read from a run by boxes and measured around its answer."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rephaze.hardware.grid import DesignGrid
from rephaze.hardware.space import within_limits
from rephaze.search.cosearch import run_search
from rephaze.search.evaluator import Preparation
from rephaze.search.settings import resolve_settings
from rephaze.store.run_store import RunStore
from rephaze.study.field_reach import field_reaches
from rephaze.study.yardstick import Yardstick
from rephaze.types.boxes import FieldReaches
from rephaze.types.search import SearchMethod
from rephaze.units import MIB

MODEL = str(Path(__file__).parents[2] / "data" / "tiny-gpt-fused.json.gz")
SPACE = {
    "num_tensor_cores": [1, 2, 4],
    "tensor_width": [32, 40, 64],  # 40 comes last on the grid
    "tensor_depth": [32],
    "num_vector_cores": [1],
    "vector_lanes": [128, 256],
    "global_buffer_mib": [2, 4],
    "num_hbm_stacks": [1],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    changes = {
        "space": SPACE | {"area_limit_um2": 5.45e7},
        "cluster": {"num_devices": 4, "levels": [{"num_devices": 4, "bytes_per_s": 1e10}]},
        "training": {"global_batch": 8, "microbatches": [1], "tp_degrees": [1]},
        "search": {"method": "boxes"},
    }
    settings = resolve_settings((MODEL,), scenario="coarse", changes=changes)
    folder = tmp_path_factory.mktemp("reach") / "run"
    result = run_search(settings, folder=folder)
    assert result.status == "optimal"
    return folder, settings, result


def test_each_field_that_varies_is_there_with_its_values_in_order(run):
    folder, _, result = run
    with RunStore.read(folder) as reader:
        found = {one.field: one for one in field_reaches(reader).fields}
    assert list(found) == ["num_tensor_cores", "tensor_width", "vector_lanes", "global_buffer_bytes"]
    assert found["tensor_width"].values == (32, 40, 64)
    assert found["global_buffer_bytes"].values == (2 * MIB, 4 * MIB)
    for name, one in found.items():
        assert one.values[one.position] == getattr(result.chip, name)
        assert one.solved[one.position] == one.bound[one.position] == one.changed[one.position] == result.objective
        assert all(bound <= result.bound for bound in one.bound)


def test_the_winner_is_measured_with_one_field_changed(run):
    folder, settings, result = run
    with RunStore.read(folder) as reader:
        found = {one.field: one for one in field_reaches(reader, budget_s=60.0).fields}
    grid, yardstick = DesignGrid(settings.scenario.space), Yardstick(Preparation(settings))
    answer = grid.position_of(result.design)
    cores = found["num_tensor_cores"]
    for at in range(3):
        chip = grid.chip(grid.design_at((at, *answer[1:])))
        assert cores.changed[at] == pytest.approx(yardstick.with_searched_plans(chip).objective, rel=1e-12)
        assert cores.fits[at] == within_limits(grid.space, grid.chips(np.array([(at, *answer[1:])])))[0]
    assert all(changed is not None for one in found.values() for changed in one.changed)


def test_a_run_through_a_list_has_none(run, tmp_path):
    _, settings, _ = run
    run_search(replace(settings, method=SearchMethod.LIST), folder=tmp_path / "list")
    with RunStore.read(tmp_path / "list") as reader:
        assert field_reaches(reader) == FieldReaches(fields=(), changed=())
