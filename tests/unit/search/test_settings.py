"""Run files and options become settings; what is wrong is named."""

import dataclasses
import json
import re
import types
import typing
from enum import Enum
from importlib.resources import files

import pytest

import rephaze
from rephaze.errors import SpecError
from rephaze.estimate.estimate_model import ESTIMATE_MODELS
from rephaze.hardware.scenarios import load_scenario
from rephaze.place.precision import named_precision
from rephaze.search.settings import resolve_settings
from rephaze.types.graph import AttentionKind
from rephaze.types.placement import Optimizer, PrecisionName, Recompute
from rephaze.types.scenario import EstimateModelName
from rephaze.types.search import Aggregate, Objective, SearchSettings
from rephaze.workload.zoo import load_model

DEFAULT_TOML = files("rephaze.hardware").joinpath("data", "scenarios", "default.toml").read_text("utf-8")
WITHOUT_SPACE = (
    'space = "text"\n' + DEFAULT_TOML.split("[space]")[0] + "[cluster]" + DEFAULT_TOML.split("[cluster]")[1]
)


def test_the_default_scenario_is_taken_as_it_is():
    settings = resolve_settings(("gpt2-xl",))
    assert settings.scenario.name == "default"
    assert settings.objective is Objective.THROUGHPUT
    assert settings.weights == (1.0,)


def test_a_run_file_changes_single_fields_and_options_come_last(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(
        'scenario = "paper"\n[search]\nmodels = ["gpt2-xl", "bert-large"]\naggregate = "worst"\n'
        "[space]\narea_limit_um2 = 2e8\n[training]\nglobal_batch = 512\nmicrobatches = [1, 2]\n"
    )
    settings = resolve_settings(config=path, changes={"training": {"global_batch": 256}})
    assert settings.models == ("gpt2-xl", "bert-large")
    assert settings.aggregate is Aggregate.WORST
    assert settings.scenario.space.area_limit_um2 == 2e8
    assert settings.scenario.training.global_batch == 256
    assert settings.scenario.training.microbatches == (1, 2)
    assert settings.scenario.cluster.num_devices == 1024


def test_text_and_enum_are_taken_alike():
    as_text, as_enum = (
        resolve_settings(("gpt2-xl",), changes={"training": {"optimizer": given}, "attention": kind})
        for given, kind in (("sgd", "eager"), (Optimizer.SGD, AttentionKind.EAGER))
    )
    assert as_text == as_enum
    assert as_text.scenario.training.optimizer is Optimizer.SGD
    assert as_text.scenario.attention is AttentionKind.EAGER


def test_another_number_of_devices_keeps_the_inner_level():
    cluster = resolve_settings(("gpt2-xl",), changes={"cluster": {"num_devices": 20}}).scenario.cluster
    assert [level.num_devices for level in cluster.levels] == [8, 24]
    assert [level.bytes_per_s for level in cluster.levels] == [300e9, 50e9]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[search]\nmodels = []\n", "models is .*name at least one model"),
        ("", "models is .*name at least one model"),
        ('[search]\nmodels = ["a", "a"]\n', "names a model twice"),
        ('[search]\nmodels = ["a"]\nweights = [1.0, 2.0]\n', "one weight for each of the 1 models"),
        ('[search]\nmodels = ["a"]\nweights = [0.0]\n', "must all be positive"),
        ('[search]\nmodels = ["a"]\nweights = [1e308]\n', "must all be positive, from 1e-12 to 1e\\+12"),
        ('[search]\nmodels = ["a"]\nmodel = 1\n', "run.toml: search.model is 1: .*did you mean 'models'"),
        (
            '[serach]\nmodels = ["a"]\n',
            "run.toml: serach is .*known are scenario, search, .*did you mean 'search'",
        ),
        ('scenario = "papers"\n[search]\nmodels = ["a"]\n', "did you mean 'paper'"),
        ("scenario = 5\n", "run.toml: scenario is 5: must name a scenario"),
        ('[search]\nmodels = ["a"]\n[space]\nwidth = [1]\n', "run.toml: space.width is"),
        ('[search]\nmodels = ["a"]\n[training]\nmicrobatches = [0]\n', "run.toml: training.microbatches is 0"),
        ('search = "text"\n', "run.toml: search is 'text': must be a section"),
        ("training = [1]\n", r"run.toml: training is \[1\]: must be a section"),
        ('[[cluster]]\nnum_devices = 8\n[search]\nmodels = ["a"]\n', "run.toml: cluster is .*must be a section"),
        ('[search]\nmodels = ["a"]\n[cluster]\nnum_devices = "8"\n', "run.toml: cluster.num_devices is '8'"),
        ('[search]\nmodels = ["a"]\n[cluster]\nlevels = []\n', "run.toml: cluster.levels is "),
        (
            '[search]\nmodels = ["a"]\n[cluster]\nlevels = [{num_devices = 1024, bytes_per_s = -1.0}]\n',
            r"run.toml: cluster.levels.0.network.bytes_per_s is -1.0",
        ),
        (
            '[search]\nmodels = ["a"]\n[space]\nglobal_buffer_mib = [0]\n',
            "run.toml: space.global_buffer_bytes is 0",  # derived: the section says who gave it
        ),
    ],
)
def test_a_bad_run_file_names_the_field(tmp_path, text, said):
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(SpecError, match=said) as caught:
        resolve_settings(config=path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"title is None: is required and missing \(and \d+ more\)"),
        (WITHOUT_SPACE, "space is 'text': must be a section"),
        (DEFAULT_TOML.replace("[training]", "[[training]]"), "training is .*must be a section"),
        (DEFAULT_TOML.replace('optimizer = "adam"', ""), "training.optimizer is None: .*sgd, adam"),
        (DEFAULT_TOML + '[search]\nmodels = ["a"]\n', "search is .*not a known field"),
    ],
)
def test_a_bad_scenario_file_is_blamed_for_its_own_field(tmp_path, text, said):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    # As the command line has it: empty sections where an option was not given.
    changes = {"search": {}, "space": {}, "training": {"global_batch": 64}, "cluster": {}}
    with pytest.raises(SpecError, match=f"^mine.toml: {said}"):
        resolve_settings(("gpt2-xl",), scenario=str(path), changes=changes)
    with pytest.raises(SpecError, match=f"^mine.toml: {said}"):
        load_scenario(str(path))


def test_a_network_that_is_missing_cannot_be_resized(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("")
    with pytest.raises(SpecError, match=r"^mine.toml: cluster.levels is None: is required and missing"):
        resolve_settings(("gpt2-xl",), scenario=str(path), changes={"cluster": {"num_devices": 8}})


def test_the_last_to_give_a_field_is_blamed_for_it(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('[search]\nmodels = ["a"]\n[training]\noptimizer = "lion"\n')
    with pytest.raises(SpecError, match=r"^run.toml: training.optimizer is 'lion'"):
        resolve_settings(config=path, changes={"training": {"precision": "fp32"}})
    with pytest.raises(SpecError, match=r"^options: training.optimizer is 'rmsprop'"):
        resolve_settings(config=path, changes={"training": {"optimizer": "rmsprop"}})


# Every field of a search that is a choice is found by the types of its records: a new one cannot be forgotten.


def leaves(record=SearchSettings, path=()):
    """Path, type and whether it is a list, of every field of a record and of the records in it."""
    for name, kind in typing.get_type_hints(record).items():
        if typing.get_origin(kind) in (typing.Union, types.UnionType):
            kind = next(arm for arm in typing.get_args(kind) if arm is not types.NoneType)
        is_list = typing.get_origin(kind) is tuple
        kind = typing.get_args(kind)[0] if is_list else kind
        if dataclasses.is_dataclass(kind):
            yield from leaves(kind, (*path, name))
        else:
            yield ".".join((*path, name)), kind, is_list


def place_in_file(path):
    """The section ("" for none) and the field that write a field of the settings."""
    section, _, field = (path.removeprefix("scenario.") if "." in path else f"search.{path}").rpartition(".")
    return section, field


COMPARISON = "scenario.space.constraints.comparison"
"""Not written by itself: a sign in the text of a constraint."""
FREE_TEXT = {
    "models",
    "scenario.name",
    "scenario.title",
    "scenario.space.constraints.text",
    "scenario.space.constraints.left_fields",
    "scenario.space.constraints.right_fields",
    # Generations are those of a data file.
    "scenario.space.system.hbm.generation",
    "systems.hbm.generation",
}
CHOICES = [
    (*place_in_file(path), ["nonsense"] if is_list else "nonsense", [choice.value for choice in kind])
    for path, kind, is_list in leaves()
    if issubclass(kind, Enum) and path != COMPARISON
]
CHOICES += [
    ("space", "constraints", ["num_macs ~ 5"], ["<=", "<", ">=", ">", "=="]),
    ("training", "recompute", "none", list(Recompute)),
    ("training", "recompute", [], list(Recompute)),
    # Choices that data files list, not enums.
    ("space", "template", "nonsense", ["default", "paper"]),
    ("space", "hbm", "nonsense", ["hbm2", "hbm3e"]),
    ("space", "area_limit_chip", "nonsense", ["tpuv4", "h100"]),
]


def in_toml(section, field, value):
    return (f"[{section}]\n" if section else "") + f"{field} = {json.dumps(value)}\n"


def in_shipped_scenario(section, field, value):
    """A scenario file that ships and has such a section, with one field changed or added."""
    whole = DEFAULT_TOML
    line = f"{field} = {json.dumps(value)}"
    text, num_found = re.subn(rf"^{field} = .*$", line, whole, flags=re.MULTILINE)
    return text if num_found else whole.replace(f"[{section}]\n", f"[{section}]\n{line}\n")


def check_says_it_all(error, source, section, field, value, choices):
    text, shown = str(error), repr(value[0] if isinstance(value, list) and value else value)
    assert re.match(rf"{source}: {section + '.' if section else ''}{field}\b", text), text
    assert f" is {shown}: " in text
    assert all(choice in text for choice in choices), text
    assert "\n" not in text


def test_the_choices_were_found():
    found = {".".join(filter(None, (section, field))) for section, field, *_ in CHOICES}
    assert found >= {"attention", "all_cores_excludes", "estimate_model", "placement_model", "space.area_model"}
    assert found >= {"training.recompute", "training.optimizer", "training.precision"}
    assert found >= {"search.objective", "search.aggregate"}
    assert COMPARISON in {path for path, *_ in leaves()}


def test_no_choice_is_held_as_text():
    assert {path for path, kind, _ in leaves() if kind is str} == FREE_TEXT


@pytest.mark.parametrize(("section", "field", "value", "choices"), CHOICES)
def test_a_wrong_choice_in_a_run_file_is_one_line(tmp_path, section, field, value, choices):
    path = tmp_path / "run.toml"
    path.write_text(in_toml(section, field, value))
    with pytest.raises(SpecError) as caught:
        resolve_settings(("gpt2-xl",), config=path)
    check_says_it_all(caught.value, "run.toml", section, field, value, choices)


@pytest.mark.parametrize(("section", "field", "value", "choices"), [row for row in CHOICES if row[0] != "search"])
def test_a_wrong_choice_in_a_scenario_file_is_one_line(tmp_path, section, field, value, choices):
    path = tmp_path / "mine.toml"
    path.write_text(in_shipped_scenario(section, field, value))
    for read in (load_scenario, lambda name: resolve_settings(("gpt2-xl",), scenario=name, changes={"space": {}})):
        with pytest.raises(SpecError) as caught:
            read(str(path))
        check_says_it_all(caught.value, "mine.toml", section, field, value, choices)


@pytest.mark.parametrize(("section", "field", "value", "choices"), CHOICES)
def test_a_wrong_choice_in_changes_is_one_line(section, field, value, choices):
    with pytest.raises(SpecError) as caught:
        rephaze.explore("gpt2-xl", changes={section: {field: value}} if section else {field: value})
    check_says_it_all(caught.value, "options", section, field, value, choices)


@pytest.mark.parametrize("changes", [{"training": [1]}, {"search": "text"}, {"space": None}, {"trainig": {}}])
def test_changes_of_another_form_are_one_line(changes):
    with pytest.raises(SpecError, match=f"^options: {next(iter(changes))} is "):
        rephaze.explore("gpt2-xl", changes=changes)


def test_the_rooms_know_every_choice_and_no_other():
    assert list(ESTIMATE_MODELS) == list(EstimateModelName)
    with pytest.raises(SpecError, match=f"must be one of {', '.join(PrecisionName)}$"):
        named_precision("nonsense", Optimizer.ADAM)
    assert {load_model("gpt2-xl", kind).attention for kind in AttentionKind} == set(AttentionKind)
    with pytest.raises(SpecError, match=f"must be one of {', '.join(AttentionKind)}$"):
        load_model("gpt2-xl", "nonsense")
