"""Replies of a scheduler that come one after the other, and a deadline meanwhile."""

import time

import pytest

from rephaze.search.workers import base
from rephaze.search.workers.base import Patience
from rephaze.search.workers.dask import DaskWorkers
from rephaze.types.stopping import StopSignal


class Reply:
    """Of a task that is done a moment after it is asked for."""

    def __init__(self, is_done):
        self.is_done = is_done

    def done(self):
        return self.is_done

    def result(self, timeout):
        assert timeout >= 0
        return {"expansions": {}}

    def release(self):
        pass


@pytest.fixture
def late(monkeypatch):
    """Workers that must have stopped long ago."""
    monkeypatch.setattr(base, "STOP_GRACE_S", -1.0)
    workers = DaskWorkers.__new__(DaskWorkers)
    workers._patience = Patience(StopSignal(time.perf_counter() - 1.0))
    workers._without_workers_since = None
    return workers


def test_what_is_not_done_by_then_is_waited_for_no_more(late, monkeypatch):
    # Each would be there in a moment: one after the other they would outlast any deadline.
    monkeypatch.setattr(late, "_submit", lambda _task, call: Reply(is_done=call[0]), raising=False)
    found = list(late._replies(None, [(True,), (False,), (True,), (False,)]))
    assert [reply is None for reply in found] == [False, True, False, True]
