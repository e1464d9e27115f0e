"""Files to plain data and plain data to models; what is wrong is one line in the house's words."""

import gzip
from contextlib import suppress
from enum import StrEnum
from typing import Annotated

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from rephaze.errors import FileError, SpecError
from rephaze.types.files import check_format, read_mapping, validate


class Colour(StrEnum):
    RED = "red"
    DARK_BLUE = "dark-blue"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Wheel(_Strict):
    num_spokes: int
    width: int = 1
    depth: int = 1
    height: int = 1


class Car(_Strict):
    colour: Colour = Field(strict=False)
    others: list[Annotated[Colour, Field(strict=False)]] = Field(default_factory=list)
    roof: Colour | None = Field(default=None, strict=False)
    front: Wheel | None = None
    wheels: list[Wheel] = Field(default_factory=list)
    sizes: Wheel | list[int] | None = None

    @model_validator(mode="after")
    def _no_red_roof(self):
        if self.roof is Colour.RED:
            raise SpecError("roof", self.roof.value, "must not be red", "paint it")
        return self


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"colour": "rad"}, "colour is 'rad': must be one of red, dark-blue; did you mean 'red'?"),
        ({"colour": 5}, "colour is 5: must be one of red, dark-blue"),
        ({"roof": {}}, "roof is {}: must be one of red, dark-blue"),
        ({"others": ["red", "grey"]}, "others.1 is 'grey': must be one of red, dark-blue"),
        ({"others": "red"}, "others is 'red': must be a list of any of red, dark-blue"),
        ({"roof": "red"}, "roof is 'red': must not be red; paint it"),
        ({"colr": "red"}, "colr is 'red': is not a known field; did you mean 'colour'?"),
        (
            {"front": {"num_spokes": 3, "depht": 2}},
            "front.depht is 2: is not a known field; did you mean 'depth'?",
        ),
        ({"front": {}}, "front.num_spokes is None: is required and missing"),
        ({"front": "x"}, "front is 'x': must be a section with fields (num_spokes, width, depth, ...)"),
        ({"wheels": [{"num_spokes": "3"}]}, "wheels.0.num_spokes is '3': must be a whole number"),
        # Of two alternatives the first finding is told, without pydantic's name of the alternative.
        ({"sizes": {"num_spokes": 1.5}}, "sizes.num_spokes is 1.5: must be a whole number (and 1 more)"),
    ],
)
def test_the_first_finding_is_one_line(data, said):
    with pytest.raises(SpecError) as caught:
        validate(Car, {"colour": "red"} | data, "car.toml")
    assert str(caught.value) == f"car.toml: {said}"


def test_a_missing_choice_lists_what_there_is():
    with pytest.raises(SpecError) as caught:
        validate(Car, {"wheels": 1})
    assert str(caught.value) == "colour is None: is required and missing (and 1 more); give one of red, dark-blue"


def test_what_fits_comes_back_as_enums():
    car = validate(Car, {"colour": "dark-blue", "others": ["red", Colour.RED]})
    assert car.colour is Colour.DARK_BLUE
    assert car.others == [Colour.RED, Colour.RED]
    assert all(type(other) is Colour for other in car.others)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.json", b'{"x": 1}'), ("a.json.gz", gzip.compress(b'{"x": 1}', mtime=0)), ("a.toml", b"x = 1")],
)
def test_three_forms_of_one_mapping(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert read_mapping(tmp_path / name) == {"x": 1}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", b"{", "not valid JSON"),
        ("a.json", b"[1]", "must hold a JSON object, holds a list"),
        ("a.json", b'{"x": NaN}', "a.json: x is nan: is no number to reckon with"),
        ("a.json", b'{"x": 1, "x": 2}', "key 'x' is given twice"),
        ("a.json", b"7", "must hold a JSON object, holds a number"),
        ("a.json", b"[" * 100_000, "too deep"),
        ("a.json", b'{"x": ' + b"[" * 70 + b"]" * 70 + b"}", "over 64 deep"),
        ("a.json", b'{"x": ' + b"9" * 5000 + b"}", "not valid JSON"),
        ("a.json", b'{"x": ' + b"9" * 5000 + b"}", "a whole number has thousands of digits; 63 bits"),
        ("a.json", b'{"x": -' + b"9" * 400 + b"}", "a whole number of 1,329 bits"),
        ("a.json", b'{"x": [1e999]}', "x.0 is inf: is no number"),
        ("a.json", b'{"x": "\\ud800"}', "half of a character"),
        ("a.json", b'{"' + b"x" * 501 + b'": 1}', "a key of 501 characters"),
        ("a.json", b'{"x": "' + b"x" * 100_001 + b'"}', "a text of 100,001 characters"),
        ("a.json", b"{}" + b" " * (64 << 20), "has over 64 MiB"),
        ("a.json.gz", gzip.compress(b"{}" + b" " * (64 << 20), mtime=0), "has over 64 MiB"),
        ("a.json.gz", gzip.compress(b"\xff", mtime=0), "cannot be read as text"),
        ("a.toml", b"x = " + b"[" * 1500 + b"]" * 1500, "too deep"),
        ("a.toml", b".".join([b"x"] * 200) + b" = 1", "over 64 deep"),
        ("a.toml", b"x = " + b"9" * 5000, "not valid TOML"),
        ("a.toml", b"x = nan", "a.toml: x is nan: is no number"),
        ("a.toml", b"#" * (1 << 20) + b"\nx = 1", "has over 1 MiB"),
        ("a.json", b"\xff", "cannot be read as text"),
        ("a.json.gz", b"plain", "cannot be read as text"),
        ("a.json.gz", gzip.compress(b"{}", mtime=0)[:-9], "cannot be read as text"),
        ("a.toml", b"x = ", "not valid TOML"),
        ("a.toml", b"x = 1\nx = 2", "not valid TOML"),
    ],
)
def test_a_file_that_is_none_is_one_line(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileError, match=said) as caught:
        read_mapping(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


def test_a_file_or_folder_that_cannot_be_read(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        read_mapping(tmp_path / "none.toml")
    with pytest.raises(FileError, match="cannot be read as text"):
        read_mapping(tmp_path)


def test_another_format_is_refused_by_name():
    check_format({"format": "rephaze.graph/1"}, "rephaze.graph/1", "g.json")
    with pytest.raises(SpecError, match=r"g.json: format is None: must be 'rephaze.graph/1'"):
        check_format({}, "rephaze.graph/1", "g.json")


def test_a_flipped_bit_in_a_packed_file_is_one_line(tmp_path):
    packed = gzip.compress(b'{"x": [1, 2, 3, 4, 5, 6, 7, 8]}', mtime=0)
    path = tmp_path / "a.json.gz"
    for position in range(len(packed)):
        path.write_bytes(packed[:position] + bytes([packed[position] ^ 4]) + packed[position + 1 :])
        with suppress(FileError):
            assert read_mapping(path) == {"x": [1, 2, 3, 4, 5, 6, 7, 8]}  # flags and times of the header


def test_packed_files_may_be_of_several_parts(tmp_path):
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"x":') + gzip.compress(b"1}"))
    assert read_mapping(tmp_path / "a.json.gz") == {"x": 1}


@pytest.mark.parametrize("name", ["a\0.json", "a" * 5000 + ".json"])
def test_names_that_no_file_can_have(tmp_path, name):
    with pytest.raises(FileError, match="cannot be read as text"):
        read_mapping(tmp_path / name)
