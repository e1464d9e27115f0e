"""The soak with fixed seeds, in short; ``make soak`` goes on for an hour."""

import random

import pytest

from tests.soak.episodes import EPISODES
from tests.soak.searches import METHODS, Search


@pytest.fixture(scope="module")
def searches(tmp_path_factory):
    found = {method: Search(method, tmp_path_factory.mktemp(method)) for method in METHODS}
    for search in found.values():
        search.prepare()
    return found


@pytest.mark.parametrize(
    ("method", "story"), [("list", "killed"), ("boxes", "killed"), ("list", "two writers"), ("boxes", "full disk")]
)
def test_a_disturbed_search_ends_as_an_undisturbed_one(searches, tmp_path, method, story):
    EPISODES[story](searches[method], tmp_path / "run", random.Random(24))
