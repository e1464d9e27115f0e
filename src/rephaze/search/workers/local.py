"""A pool of processes on this machine that bounds and solves designs."""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from threading import Thread
from types import ModuleType
from typing import Any, TypeVar

from rephaze.errors import RunError
from rephaze.measure.model_bounds import ModelBounds, joined_bounds
from rephaze.search.workers.base import (
    PIECES_PER_WORKER,
    InProcess,
    Patience,
    make_evaluator,
    split_bounds,
    split_designs,
    trial_pieces,
)
from rephaze.search.workers.warmup import NUM_PARTS, use_one_thread, warm_part
from rephaze.types.boxes import Expansion, Goal, OpenBox, Trial
from rephaze.types.search import Evaluation, SearchSettings, Unsettled
from rephaze.types.stopping import StoppedError, StopSignal

POLL_S = 0.1
"""Between two looks at the stop signal while waiting for an answer."""
GO_ON, STOP, LEAVE = range(3)
"""What the driver wants of its processes: work, end the task at hand, end at once."""

ReplyT = TypeVar("ReplyT")


class LocalProcesses:
    """A pool of processes, each with an evaluator of its own.

    Args:
        settings: The search.
        num_workers: Processes.
        stop: When they must.
    """

    def __init__(self, settings: SearchSettings, num_workers: int, stop: StopSignal) -> None:
        self.num_workers, self._patience = num_workers, Patience(stop)
        context = get_context("spawn")
        # One byte of shared memory without a lock: a process that is killed can hold none.
        self._order = context.RawValue("b", GO_ON)
        self._pool: Executor = ProcessPoolExecutor(
            num_workers, mp_context=context, initializer=_start, initargs=(settings, stop.deadline_s, self._order)
        )
        self._asked: list[Future[Any]] = []
        # A terminal sends Ctrl-C to every process: workers are born with it blocked, since it is the driver's to
        # handle, and a worker still importing would end with a traceback. One call starts one worker.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            # Each worker compiles (or loads) other kernels; all find the rest in the cache afterwards.
            model = settings.scenario.placement_model
            with _without_main():
                self._warming = [
                    self._pool.submit(warm_part, number % NUM_PARTS, model)
                    for number in range(max(num_workers, NUM_PARTS))
                ]
                self._warming += [self._pool.submit(_make_ready) for _ in range(num_workers)]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def unit_bounds(self, designs: Sequence[int]) -> list[ModelBounds]:
        """As ``SpaceEvaluator.unit_bounds``, split over the workers."""
        pieces = split_designs(designs, self.num_workers * PIECES_PER_WORKER)
        return self._joined(self._submit(_unit_bounds, [(piece,) for piece in pieces]))

    def sharpened(self, designs: Sequence[int], bounds: list[ModelBounds], cutoff: float) -> list[ModelBounds]:
        """As ``SpaceEvaluator.sharpened``, split over the workers."""
        pieces = split_designs(designs, self.num_workers)
        calls = [(piece, own, cutoff) for piece, own in zip(pieces, split_bounds(pieces, bounds), strict=True)]
        return self._joined(self._submit(_sharpened, calls))

    def evaluate(
        self, designs: Sequence[int], bounds: Sequence[list[ModelBounds]], cutoff: float
    ) -> Iterator[Evaluation | Unsettled]:
        """Designs side by side; answers in the order asked."""
        calls = [(design, own, cutoff) for design, own in zip(designs, bounds, strict=True)]
        for design, asked in zip(designs, self._submit(_evaluate, calls), strict=True):
            try:
                yield self._reply(asked)
            except StoppedError:
                yield Unsettled(design=design, bound=math.inf)

    def expand(self, pieces: Sequence[Sequence[OpenBox]], goal: Goal) -> Iterator[list[Expansion] | None]:
        """As ``BoxEvaluator.expand``, pieces side by side; None for a piece that was cut."""
        for asked in self._submit(_expand, [(piece, goal) for piece in pieces]):
            try:
                yield self._reply(asked)
            except StoppedError:
                yield None

    def try_designs(self, boxes: Sequence[OpenBox], goal: Goal) -> list[Trial]:
        """As ``BoxEvaluator.try_designs``, pieces side by side."""
        found: list[Trial] = []
        for asked in self._submit(_try_designs, [(piece, goal) for piece in trial_pieces(boxes)]):
            trials = self._reply(asked)
            if trials is None:
                raise StoppedError
            found.extend(trials)
        return found

    def solve(self, boxes: Sequence[OpenBox], goal: Goal) -> Iterator[Evaluation | Unsettled]:
        """Designs side by side; answers in the order asked. ``StoppedError`` for one nobody waits for."""
        for asked in self._submit(_solve, [(box, goal) for box in boxes]):
            yield self._reply(asked)

    def _joined(self, pieces: Sequence[Future[list[ModelBounds] | None]]) -> list[ModelBounds]:
        found = []
        for asked in pieces:
            bounds = self._reply(asked)
            if bounds is None:
                raise StoppedError
            found.append(bounds)
        return [joined_bounds(parts) for parts in zip(*found, strict=True)]

    def close(self) -> None:
        """End the processes; work not begun is given up, and so is work at hand."""
        if not all(future.done() for future in (*self._warming, *self._asked)):
            self._order.value = LEAVE
        # Python would wait for them at exit anyway, where Ctrl-C is a traceback.
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _submit(self, task: Callable[..., ReplyT], calls: Sequence[tuple[Any, ...]]) -> list[Future[ReplyT]]:
        try:
            asked = [self._pool.submit(task, *call) for call in calls]
        except BrokenProcessPool as error:
            raise _lost() from error
        self._asked = [*asked]
        return asked

    def _reply(self, asked: Future[ReplyT]) -> ReplyT:
        while True:
            try:
                return asked.result(timeout=POLL_S)
            except BrokenProcessPool as error:
                raise _lost() from error
            except TimeoutError:
                if self._patience.stop.is_over():
                    self._order.value = STOP
                self._patience.check()


@contextmanager
def _without_main() -> Iterator[None]:
    """Have processes start without running the caller's script: they need nothing of it.

    A process that is spawned imports the main module of its parent first. A script without a main guard would so
    start its search once more in every worker.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


_worker: InProcess | None = None
"""Of a worker process."""


def _start(settings: SearchSettings, deadline_s: float, order: Any) -> None:
    global _worker
    use_one_thread()
    Thread(target=_end_with_the_driver, args=(order,), daemon=True).start()
    _worker = InProcess(make_evaluator(settings), StopSignal(deadline_s, lambda: order.value != GO_ON))


def _make_ready() -> None:
    assert _worker is not None
    _worker.make_ready()


def _end_with_the_driver(order: Any) -> None:
    """End this process when the driver wants it to, or is gone: a pool's worker would wait for work for ever."""
    driver = parent_process()
    assert driver is not None
    while order.value != LEAVE and driver.is_alive():
        driver.join(POLL_S)
    os._exit(1)


def _unit_bounds(designs: list[int]) -> list[ModelBounds] | None:
    """None if it had to stop: exceptions do not travel well."""
    assert _worker is not None
    try:
        return _worker.unit_bounds(designs)
    except StoppedError:
        return None


def _sharpened(designs: list[int], bounds: list[ModelBounds], cutoff: float) -> list[ModelBounds] | None:
    assert _worker is not None
    try:
        return _worker.sharpened(designs, bounds, cutoff)
    except StoppedError:
        return None


def _evaluate(design: int, bounds: list[ModelBounds], cutoff: float) -> Evaluation | Unsettled:
    assert _worker is not None
    return next(_worker.evaluate([design], [bounds], cutoff))


def _expand(boxes: Sequence[OpenBox], goal: Goal) -> list[Expansion] | None:
    assert _worker is not None
    try:
        return _worker.expand_piece(boxes, goal)
    except StoppedError:
        return None


def _try_designs(boxes: Sequence[OpenBox], goal: Goal) -> list[Trial] | None:
    assert _worker is not None
    try:
        return _worker.try_piece(boxes, goal)
    except StoppedError:
        return None


def _solve(box: OpenBox, goal: Goal) -> Evaluation | Unsettled:
    assert _worker is not None
    return next(_worker.solve([box], goal))


def _lost() -> RunError:
    return RunError("a worker process was lost (killed, or out of memory); resume the run with --resume")
