"""The soak with fixed seeds, in short; ``make soak`` goes on for an hour."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kits.long_hunt import seldom
from tests.kits.processor_time import processor_s
from tests.soak.episodes import EPISODES
from tests.soak.searches import LONGEST_S, METHODS, NUM_WAITS, Search, SoakError, wait_for

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


class Unending:
    """In the place of a process: ends at a wait, if at all, and has worked so much by each."""

    pid = 1

    def __init__(self, errors, worked_s, ends_after=None):
        self.files = (None, errors)
        self.worked_s, self.ends_after, self.num_waits, self.signals = worked_s, ends_after, 0, []

    def wait(self, timeout=None):
        if timeout is None or self.num_waits == self.ends_after:
            return 0
        self.num_waits += 1
        raise subprocess.TimeoutExpired("search", timeout)

    def send_signal(self, number):
        self.signals.append(number)
        Path(self.files[1].name).write_text("File run.py, line 7")

    def kill(self):
        self.signals.append(signal.SIGKILL)


@pytest.fixture
def unending(tmp_path, monkeypatch):
    with (tmp_path / "err").open("w+") as errors:

        def made(worked_s, ends_after=None):
            process = Unending(errors, worked_s, ends_after)
            monkeypatch.setattr("tests.soak.searches.processor_s", lambda pid: worked_s[process.num_waits - 1])
            return process

        yield made


def test_a_starved_search_is_waited_for(unending):
    process = unending([4.0, 8.0, 11.0], ends_after=3)
    assert wait_for(process) == 0
    assert not process.signals


@pytest.mark.parametrize(
    "worked_s", [[0.0], [5.0, 5.5], [LONGEST_S + 1], [4.0 * n for n in range(1, NUM_WAITS + 2)]]
)
def test_a_search_that_hangs_says_where_and_is_killed(unending, worked_s):
    process = unending(worked_s)
    with pytest.raises(SoakError, match=r"a search hangs.* of a processor; File run\.py, line 7"):
        wait_for(process)
    assert process.num_waits == min(len(worked_s), NUM_WAITS) + 1, "the last one for what it says"
    assert process.signals == [signal.SIGABRT, signal.SIGKILL]


def test_processor_time_is_of_all_that_was_started():
    work = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True); input()"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}])"
    with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"done\n"
        assert 0.28 <= processor_s(process.pid) < 30
        process.stdin.write(b"\n")
