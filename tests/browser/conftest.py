"""A browser, and the page of a recorded run in it: two models, one with a name that is a script."""

import shutil
from pathlib import Path

import pytest

import rephaze
from tests.browser.webdriver import NOT_HERE, browsing, find_browser

MODEL = Path(__file__).parents[1] / "data" / "tiny-gpt-fused.json.gz"
HOSTILE = "<script>alert(1)</script>.json.gz"
CHANGES = {
    "space": {
        "num_tensor_cores": [1, 2, 4],
        "tensor_width": [32, 64],
        "tensor_depth": [32],
        "num_vector_cores": [1],
        "vector_lanes": [128, 256],
        "global_buffer_mib": [2, 4],
        "num_hbm_stacks": [1],
        "area_limit_um2": 5.45e7,
    },
    "cluster": {"num_devices": 4, "levels": [{"num_devices": 4, "bytes_per_s": 1e10}]},
    "training": {"global_batch": 8, "microbatches": [1], "tp_degrees": [1]},
    "search": {"method": "boxes"},
}


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """The folder of a finished run with everything a page shows, and the page."""
    folder = tmp_path_factory.mktemp("browser")
    hostile = folder / HOSTILE
    hostile.parent.mkdir()
    shutil.copyfile(MODEL, hostile)
    run = folder / "run"
    models = (str(MODEL), str(hostile))
    rephaze.explore(*models, scenario="coarse", changes=CHANGES, store=run)
    rephaze.sensitivity(run=run, knobs=["hbm"])
    rephaze.compare(runs=[run], budget=1)
    page = rephaze.open_run(run).report(known_chips_s=0.5)
    return run, page


@pytest.fixture(scope="session")
def opened(tmp_path_factory):
    if find_browser() is None:
        pytest.skip(NOT_HERE)
    with browsing(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def page(opened, recorded):
    """The page, loaded anew in a wide window of a light scheme."""
    opened.resize(1280, 900)
    opened.prefer("light")
    opened.console()
    opened.open(recorded[1])
    return opened
