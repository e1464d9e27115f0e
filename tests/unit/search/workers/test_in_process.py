"""Work done in the driver's own process."""

from contextlib import contextmanager

from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.workers.base import InProcess
from tests.kits.workers_kit import WorkersKit


class TestInProcess(WorkersKit):
    @classmethod
    @contextmanager
    def start(cls, request, settings, stop):
        yield InProcess(SpaceEvaluator(settings), stop)
