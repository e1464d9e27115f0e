"""Work done in the driver's own process."""

from contextlib import contextmanager

from rephaze.search.workers.base import InProcess, make_evaluator
from tests.kits.workers_kit import WorkersKit


class TestInProcess(WorkersKit):
    @classmethod
    @contextmanager
    def start(cls, request, settings, stop):
        yield InProcess(make_evaluator(settings), stop)
