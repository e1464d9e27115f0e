"""A mapping that forgets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rephaze.recent import Recent


def test_it_never_holds_more_than_it_may_and_always_the_latest_half():
    recent = Recent(10)
    for at in range(100):
        recent[at] = -at
        assert len(recent) <= 10
        assert all(recent[one] == -one for one in range(max(0, at - 4), at + 1))
    assert 0 not in recent


def test_what_is_asked_for_stays():
    recent = Recent(10)
    for at in range(100):
        recent[at] = at
        assert recent.get(0) == 0
    assert 1 not in recent
    assert recent.get(1) is None
    assert recent.get(1, 7) == 7


def test_looking_without_asking_keeps_nothing():
    recent = Recent(4)
    for at in range(20):
        recent[at] = at
        assert len(dict(recent)) == len(recent)
    assert 0 not in recent
    with pytest.raises(KeyError):
        recent[0]


@given(st.lists(st.tuples(st.sampled_from("psgd"), st.integers(0, 12)), max_size=200))
def test_what_it_holds_is_what_was_put_in_last(steps):
    """Against a dictionary: it may have forgotten, but never tells anything else."""
    recent, whole = Recent(8), {}
    for number, (what, key) in enumerate(steps):
        if what in "ps":
            recent[key] = whole[key] = number
        elif what == "g":
            assert recent.get(key) in (None, whole.get(key))
        elif key in recent:
            del recent[key]
            del whole[key]
        assert all(whole[one] == value for one, value in recent.items())
        assert len(recent) == len(set(recent)) <= 8
