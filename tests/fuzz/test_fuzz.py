"""The command line on broken input, in every test run with the same seeds; ``make fuzz`` draws fresh ones."""

import csv
import io
import json

import pytest

from tests.fuzz.campaign import run_cases
from tests.fuzz.commands import BASES, ON_RUNS, READERS
from tests.fuzz.harness import call, commands
from tests.fuzz.recorded import record_run
from tests.fuzz.seeds import SOURCES
from tests.fuzz.toml_text import toml_text
from tests.kits.long_hunt import examples

NUM_CASES = examples(200, 500)
"""Of a seed, the same on every machine; ``make fuzz`` goes on."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return record_run(tmp_path_factory.mktemp("recorded"))


@pytest.mark.parametrize("seed", [11, 12])
def test_broken_input_is_refused_in_words(run, seed):
    found = run_cases(seed, NUM_CASES, run=run)
    assert not found.findings, "\n\n".join(map(str, found.findings))
    assert found.num_cases == NUM_CASES


@pytest.fixture
def sound(tmp_path, monkeypatch):
    from tests.fuzz.cases import write_sources

    write_sources(tmp_path, None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", sorted(READERS))
def test_what_is_broken_was_sound(sound, name):
    args = READERS[name][0]
    done = call(tuple("30" if value == "0.3" else value for value in args))  # time enough for an answer
    assert done.code == 0, done.err + done.trace


def test_every_command_is_called():
    assert set(BASES) == set(commands().commands)
    assert {call[0] for calls in READERS.values() for call in calls} | {call[0] for call in ON_RUNS} >= set(
        BASES
    ) - {"models", "serve"}


# Not of a config: a library decides what its fields mean. Not of a table, nor of lines.
@pytest.mark.parametrize(
    "name", sorted(name for name in SOURCES if name.endswith((".json", ".toml")) and name != "config.json")
)
def test_an_unknown_field_is_refused_with_its_file(sound, name):
    data = dict(SOURCES[name]()) | {"levelss": 1}
    (sound / name).write_text(toml_text(data) if name.endswith(".toml") else json.dumps(data))
    done = call(READERS[name][0])
    assert done.code == 1, done.out
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
        (("compare", "--run", "run", "--time-limit", "5"), "--time-limit is 5.0: is for a search"),
        (("compare", "--run", "run", "--workers", "3"), "--workers is 3: is for a search"),
        (("place", "problem1.json", "--why", ""), "--why is '': must name a choice"),
        (("place", "graph.json", "--chip", "tpuv4", "--why", " "), "--why is ' ': must name a choice"),
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
    "args",
    [
        ("graph", "graph.json", "--tp", "0"),
        ("graph", "graph.json", "--layer", "9" * 5000),
        ("graph", "graph.json", "--layer", "\u00b2"),
        ("graph", "graph.json", "--layer=\uff11"),
        ("estimate", "graph.json", "--chip", "tpuv4", "--microbatch=-1"),
        ("estimate", "graph.json", "--chip", "nope"),
        ("place", "graph.json", "--chip", "tpuv4", "--devices=0"),
        ("extract", "config.json", "--seq-len", "0"),
        ("models", "--attention", "nope"),
        ("validate", "runs.csv", "--physics", "guessed"),
    ],
)
def test_options_whose_values_make_no_sense_are_usage_errors(sound, args):
    done = call(args)
    assert done.code == 2, done.err + done.trace
    assert len(done.err.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["problem1.json", "problem2.json"])
@pytest.mark.parametrize(
    ("why", "said"),
    [("tp=" + "9" * 5000, "must be a whole"), ("tp=\uff11", "must be a whole"), ("tp=1,tp=2", "twice")],
)
def test_a_choice_that_makes_no_sense_is_told_with_the_problem(sound, name, why, said):
    done = call(("place", name, "--why", why))
    assert done.code == 1, done.trace
    assert said in done.err


@pytest.mark.parametrize("args", [("support", "9" * 5000), ("extract", "x" * 300 + ".py:make")])
def test_what_cannot_be_a_files_name_is_no_file(sound, args):
    done = call(args)
    assert done.code == 1, done.trace
    assert "no such file" in done.err or "nor a file" in done.err


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (("schedule", "schedule.json", "--html", "schedule.json"), "schedule.json"),
        (("estimate", "graph.json", "--chip", "tpuv4", "--html", "graph.json"), "graph.json"),
        (("extract", "graph.json", "--out", "graph.json"), "graph.json"),
        (("estimate", "graph.json", "--chip", "chip.toml", "--html", "chip.toml"), "chip.toml"),
        (("validate", "runs.csv", "--html", "runs.csv"), "runs.csv"),
        (("calibrate", "runs.csv", "--out", "runs.csv"), "runs.csv"),
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


def test_a_page_with_a_wrong_ending_is_refused_before_the_work(sound, monkeypatch):
    monkeypatch.setattr("rephaze.api.validating.validate", lambda *_, **__: pytest.fail("worked first"))
    done = call(("validate", "sweep.csv", "--html", "new.csv"))
    assert done.code == 1
    assert "'new.csv': must end in .html or .htm" in done.err


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_none_is_told_with_its_field(sound, text):
    problem = json.dumps(SOURCES["problem2.json"]()).replace(
        '"bytes_per_s": 1000000000.0', f'"bytes_per_s": {text}'
    )
    (sound / "problem2.json").write_text(problem)
    done = call(("place", "problem2.json"))
    assert done.code == 1
    assert "problem2.json: cluster.levels.0.bytes_per_s is " in done.err


def test_stages_of_a_plan_of_format_1_are_a_table(sound):
    done = call(("evaluate", "plan1.json", "--to", "csv", "--out", "new.csv"))
    assert done.code == 0, done.err + done.trace
    rows = list(csv.DictReader(io.StringIO((sound / "new.csv").read_text())))
    assert [row["num_layers"] for row in rows] == ["2", "1"]
    assert [row["last_layer"] for row in rows] == ["l1", "l2"]


def test_kept_cells_that_are_damaged_are_told_with_their_line(sound):
    (sound / "cells.jsonl").write_text(SOURCES["cells.jsonl"]() + '{"figure": ')
    done = call(READERS["cells.jsonl"][0])
    assert done.code == 1
    assert "cells.jsonl:2: not valid JSON" in done.err
    assert "remove the line" in done.err


def test_a_table_without_a_run_to_fit_to_is_refused(sound):
    (sound / "runs.csv").write_text(SOURCES["runs.csv"]().replace(",yes\n", ",no\n"))
    done = call(("calibrate", "runs.csv", "--steps", "1"))
    assert done.code == 1
    assert "holds no run to fit to" in done.err


def test_a_limit_next_to_nothing_is_answered_without_a_warning(sound):
    done = call(("bill", "chip.toml", "--silicon-m2", "1e-320"))
    assert done.code == 3
    assert not done.err


def test_what_cannot_be_a_folder_is_no_run(sound):
    done = call(("judge", "--run", "x" * 2000, "--chip", "tpuv4"))
    assert done.code == 1
    assert "no such folder" in done.err


def test_what_cannot_be_an_address_is_no_host(sound):
    for host in ("\x9b31m", "x" * 2000, "a..b"):
        done = call(("serve", ".", "--port", "0", "--host", host))
        assert done.code == 2, done.trace
        assert "--host is" in done.err or "--port is" in done.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("paper", "--model", "nope"), "model is 'nope': must be one of"),
        (("paper", "--out", "chip.toml"), "chip.toml: cannot be a folder: chip.toml is a file"),
        (("paper", "--page", "runs.csv"), "must end in .md"),
        (("nest", "--out", "chip.toml/x", "--max-chips", "1"), "is a file; name another"),
        (("nest", "--page", "chip.toml", "--max-chips", "1"), "must end in .md"),
    ],
)
def test_reproduce_refuses_before_the_work(sound, args, said):
    done = call(("reproduce", *args))
    assert done.code == (2 if "--model" in args else 1), done.trace
    assert said in done.err


@pytest.mark.parametrize("field", ["power_w", "usd", "silicon_mm2"])
def test_a_budget_beyond_any_sense_is_refused(sound, field):
    (sound / "system.toml").write_text(toml_text({"budget": {field: 1e100}}))
    done = call(("bill", "tpuv4", "--system", "system.toml"))
    assert done.code == 1, done.out
    assert field in done.err


@pytest.mark.parametrize("value", [True, "text", 1.5, [1], ["a", 2]])
def test_a_wrong_size_is_told_by_the_place_it_has_in_the_file(sound, value):
    graph = SOURCES["graph.json"]()
    gemm = next(op["gemm"] for op in graph["layer_types"][1]["forward"]["ops"] if "gemm" in op)
    gemm["batch"] = value
    (sound / "graph.json").write_text(json.dumps(graph))
    done = call(("graph", "graph.json"))
    assert done.code == 1
    assert ".gemm.batch is " in done.err or ".gemm.batch.0 is " in done.err
    assert "constrained" not in done.err


@pytest.mark.parametrize(
    ("args", "whole"),
    [
        (("place", "graph.json", "--chip", "tpuv4", "--scenario", "scenario.toml"), "stage  layers  "),
        (("support", "tpuv4"), "what "),
    ],
)
def test_tables_are_whole_at_80_columns(sound, monkeypatch, args, whole):
    monkeypatch.setenv("COLUMNS", "80")
    done = call(args)
    assert done.code == 0, done.err + done.trace
    assert whole in done.out
    assert "\u2026" not in done.out  # nothing is cut
    assert all(len(line) <= 80 for line in done.out.splitlines() if not line.startswith("launch it: "))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000: must be at most 4,096"),
        ({"num_attention_heads": 2**40}, "num_attention_heads is 1099511627776: must be at most 4,096"),
        ({"vocab_size": 2**40}, "vocab_size is 1099511627776: must be at most 2,147,483,648"),
        ({"model_type": {"a": 1}}, "model_type is {'a': 1}: is not an architecture"),
        ({"text_config": {"num_layers": 5000}}, "text_config.num_layers is 5000: must be at most 4,096"),
    ],
)
def test_a_config_of_no_model_is_refused_at_once(sound, change, said):
    (sound / "config.json").write_text(json.dumps(SOURCES["config.json"]() | change))
    done = call(("extract", "config.json", "--seq-len", "16"), deadline_s=30.0)
    assert done.code == 1, done.trace
    assert said in done.err


@pytest.mark.parametrize("field", ["num_tensor_cores", "tensor_width", "vector_lanes", "num_hbm_stacks"])
@pytest.mark.parametrize("value", [-128, 0, 2**40])
def test_a_design_whose_area_is_the_limit_is_one_that_may_be(sound, field, value):
    data = SOURCES["design-limit.toml"]()
    data["space"]["area_limit_design"][field] = value
    (sound / "design-limit.toml").write_text(toml_text(data))
    done = call(("space", "--scenario", "design-limit.toml"))
    assert done.code == 1, done.out
    assert f"space.area_limit_design.{field} is {value}" in done.err


def test_a_die_that_no_wafer_holds_has_no_cost(sound):
    (sound / "chip.toml").write_text(toml_text(SOURCES["chip.toml"]() | {"num_tensor_cores": 2**16}))
    told, record = call(("chips", "chip.toml")), call(("chips", "chip.toml", "--json"))
    assert (told.code, record.code) == (0, 0), told.trace + record.trace
    assert "no cost: no such die fits a wafer" in " ".join(told.out.split())
    assert "inf" not in told.out
    assert json.loads(record.out)["cost_usd"] is None


def test_no_page_is_left_of_problems_that_cannot_be_read(sound):
    (sound / "schedule.json").write_text("{}")
    assert call(("schedule", "schedule.json", "--html", "new.html")).code == 1
    assert not (sound / "new.html").exists()


def test_judge_names_the_file_of_a_wrong_plan(sound):
    plan = SOURCES["plan2.json"]()
    (sound / "plan2.json").write_text(json.dumps(plan | {"plan": plan["plan"] | {"sharding": "nope"}}))
    done = call(("judge", "plan2.json"))
    assert done.code == 1
    assert "plan2.json: plan.sharding is 'nope'" in done.err


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("config.json", {"architectures": 7}, "must be a list of names of classes"),
        ("gemm.json", {"pj_per_access": {"dram": 1e308}}, "pj_per_access.dram"),
        ("schedule.json", {"ops": {1: {"all_cores_j": 1e308}}}, "all_cores_j"),
    ],
)
def test_found_by_fresh_seeds(sound, name, change, said):
    data = json.loads((sound / name).read_text())

    def changed(old, new):
        if not isinstance(new, dict):
            return new
        if isinstance(old, list):
            return [changed(item, new[at]) if at in new else item for at, item in enumerate(old)]
        return old | {key: changed(old.get(key), item) for key, item in new.items()}

    (sound / name).write_text(json.dumps(changed(data, change)))
    args = {"config.json": ("extract", "config.json", "--seq-len", "16")}.get(name, READERS.get(name, [()])[0])
    done = call(args)
    assert done.code == 1, done.out + done.err + done.trace
    assert said in done.err
