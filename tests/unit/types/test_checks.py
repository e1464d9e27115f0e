"""Checks say field, value, rule and fix."""

import math

import numpy as np
import pytest

from rephaze.errors import SpecError
from rephaze.types.checks import check_choice, check_count, check_number, did_you_mean, under


@pytest.mark.parametrize("value", [1, 5, 9])
def test_a_count_within_its_limits_passes(value):
    check_count("num_cores", value, at_least=1, at_most=9)


@pytest.mark.parametrize("value", [True, 1.0, "1", None, math.nan, np.int64(1)])
def test_a_count_is_pythons_whole_number(value):
    with pytest.raises(SpecError, match=r"^num_cores is .*: must be a whole number$"):
        check_count("num_cores", value)


@pytest.mark.parametrize("value", [0, 10])
def test_a_count_outside_its_limits_is_told_them(value):
    with pytest.raises(SpecError, match=f"^num_cores is {value}: must be from 1 to 9$"):
        check_count("num_cores", value, at_most=9)


@pytest.mark.parametrize("value", [0, 0.5, 2.0])
def test_a_number_within_its_limits_passes(value):
    check_number("load_share", value, at_most=2.0)


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (True, "must be a number"),
        ("1", "must be a number"),
        (None, "must be a number"),
        (math.nan, "must be finite"),
        (math.inf, "must be finite"),
        (-0.1, "must be at least 0 and at most 2"),
        (2.1, "must be at least 0 and at most 2"),
    ],
)
def test_a_number_that_is_none_is_told_with_the_fix(value, rule):
    with pytest.raises(SpecError, match=f"^load_share is {value!r}: {rule}; give a part of one$"):
        check_number("load_share", value, at_most=2.0, fix="give a part of one")


def test_without_an_upper_limit_none_is_said():
    with pytest.raises(SpecError, match=r"must be at least 0$"):
        check_number("batch_s", -1.0)


def test_a_choice_lists_all_and_proposes_the_nearest():
    check_choice("optimizer", "sgd", ["sgd", "adam"])
    with pytest.raises(SpecError) as caught:
        check_choice("optimizer", "adem", ["sgd", "adam"])
    assert str(caught.value) == "optimizer is 'adem': must be one of sgd, adam; did you mean 'adam'?"


def test_nothing_is_proposed_for_what_resembles_nothing():
    assert did_you_mean("zzzz", ["sgd", "adam"]) == ""
    assert did_you_mean(7, ["sgd", "adam"]) == ""


def test_a_prefix_is_put_before_the_field_and_all_else_is_kept():
    with pytest.raises(SpecError) as caught, under("run.toml: "), under("space."):
        raise SpecError("hbm", 5, "must be text", "write hbm3")
    assert str(caught.value) == "run.toml: space.hbm is 5: must be text; write hbm3"
    assert (caught.value.field, caught.value.value) == ("run.toml: space.hbm", 5)


def test_other_errors_pass_a_prefix_unchanged():
    with pytest.raises(KeyError, match="hbm"), under("run.toml: "):
        raise KeyError("hbm")
