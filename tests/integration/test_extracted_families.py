"""A sample of the table of families: one of each group, extracted and counted as the benchmark does it."""

import importlib.util
import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "extracted_families.py"
SAMPLE = (
    "xglm",
    "jetmoe",
    "albert",
    "led",
    "siglip",
    "whisper",
    "data2vec-audio",
    "mamba",
    "qwen3_next",
    "internvl",
)


def load():
    spec = importlib.util.spec_from_file_location("extracted_families", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


families = load()
FACTS = families.tomllib.loads(families.DATA.with_suffix(".toml").read_text())


@pytest.mark.parametrize("kind", SAMPLE)
def test_a_family_has_exact_parameters_and_the_counters_flops(kind):
    found = families.examine(kind, FACTS.get("set", {}).get(kind, {}))
    assert found["status"] == "extracted", found


def test_blocks_that_shorten_what_passes_do_not_stand_for_each_other():
    """Large models of this kind have seven strided convolutions alike but for the length of what they read."""
    found = families.examine("wav2vec2", {"config": {"feat_extract_norm": "layer"}})
    assert found["status"] == "extracted", found


def test_every_family_was_tried_and_none_crashed():
    found = families.read_found()
    kinds = [kind for group in FACTS["groups"].values() for kind in group]
    assert len(kinds) == len(set(kinds))
    assert sorted(found) == sorted(kinds)
    assert {one["status"] for one in found.values()} <= {"extracted", "differs", "refused"}
    good = [one for one in found.values() if one["status"] == "extracted"]
    assert len(good) >= 181
    assert all(families.is_right(one) for one in good)
    assert all(one["cpu_s"] < families.MAX_S and one["peak_bytes"] < families.MAX_BYTES for one in good)


def test_the_page_has_the_table_of_what_was_found():
    page = families.PAGE.read_text()
    assert families.table_of(FACTS["groups"], families.read_found()) in page


def test_a_wrong_count_is_told():
    found = dict(next(one for one in families.read_found().values() if one["status"] == "extracted"))
    found["backward"] = int(found["backward"] * 1.002)
    assert not families.is_right(found)


def test_infinite_numbers_of_the_librarys_own_form_are_read():
    from rephaze.workload.extract.config_source import _decoded

    text = json.dumps({"time_step_limit": [0.0, {"__float__": "Infinity"}]})
    assert _decoded(json.loads(text)) == {"time_step_limit": [0.0, float("inf")]}
