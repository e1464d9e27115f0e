"""Runs recorded while settings held plain strings: they open, go on, and their settings equal today's.

``tests/data/settings-*.json`` are the settings of two runs as version 0.1.0 wrote them into its database.
"""

import dataclasses
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from rephaze.errors import RunError
from rephaze.search.settings import resolve_settings
from rephaze.store.record_json import canonical_text, from_json, to_json
from rephaze.store.run_store import RunStore
from rephaze.types.graph import AttentionKind
from rephaze.types.placement import PrecisionName, Recompute
from rephaze.types.search import SearchSettings
from tests.kits.old_runs import as_format, edited

DATA = Path(__file__).parents[2] / "data"
CHANGES = {
    "space": {"constraints": ["num_macs <= 131072", "2 * num_lanes > tensor_width"]},
    "search": {"objective": "per-watt", "aggregate": "worst"},
}


@pytest.fixture(params=["default", "paper"])
def scenario(request):
    return request.param


@pytest.fixture
def recorded(scenario):
    return (DATA / f"settings-{scenario}.json").read_text().strip()


@pytest.fixture
def resolved(scenario, tmp_path):
    """What was ``default`` then is ``coarse`` now, but for its name and title."""
    if scenario == "default":
        text = files("rephaze.hardware").joinpath("data", "scenarios", "coarse.toml").read_text("utf-8")
        old_title = json.loads((DATA / "settings-default.json").read_text())["scenario"]["title"]
        scenario = str(tmp_path / "default.toml")
        Path(scenario).write_text(re.sub("(?m)^title = .*$", f"title = {json.dumps(old_title)}", text))
    return resolve_settings(("gpt2-xl", "bert-large"), scenario=scenario, changes=CHANGES)


@pytest.fixture
def old_run(folder, settings, versions, recorded):
    """A run whose database has the recorded text, not what this version would write."""
    RunStore.create(folder, settings, versions).close()
    as_format(folder, 3)
    write_settings(folder, recorded)
    return folder


def write_settings(folder, text):
    edited(folder, "UPDATE run SET settings = ?", parameters=(text,))


def test_the_text_is_still_the_same_to_the_byte(recorded, resolved):
    assert canonical_text(to_json(resolved)) == recorded


def test_recorded_text_is_read_as_enums(recorded, resolved):
    found = from_json(SearchSettings, json.loads(recorded))
    assert found == resolved
    assert isinstance(found.scenario.attention, AttentionKind)
    assert all(isinstance(mode, Recompute) for mode in found.scenario.training.recompute)


def test_an_old_run_opens_and_goes_on(old_run, resolved, versions):
    with RunStore.read(old_run) as reader:
        assert reader.info().settings == resolved
    with RunStore.resume(old_run, resolved, versions) as store:
        assert store.info().num_sessions == 2


def test_another_choice_is_another_run(old_run, resolved, versions):
    training = dataclasses.replace(resolved.scenario.training, precision=PrecisionName.FP32)
    other = dataclasses.replace(resolved, scenario=dataclasses.replace(resolved.scenario, training=training))
    with pytest.raises(RunError) as error:
        RunStore.resume(old_run, other, versions)
    _, line = str(error.value).splitlines()
    assert re.fullmatch(r" +scenario\.training\.precision: \"\w+\" in the run, \"fp32\" now", line)


def test_a_stored_choice_that_does_not_exist_is_told(old_run, recorded):
    write_settings(old_run, recorded.replace('"optimizer":"', '"optimizer":"x'))
    with RunStore.read(old_run) as reader, pytest.raises(RunError, match=r"training\.optimizer should be one of"):
        reader.info()
