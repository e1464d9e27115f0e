"""Designs bounded and solved on a Dask cluster (extra ``[dask]``): any machines, the same answer.

The scheduler hands tasks out again when a worker is lost, so a killed worker costs time only. A lost scheduler
ends the search with an error; what the driver had recorded by then is kept, and the run can be resumed.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rephaze.errors import MissingExtraError, RunError, SpecError
from rephaze.measure.model_bounds import ModelBounds, joined_bounds
from rephaze.search.workers.base import (
    PIECES_PER_WORKER,
    Patience,
    split_bounds,
    split_designs,
    trial_pieces,
)
from rephaze.search.workers.dask_tasks import (
    Reply,
    bound_designs,
    expand_boxes,
    forget,
    job_text,
    prepare,
    sharpen_designs,
    solve_box,
    solve_design,
    try_designs,
)
from rephaze.search.workers.packing import pack_bounds, pack_boxes, pack_goal, unpack_bounds, unpack_expansions
from rephaze.store.record_json import from_json
from rephaze.types.boxes import Expansion, Goal, OpenBox, Trial
from rephaze.types.search import Evaluation, SearchSettings, Unsettled
from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal
from rephaze.workload.zoo import ZOO_NAMES

Task = Callable[..., Reply]

PROTOCOLS = ("tcp", "tls", "ws", "wss", "ucx", "ucxx")
CONNECT_S = 10.0
PATIENCE_S = 300.0
"""How long a search waits for a worker when there is none."""
POLL_S = 2.0
"""Between two looks at the cluster while waiting for an answer."""
LEAST_POLL_S = 0.2
MAX_SUBMITS = 5
"""Dask gives a task up after a few workers died with it, though none did because of it: it is handed in again."""

_log = logging.getLogger(__name__)
_CHATTY_LOGGERS = ("distributed", "distributed.client", "tornado.application")


class DaskWorkers:
    """The workers of a Dask scheduler, as many as it has at any time.

    Args:
        settings: The search.
        address: Of the scheduler, for example ``tcp://127.0.0.1:8786``.
        patience_s: How long to wait for a worker when there is none.
        stop: When the work must end.
    """

    def __init__(
        self,
        settings: SearchSettings,
        address: str,
        patience_s: float = PATIENCE_S,
        stop: StopSignal = UNSTOPPED,
    ) -> None:
        self._address, self._patience_s = address, patience_s
        self._patience = Patience(stop)
        self._names = settings.models
        # Workers have folders of their own to start relative paths from.
        self._paths = tuple(name if name in ZOO_NAMES else str(Path(name).resolve()) for name in self._names)
        self._job = job_text(replace(settings, models=self._paths))
        self._levels = _quieten()
        try:
            self._client = _connect(address)
        except BaseException:
            _restore(self._levels)
            raise
        self._without_workers_since: float | None = None
        self._preparing = self._prepare()

    def unit_bounds(self, designs: Sequence[int]) -> list[ModelBounds]:
        """As ``SpaceEvaluator.unit_bounds``, split over the workers."""
        pieces = split_designs(designs, self._num_workers() * PIECES_PER_WORKER)
        return self._joined(self._replies(bound_designs, [(piece,) for piece in pieces]))

    def sharpened(self, designs: Sequence[int], bounds: list[ModelBounds], cutoff: float) -> list[ModelBounds]:
        """As ``SpaceEvaluator.sharpened``, split over the workers."""
        pieces = split_designs(designs, self._num_workers())
        calls = [
            (piece, [pack_bounds(one) for one in own], cutoff)
            for piece, own in zip(pieces, split_bounds(pieces, bounds), strict=True)
        ]
        return self._joined(self._replies(sharpen_designs, calls))

    def _joined(self, replies: Iterator[Reply | None]) -> list[ModelBounds]:
        found = []
        for reply in replies:
            if reply is None or "stopped" in reply:
                raise StoppedError
            found.append([unpack_bounds(own) for own in reply["bounds"]])
        return [joined_bounds(parts) for parts in zip(*found, strict=True)]

    def evaluate(
        self, designs: Sequence[int], bounds: Sequence[list[ModelBounds]], cutoff: float
    ) -> Iterator[Evaluation | Unsettled]:
        """Designs side by side; answers in the order asked."""
        calls = [
            (design, [pack_bounds(one) for one in own], cutoff)
            for design, own in zip(designs, bounds, strict=True)
        ]
        for design, reply in zip(designs, self._replies(solve_design, calls), strict=True):
            if reply is not None and "evaluation" in reply:
                yield self._as_named(from_json(Evaluation, json.loads(reply["evaluation"])))
            else:
                yield Unsettled(design=design, bound=(reply or {}).get("open_bound", math.inf))

    def expand(self, pieces: Sequence[Sequence[OpenBox]], goal: Goal) -> Iterator[list[Expansion] | None]:
        """As ``BoxEvaluator.expand``, pieces side by side; None for a piece that was cut."""
        calls = [(pack_boxes(piece), pack_goal(goal)) for piece in pieces]
        for reply in self._replies(expand_boxes, calls):
            if reply is None or "stopped" in reply:
                yield None
            else:
                yield unpack_expansions(reply["expansions"])

    def try_designs(self, boxes: Sequence[OpenBox], goal: Goal) -> list[Trial]:
        """As ``BoxEvaluator.try_designs``, pieces side by side."""
        calls = [(pack_boxes(piece), pack_goal(goal)) for piece in trial_pieces(boxes)]
        found: list[Trial] = []
        for reply in self._replies(try_designs, calls):
            if reply is None or "stopped" in reply:
                raise StoppedError
            found.extend(from_json(Trial, one) for one in json.loads(reply["trials"]))
        return found

    def solve(self, boxes: Sequence[OpenBox], goal: Goal) -> Iterator[Evaluation | Unsettled]:
        """Designs side by side; answers in the order asked. ``StoppedError`` for one nobody waits for."""
        calls = [(pack_boxes([box]), pack_goal(goal)) for box in boxes]
        for reply in self._replies(solve_box, calls):
            if reply is None or "stopped" in reply:
                raise StoppedError
            if "evaluation" in reply:
                yield self._as_named(from_json(Evaluation, json.loads(reply["evaluation"])))
            else:
                yield Unsettled(design=reply["design"], bound=reply["open_bound"])

    def close(self) -> None:
        """Let the cluster forget the search; the cluster itself stays."""
        import distributed

        detach: Callable[[Any], None] = distributed.fire_and_forget
        try:
            if self._client.status == "running":
                # Workers forget when they are done with what they are at: nobody waits for them.
                for worker in self._client.nthreads():
                    detach(self._client.submit(forget, self._job, workers=[worker], pure=False))
            self._client.close(timeout=CONNECT_S)
        except (OSError, RuntimeError):  # a scheduler that is gone has nothing left to forget
            pass
        finally:
            _restore(self._levels)

    def _replies(self, task: Task, calls: Sequence[tuple[Any, ...]]) -> Iterator[Reply | None]:
        """One reply a call, in order; None for one that nobody waits for any more."""
        futures = [self._submit(task, call) for call in calls]
        try:
            for number, call in enumerate(calls):
                try:
                    reply = self._reply(futures[number], task, call)
                except StoppedError:
                    yield None
                    continue
                if "refused" in reply:
                    raise RunError(f"a Dask worker cannot take part: {reply['refused']}")
                yield reply
        finally:
            for future in futures:
                future.release()

    def _reply(self, future: Any, task: Task, call: tuple[Any, ...]) -> Reply:
        from distributed.scheduler import KilledWorker

        for _ in range(MAX_SUBMITS):
            try:
                return self._result(future)
            except KilledWorker:
                future = self._submit(task, call)
        raise RunError(
            f"workers of {self._address} die again and again at the same task: killed, or out of memory "
            "(see their logs); resume the run with --resume"
        )

    def _result(self, future: Any) -> Reply:
        from distributed import CancelledError

        while True:
            # Of many tasks the next is often done a moment after the one before: the deadline is looked at anyway.
            if not future.done():
                self._patience.check()
            # Soon after the deadline it is known whether a worker answers.
            wait_s = min(POLL_S, max(self._patience.stop.time_left_s(), LEAST_POLL_S))
            try:
                reply: Reply = future.result(timeout=wait_s)
            except TimeoutError:
                self._patience.check()
                self._num_workers()
                continue
            except (CancelledError, OSError) as error:
                raise self._lost() from error
            except (ImportError, AttributeError) as error:
                raise RunError(
                    f"a Dask worker cannot run this search ({error}): install the same rephaze there"
                ) from error
            self._without_workers_since = None
            return reply

    def _prepare(self) -> list[Any]:
        """Have workers make ready while the driver does too; who comes later does so with its first task."""
        try:
            return [self._submit(prepare, (), workers=[worker]) for worker in self._client.nthreads()]
        except (OSError, TimeoutError, RuntimeError, RunError):  # told when there is work to be done
            return []

    def _submit(self, task: Task, call: tuple[Any, ...], **where: Any) -> Any:
        try:
            # Not pure: a task's name must not depend on its arguments, or another run's answer might be reused.
            left_s = self._patience.stop.time_left_s()
            return self._client.submit(task, self._job, *call, left_s, pure=False, **where)
        except (OSError, RuntimeError) as error:  # the client closed itself
            raise self._lost() from error

    def _num_workers(self) -> int:
        """Worker processes there are now; waits for the first, and gives up in the end."""
        while True:
            if self._client.status != "running":
                raise self._lost()
            try:
                num_workers = len(self._client.nthreads())
            except (OSError, TimeoutError, RuntimeError) as error:
                raise self._lost() from error
            now = time.monotonic()
            if num_workers:
                self._without_workers_since = None
                return num_workers
            if self._without_workers_since is None:
                self._without_workers_since = now
                _log.warning(
                    "%s has no workers; waiting %.0f s for one (dask worker %s)",
                    self._address,
                    self._patience_s,
                    self._address,
                )
            if now - self._without_workers_since > self._patience_s:
                raise RunError(
                    f"{self._address} has had no workers for {self._patience_s:.0f} s; "
                    f"start some (dask worker {self._address}) and resume the run with --resume"
                )
            self._patience.check()
            time.sleep(min(POLL_S, self._patience_s / 4, max(self._patience.stop.time_left_s(), LEAST_POLL_S)))

    def _as_named(self, found: Evaluation) -> Evaluation:
        """Models by the names the user gave, as every other run has them."""
        plans = tuple(replace(plan, model=name) for plan, name in zip(found.plans, self._names, strict=False))
        reason = found.reason
        for path, name in zip(self._paths, self._names, strict=True):
            reason = reason.replace(path, name)
        return replace(found, plans=plans, reason=reason)

    def _lost(self) -> RunError:
        return RunError(
            f"the Dask scheduler at {self._address} was lost; a recorded run goes on with --resume, "
            "here or on another scheduler"
        )


def _connect(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtraError(
            "a search on a cluster needs Dask: pip install 'rephaze[dask]', or leave --dask out"
        ) from None
    _check_address(address)
    try:
        return Client(address, timeout=CONNECT_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError):
        # The address may be right and the scheduler lost a moment ago: no misuse, but like one lost on the way.
        raise RunError(
            f"no Dask scheduler answers at {address!r} within {CONNECT_S:.0f} s; "
            "start one (dask scheduler), or give the address it printed"
        ) from None


def _check_address(address: str) -> None:
    rule, fix = "must be the address of a Dask scheduler", "for example tcp://127.0.0.1:8786"
    try:
        parts = urlsplit(address)
        is_whole = parts.scheme in PROTOCOLS and parts.hostname is not None and parts.port is not None
    except ValueError:
        is_whole = False
    if not is_whole:
        raise SpecError("dask", address, rule, fix)


def _quieten() -> dict[str, int]:
    """Levels of Dask's loggers before they were raised: what matters of a lost connection is in our errors."""
    try:
        import distributed  # noqa: F401  sets the levels as it is imported
    except ImportError:
        return {}
    before = {name: logging.getLogger(name).level for name in _CHATTY_LOGGERS}
    for name in before:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return before


def _restore(levels: dict[str, int]) -> None:
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
