"""Records to JSON and back: what does not fit is told, with its place."""

import dataclasses
import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

from rephaze.errors import FileError, SpecError
from rephaze.hardware.scenarios import load_scenario
from rephaze.store.record_json import canonical_text, from_json, json_text, to_json
from rephaze.types.cluster import NetworkLevel
from rephaze.types.scenario import Scenario
from rephaze.types.search import Objective


@dataclass(frozen=True, kw_only=True, slots=True)
class Inner:
    size_bytes: int
    scale_factor: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Outer:
    inners: tuple[Inner, ...]
    pair: tuple[int, str]
    by_name: dict[str, Inner]
    maybe: Inner | None
    objective: Objective
    is_done: bool


OUTER = Outer(
    inners=(Inner(size_bytes=1), Inner(size_bytes=2, scale_factor=math.inf)),
    pair=(3, "x"),
    by_name={"z": Inner(size_bytes=4), "a": Inner(size_bytes=5, scale_factor=-math.inf)},
    maybe=None,
    objective=Objective.PER_WATT,
    is_done=True,
)


def test_a_scenario_survives_text():
    for name in ("paper", "coarse", "default"):
        scenario = load_scenario(name)
        assert from_json(Scenario, json.loads(json_text(to_json(scenario)))) == scenario


def test_every_kind_of_field_survives_text():
    document = to_json(OUTER)
    assert document["inners"][1]["scale_factor"] == "inf"
    found = from_json(Outer, json.loads(json_text(document)))
    assert found == OUTER
    assert list(found.by_name) == ["z", "a"]
    assert found.objective is Objective.PER_WATT


def test_equal_records_have_one_canonical_text():
    other = dataclasses.replace(OUTER, by_name=dict(reversed(OUTER.by_name.items())))
    assert canonical_text(to_json(other)) == canonical_text(to_json(OUTER))
    assert canonical_text(to_json(Inner(size_bytes=1, scale_factor=1))) == '{"scale_factor":1.0,"size_bytes":1}'


def test_numpy_numbers_and_not_a_number():
    document = to_json(Inner(size_bytes=np.int64(3), scale_factor=np.float32(0.5)))
    assert json_text(document) == '{"size_bytes":3,"scale_factor":0.5}'
    nan = from_json(Inner, to_json(Inner(size_bytes=1, scale_factor=math.nan)))
    assert math.isnan(nan.scale_factor)


def test_a_missing_field_takes_its_default():
    assert from_json(Inner, {"size_bytes": 1}) == Inner(size_bytes=1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"inners": [{"size_bytes": 1.5}]},
            r"Outer\.inners\[0\]\.size_bytes should be a whole number, is 1\.5",
        ),
        ({"inners": [{"size_bytes": True}]}, "should be a whole number, is True"),
        ({"inners": [{}]}, r"Outer\.inners\[0\] lacks size_bytes"),
        ({"inners": [{"size_bytes": 1, "scale_factor": "big"}]}, "should be a number, is 'big'"),
        ({"inners": {}}, r"Outer\.inners should be a list, is \{\}"),
        ({"pair": [1]}, r"Outer\.pair should be a list of 2"),
        ({"pair": [1, 2]}, r"Outer\.pair\[1\] should be text, is 2"),
        ({"by_name": {"q": 3}}, r"Outer\.by_name\['q'\] should be a Inner, is 3"),
        ({"by_name": []}, "should be an object"),
        ({"objective": "speed"}, r"Outer\.objective should be one of 'throughput', .* is 'speed'"),
        ({"is_done": 1}, "should be true or false, is 1"),
        ({"extra": 1}, "Outer has unknown extra"),
    ],
)
def test_a_misfit_is_told_with_its_place(change, said):
    with pytest.raises(FileError, match=said):
        from_json(Outer, to_json(OUTER) | change)


def test_the_records_own_rules_still_hold():
    with pytest.raises(SpecError, match="num_devices"):
        from_json(NetworkLevel, {"num_devices": 0, "bytes_per_s": 1.0, "latency_s": 0.0})


@pytest.mark.parametrize(
    "broken",
    [
        dataclasses.replace(OUTER, inners=("x",)),
        dataclasses.replace(OUTER, inners="x"),
        dataclasses.replace(OUTER, pair=(1, 2)),
        dataclasses.replace(OUTER, pair=(1,)),
        dataclasses.replace(OUTER, by_name={1: Inner(size_bytes=1)}),
        dataclasses.replace(OUTER, is_done="yes"),
        dataclasses.replace(OUTER, inners=(Inner(size_bytes=1.5),)),
    ],
)
def test_a_value_of_another_type_is_not_stored(broken):
    with pytest.raises(TypeError):
        to_json(broken)


def test_an_unknown_enum_value_is_not_stored():
    with pytest.raises(ValueError, match="speed"):
        to_json(dataclasses.replace(OUTER, objective="speed"))


def test_a_field_type_without_a_form_is_refused():
    @dataclass
    class Odd:
        anything: object

    with pytest.raises(TypeError, match="no JSON form"):
        to_json(Odd(1))


@dataclass(frozen=True, kw_only=True, slots=True)
class Numbers:
    ints: tuple[int, ...] = ()
    floats: tuple[float, ...] = ()


@pytest.mark.parametrize(
    "floats",
    [(), (0.1, 2.0), (1.0, math.inf), (math.inf, -math.inf), (1e308, 1e308), (1, 0.5), (np.float64(0.1),)],
)
def test_tuples_of_numbers_survive_text(floats):
    numbers = Numbers(ints=(1, np.int64(2)), floats=floats)
    document = json.loads(json_text(to_json(numbers)))
    found = from_json(Numbers, document)
    assert found == numbers
    assert {type(one) for one in found.floats} <= {float}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"ints": [1, True]}, r"\.ints\[1\] should be a whole number"),
        ({"ints": [1, 2.0]}, r"\.ints\[1\] should be a whole number"),
        ({"ints": 3}, r"\.ints should be a list"),
        ({"floats": [1.0, "x"]}, r"\.floats\[1\] should be a number"),
        ({"floats": [False]}, r"\.floats\[0\] should be a number"),
    ],
)
def test_one_number_of_many_that_does_not_fit_is_told_with_its_place(document, said):
    with pytest.raises(FileError, match=said):
        from_json(Numbers, document)


def test_what_is_no_number_is_not_stored_among_numbers():
    with pytest.raises((TypeError, ValueError)):
        to_json(Numbers(floats=(1.0, "x")))
    with pytest.raises(TypeError):
        to_json(Numbers(ints=(1, 2.5)))
