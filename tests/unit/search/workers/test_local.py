"""A pool of processes on this machine."""

from contextlib import contextmanager

from rephaze.search.workers.local import LocalProcesses
from tests.kits.workers_kit import WorkersKit


class TestLocalProcesses(WorkersKit):
    @classmethod
    @contextmanager
    def start(cls, request, settings, stop):
        yield LocalProcesses(settings, 2, stop)
