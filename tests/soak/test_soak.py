"""The soak with fixed seeds, in short; ``make soak`` goes on for an hour."""

import random

import pytest

from tests.kits.long_hunt import seldom
from tests.soak.episodes import EPISODES
from tests.soak.searches import METHODS, Search

CASES = [("list", "killed"), ("boxes", "killed"), ("list", "two writers"), ("boxes", "full disk")]
EVERY_TIME = [("boxes", "killed"), ("list", "two writers")]


@pytest.fixture(scope="module")
def searches(tmp_path_factory):
    """By method, each prepared when it is first asked for."""
    found = {}

    def search(method):
        if method not in found:
            found[method] = Search(method, tmp_path_factory.mktemp(method))
            found[method].prepare()
        return found[method]

    assert set(METHODS) == {method for method, _ in CASES}
    return search


@pytest.mark.parametrize(("method", "story"), seldom(CASES, lambda case: case in EVERY_TIME))
def test_a_disturbed_search_ends_as_an_undisturbed_one(searches, tmp_path, method, story):
    EPISODES[story](searches(method), tmp_path / "run", random.Random(24))
