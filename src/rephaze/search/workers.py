"""Who bounds and solves: this process, a pool of processes on this machine, or a Dask cluster.

The unit of work is a list of designs; answers are plain records in the order asked, so that a search gives the
same result with any number of workers.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Protocol

from rephaze.errors import RunError
from rephaze.search.bounding import ModelBounds, joined_bounds
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.warmup import WARM_UPS, use_one_thread
from rephaze.types.search import Evaluation, SearchSettings

PIECES_PER_WORKER = 2


class Workers(Protocol):
    """Bounds and solves designs."""

    def unit_bounds(self, designs: Sequence[int]) -> list[ModelBounds]:
        """As ``SpaceEvaluator.unit_bounds``."""
        ...

    def evaluate(
        self, designs: Sequence[int], bounds: Sequence[list[ModelBounds]], cutoff: float
    ) -> Iterator[Evaluation]:
        """As ``SpaceEvaluator.evaluate``, one design after another."""
        ...

    def close(self) -> None:
        """Let the workers go."""
        ...


class InProcess:
    """Everything in this process."""

    def __init__(self, evaluator: SpaceEvaluator) -> None:
        self._evaluator = evaluator

    def unit_bounds(self, designs: Sequence[int]) -> list[ModelBounds]:
        """As ``SpaceEvaluator.unit_bounds``."""
        return self._evaluator.unit_bounds(designs)

    def evaluate(
        self, designs: Sequence[int], bounds: Sequence[list[ModelBounds]], cutoff: float
    ) -> Iterator[Evaluation]:
        """One design after another."""
        for design, own in zip(designs, bounds, strict=True):
            yield self._evaluator.evaluate(design, own, cutoff)

    def close(self) -> None:
        """Nothing to let go."""


class LocalProcesses:
    """A pool of processes, each with an evaluator of its own.

    Args:
        settings: The search.
        num_workers: Processes.
    """

    def __init__(self, settings: SearchSettings, num_workers: int) -> None:
        self.num_workers = num_workers
        self._pool: Executor = ProcessPoolExecutor(
            num_workers, mp_context=get_context("spawn"), initializer=_start, initargs=(settings,)
        )
        # A terminal sends Ctrl-C to every process: workers are born with it blocked, since it is the driver's to
        # handle, and a worker still importing would end with a traceback. One call starts one worker.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            # Each worker compiles (or loads) other kernels; all find the rest in the cache afterwards.
            for number in range(num_workers):
                self._pool.submit(_warm, number % len(WARM_UPS))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def unit_bounds(self, designs: Sequence[int]) -> list[ModelBounds]:
        """As ``SpaceEvaluator.unit_bounds``, split over the workers."""
        pieces = split_designs(designs, self.num_workers * PIECES_PER_WORKER)
        try:
            found = list(self._pool.map(_unit_bounds, pieces))
        except BrokenProcessPool as error:
            raise _lost() from error
        return [joined_bounds(parts) for parts in zip(*found, strict=True)]

    def evaluate(
        self, designs: Sequence[int], bounds: Sequence[list[ModelBounds]], cutoff: float
    ) -> Iterator[Evaluation]:
        """Designs side by side; answers in the order asked."""
        try:
            yield from self._pool.map(_evaluate, designs, bounds, [cutoff] * len(designs))
        except BrokenProcessPool as error:
            raise _lost() from error

    def close(self) -> None:
        """End the processes; work not begun is given up."""
        # Python would wait for them at exit anyway, where Ctrl-C is a traceback.
        self._pool.shutdown(wait=True, cancel_futures=True)


def start_workers(
    settings: SearchSettings, evaluator: SpaceEvaluator, num_workers: int, dask: str | None = None
) -> Workers:
    """Workers for a search: those of a Dask scheduler, or processes here; one works in this process."""
    if dask is not None:
        from rephaze.search.dask_workers import DaskWorkers

        return DaskWorkers(settings, dask)
    return InProcess(evaluator) if num_workers <= 1 else LocalProcesses(settings, num_workers)


_evaluator: SpaceEvaluator | None = None
"""Of a worker process."""


def _start(settings: SearchSettings) -> None:
    global _evaluator
    use_one_thread()
    Thread(target=_end_with_the_driver, daemon=True).start()
    _evaluator = SpaceEvaluator(settings)


def _warm(number: int) -> None:
    WARM_UPS[number]()


def _end_with_the_driver() -> None:
    """End this process when the driver is gone: a pool's worker would wait for work for ever."""
    driver = parent_process()
    assert driver is not None
    driver.join()
    os._exit(1)


def _unit_bounds(designs: list[int]) -> list[ModelBounds]:
    assert _evaluator is not None
    return _evaluator.unit_bounds(designs)


def _evaluate(design: int, bounds: list[ModelBounds], cutoff: float) -> Evaluation:
    assert _evaluator is not None
    return _evaluator.evaluate(design, bounds, cutoff)


def split_designs(designs: Sequence[int], num_pieces: int) -> list[list[int]]:
    """The designs in order, in at most so many pieces of about the same size."""
    size = max(1, -(-len(designs) // num_pieces))
    return [list(designs[start : start + size]) for start in range(0, len(designs), size)]


def _lost() -> RunError:
    return RunError("a worker process was lost (killed, or out of memory); resume the run with --resume")
