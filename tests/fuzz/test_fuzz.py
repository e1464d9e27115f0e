"""The command line on broken input, in every test run with the same seeds; ``make fuzz`` draws fresh ones."""

import json
import math

import pytest

from tests.fuzz.campaign import run_cases
from tests.fuzz.cases import READERS
from tests.fuzz.harness import call
from tests.fuzz.recorded import record_run
from tests.fuzz.seeds import SOURCES
from tests.fuzz.toml_text import toml_text
from tests.kits.long_hunt import examples

NUM_CASES = examples(100, 400)
"""Of a seed; ``make fuzz`` goes on."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return record_run(tmp_path_factory.mktemp("recorded"))


@pytest.mark.parametrize("seed", [11, 12])
def test_broken_input_is_refused_in_words(run, seed):
    found = run_cases(seed, NUM_CASES, run=run, until=math.inf)
    assert not found.findings, "\n\n".join(map(str, found.findings))
    assert found.num_cases == NUM_CASES


@pytest.fixture
def sound(tmp_path, monkeypatch):
    from tests.fuzz.cases import write_sources

    write_sources(tmp_path, None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", sorted(set(READERS) - {"run.toml"}))
def test_what_is_broken_was_sound(sound, name):
    done = call(READERS[name][0])
    assert done.code == 0, done.err + done.trace


@pytest.mark.parametrize("name", sorted(set(SOURCES) - {"designs.csv"}))
def test_an_unknown_field_is_refused_with_its_file(sound, name):
    data = dict(SOURCES[name]()) | {"levelss": 1}
    (sound / name).write_text(toml_text(data) if name.endswith(".toml") else json.dumps(data))
    done = call(READERS[name][0])
    assert done.code == 1
    assert "levelss" in done.err
    assert name in done.err
    assert done.err.count(name) == 1  # not told twice


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("place", "problem1.json", "--devices", "4"), "--devices is 4: is for a model with --chip"),
        (("place", "problem1.json", "--scenario", "nope"), "--scenario is 'nope': is for a model with --chip"),
        (("estimate", "gemm.json", "--tp", "99"), "--tp is 99: is for a model with --chip"),
        (("estimate", "gemm.json", "--cost-model", "xx"), "--cost-model is 'xx': is for a model with --chip"),
        (("schedule", "schedule.json", "--layer", "77"), "--layer is 77: is for a model with --chip"),
        (("schedule", "schedule.json", "--backend", "highs"), "--backend is"),
        (("graph", "graph.json", "--attention", "eager"), "--attention is 'eager': is for models of the zoo"),
        (("graph", "graph.json", "--cp-form", "ring"), "--cp-form is 'ring': is for --cp above 1"),
        (("pareto", "run", "--workers", "2"), "--workers is 2: is for --solve"),
        (("search", "graph.json", "--time-limit", "nan"), "--time-limit is nan: must be zero or more"),
        (("search", "graph.json", "--workers", "-1"), "workers"),
        (("judge",), "PLAN is []"),
        (("chips", "--nope"), "--nope"),
        (("\x1b[31mred",), "No such command"),
    ],
)
def test_options_that_do_not_apply_are_usage_errors(sound, args, said):
    done = call(args)
    assert done.code == 2, done.err
    assert said in done.err
    assert "\x1b" not in done.err
    assert not done.out


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (("schedule", "schedule.json", "--html", "schedule.json"), "schedule.json"),
        (("estimate", "graph.json", "--chip", "tpuv4", "--html", "graph.json"), "graph.json"),
        (("extract", "graph.json", "--out", "graph.json"), "graph.json"),
        (("estimate", "graph.json", "--chip", "chip.toml", "--html", "chip.toml"), "chip.toml"),
    ],
)
def test_no_command_writes_over_what_it_reads(sound, args, name):
    before = (sound / name).read_bytes()
    done = call(args)
    assert done.code == 1
    assert f"{name}: is read by this command" in done.err
    assert (sound / name).read_bytes() == before


@pytest.mark.parametrize("name", ["\x1b]0;T\x07", "[/x]", "[bold]x", "a\rb"])
def test_names_are_shown_and_not_obeyed(sound, name):
    problem = json.loads(json.dumps(SOURCES["schedule.json"]()).replace('"a"', json.dumps(name)))
    (sound / "schedule.json").write_text(json.dumps(problem))
    done = call(("schedule", "schedule.json"))
    assert done.code == 0, done.err + done.trace
    assert "".join(letter if letter.isprintable() else "\ufffd" for letter in name) in done.out
    assert all(letter.isprintable() or letter == "\n" for letter in done.out)
