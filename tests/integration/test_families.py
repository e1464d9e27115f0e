"""The benchmark of unseen models: its configs are what they claim, its script runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "families.py"
CONFIGS = sorted(SCRIPT.with_suffix("").glob("*.json"))


def run(*arguments):
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_there_are_as_many_families_as_promised():
    assert len(CONFIGS) >= 20


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_config_names_its_kind_of_model_and_no_code(path):
    config = json.loads(path.read_text())
    assert config["model_type"]
    assert len(config["architectures"]) == 1
    assert "auto_map" not in config


# As their makers count them, in millions: biases, norms and heads included.
@pytest.mark.parametrize(
    ("name", "seq_len", "published_millions"),
    [("falcon-7b", 64, 6922), ("vit-huge", None, 631), ("olmoe-1b-7b", 64, 6919), ("bart-large", 64, 406)],
)
def test_a_config_has_the_published_number_of_parameters(name, seq_len, published_millions):
    pytest.importorskip("torch")
    from rephaze.workload.extract.extraction import extract_config

    config = json.loads((SCRIPT.with_suffix("") / f"{name}.json").read_text())
    graph = extract_config(config, name=name, seq_len=seq_len)
    assert round(graph.num_parameters / 1e6) == published_millions


def test_the_script_says_how_it_is_used():
    code, text, _ = run("--help")
    assert code == 0
    assert all(path.stem in "".join(text.split()) for path in CONFIGS)


def test_an_unknown_model_is_named_and_nothing_runs():
    code, _, text = run("bart-larg")
    assert code == 2
    assert "bart-larg: not one of" in text


def test_a_measured_process_tells_the_largest_parts():
    code, text, _ = run("opt-350m", "--measured", "shape")
    assert code == 0
    found = json.loads(text.partition("families: ")[2])
    assert found["num_layer_types"] == len(found["largest_parts"])
    block = max(found["largest_parts"], key=lambda one: one["backward_ops"])
    # Gradients of weights wait for nobody: backward holds more that may run side by side.
    assert block["backward_ops"] > block["forward_ops"] > 1
