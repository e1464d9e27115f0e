"""The soak with fixed seeds, in short; ``make soak`` goes on for an hour."""

import random
import subprocess
import sys

import pytest

from tests.kits.long_hunt import seldom
from tests.soak.episodes import EPISODES
from tests.soak.searches import METHODS, Search, SoakError, ended

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


WORKS_A_LITTLE = """
import time
for _ in range(12):
    until = time.process_time() + 0.03
    while time.process_time() < until:
        pass
    time.sleep(0.2)
"""


@pytest.fixture
def started(tmp_path):
    """Begins a Python text in the place of a search."""
    with (tmp_path / "out").open("w+") as out, (tmp_path / "err").open("w+") as errors:

        def start(text):
            process = subprocess.Popen([sys.executable, "-c", text])
            process.files = (out, errors)
            return process

        yield start


def test_a_starved_search_is_waited_for(started, monkeypatch):
    monkeypatch.setattr("tests.soak.searches.LONGEST_S", 1.0)
    monkeypatch.setattr("tests.soak.searches.LEAST_WORK_S", 0.02)
    monkeypatch.setattr("tests.soak.searches.NUM_WAITS", 60)
    assert ended(started(WORKS_A_LITTLE))[0] == 0


@pytest.mark.parametrize("text", ["import time; time.sleep(60)", "while True: pass", 60 * WORKS_A_LITTLE])
def test_a_search_that_hangs_is_told(started, monkeypatch, text):
    monkeypatch.setattr("tests.soak.searches.LONGEST_S", 0.8)
    monkeypatch.setattr("tests.soak.searches.LEAST_WORK_S", 0.02)
    monkeypatch.setattr("tests.soak.searches.NUM_WAITS", 3)
    process = started(text)
    with pytest.raises(SoakError, match="a search hangs"):
        ended(process)
    assert process.returncode == -9
