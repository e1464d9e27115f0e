"""Differences are shown where they are."""

import pytest

from rephaze.store.difference import differences, shortened


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ({"a": 1, "b": {"c": [1, 2]}}, {"b": {"c": [1, 2]}, "a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a: 1 in the run, 2 now"]),
        ({"a": True}, {"a": 1}, ["a: true in the run, 1 now"]),
        ({"a": {"b": "x"}}, {"a": {"b": "y"}}, ['a.b: "x" in the run, "y" now']),
        ({"a": 1}, {"b": 1}, ["a: 1 in the run, absent now", "b: absent in the run, 1 now"]),
        ({"a": [1, 2]}, {"a": [1, 3]}, ["a: [1, 2] in the run, [1, 3] now"]),
        ({"a": None}, {"a": [1]}, ["a: null in the run, [1] now"]),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, ["a[0].b: 1 in the run, 2 now"]),
        (
            {"a": [{"b": 1}]},
            {"a": [{"b": 2}, {"b": 1}]},
            ["a: 1 entries in the run, 2 now", "a[0].b: 1 in the run, 2 now"],
        ),
        ({"a": list(range(99))}, {"a": [*range(98), 7]}, ["a[98]: 98 in the run, 7 now"]),
    ],
)
def test_one_line_a_field(before, after, lines):
    assert differences(before, after) == lines


def test_long_texts_are_shown_where_they_part():
    (line,) = differences({"a": "x" * 500 + "1"}, {"a": "x" * 500 + "2"})
    assert "1" in line
    assert "2" in line
    assert len(line) < 200


def test_a_long_list_that_only_grew_says_so():
    assert differences({"a": list(range(50))}, {"a": list(range(51))}) == ["a: 50 entries in the run, 51 now"]


def test_few_differences_are_all_told():
    assert shortened(["a: 1 in the run, 2 now", "b: 3 in the run, 4 now"]) == [
        "a: 1 in the run, 2 now",
        "b: 3 in the run, 4 now",
    ]
    assert shortened([]) == []


def test_many_differences_stay_two_lines():
    lines = differences({}, {f"field_{i}": i for i in range(1002)})
    assert shortened(lines) == [
        "field_0: absent in the run, 0 now",
        "field_1: absent in the run, 1 now; and 1,000 more: field_2, field_3, field_4, field_5, field_6, ...",
    ]
    assert shortened(lines[:3])[-1].endswith("; and 1 more: field_2")


def test_a_list_is_told_by_its_first_difference():
    before, after = {"a": [{"b": 1}] * 9, "c[x]": 1, "d": [[1]]}, {"a": [{"b": 2}] * 9, "c[x]": 2, "d": [[2]]}
    assert shortened(differences(before, after)) == [
        "a[0].b: 1 in the run, 2 now",
        "c[x]: 1 in the run, 2 now; and 1 more: d",
    ]
