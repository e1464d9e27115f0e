"""Differences are shown where they are."""

import pytest

from rephaze.store.difference import differences


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
