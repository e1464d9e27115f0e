"""What a Dask worker runs: designs in, plain records out.

Arguments and replies are text, numbers and bytes only. A job's text says all a worker must know, so any worker
can take any task, also one that joined late or took the place of a lost one; what it prepares for a job it
keeps for the next task. What keeps a worker from taking part is a reply too: exceptions do not travel well.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from rephaze.errors import RephazeError, RunError
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.provenance import versions_of
from rephaze.search.system_evaluator import AnyBoxEvaluator
from rephaze.search.workers.base import make_evaluator
from rephaze.search.workers.packing import (
    PackedBounds,
    PackedBoxes,
    pack_bounds,
    pack_expansions,
    unpack_bounds,
    unpack_boxes,
    unpack_goal,
)
from rephaze.search.workers.warmup import use_one_thread
from rephaze.store.record_json import canonical_text, from_json, json_text, to_json
from rephaze.types.run_record import RunVersions
from rephaze.types.search import SearchSettings, Unsettled
from rephaze.types.stopping import StoppedError, StopSignal

Reply = dict[str, Any]
"""``refused`` (why), ``stopped`` (out of time), or what was asked for: ``bounds``, ``evaluation``, or
``open_bound`` of a design left unsettled."""

MAX_JOBS = 2
"""Jobs a worker keeps ready: a driver that was killed never says that it is done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A search as workers know it."""

    settings: SearchSettings
    """Graph files by absolute path."""
    versions: RunVersions
    """Of the driver: other libraries or another rephaze might give other numbers."""
    code_digest: str


def job_text(settings: SearchSettings) -> str:
    """The job of a search as the driver sends it along with every task."""
    return canonical_text(to_json(_job(settings)))


def prepare(job: str, time_left_s: float = math.inf) -> Reply:
    """Nothing but that the worker is ready for the job.

    Args:
        job: The search.
        time_left_s: From now: clocks of two machines need not agree.
    """
    return _answered_by_any(job, lambda _evaluator, _stop: {}, time_left_s)


def bound_designs(job: str, designs: Sequence[int], time_left_s: float = math.inf) -> Reply:
    """``bounds``: what ``SpaceEvaluator.unit_bounds`` gives, by model, packed.

    Args:
        job: The search.
        designs: Positions in the space.
        time_left_s: From now: clocks of two machines need not agree.
    """

    def bound(evaluator: SpaceEvaluator, stop: StopSignal) -> Reply:
        return {"bounds": [pack_bounds(own) for own in evaluator.unit_bounds(designs, stop)]}

    return _answered(job, bound, time_left_s)


def sharpen_designs(
    job: str, designs: Sequence[int], bounds: Sequence[PackedBounds], cutoff: float, time_left_s: float = math.inf
) -> Reply:
    """``bounds``: what ``SpaceEvaluator.sharpened`` gives, by model, packed.

    Args:
        job: The search.
        designs: Positions in the space.
        bounds: For each model, those of these designs, packed.
        cutoff: The incumbent's objective.
        time_left_s: From now.
    """

    def sharpen(evaluator: SpaceEvaluator, stop: StopSignal) -> Reply:
        found = evaluator.sharpened(designs, [unpack_bounds(own) for own in bounds], cutoff, stop)
        return {"bounds": [pack_bounds(own) for own in found]}

    return _answered(job, sharpen, time_left_s)


def solve_design(
    job: str, design: int, bounds: Sequence[PackedBounds], cutoff: float, time_left_s: float = math.inf
) -> Reply:
    """``evaluation``: the text of what ``SpaceEvaluator.evaluate`` gives.

    Args:
        job: The search.
        design: Position in the space.
        bounds: For each model, those of this design alone, packed.
        cutoff: The incumbent's objective.
        time_left_s: From now.
    """

    def solve(evaluator: SpaceEvaluator, stop: StopSignal) -> Reply:
        found = evaluator.evaluate(design, [unpack_bounds(own) for own in bounds], cutoff, stop)
        if isinstance(found, Unsettled):
            return {"open_bound": found.bound}
        return {"evaluation": json_text(to_json(found))}

    return _answered(job, solve, time_left_s)


def expand_boxes(job: str, boxes: PackedBoxes, goal: str, time_left_s: float = math.inf) -> Reply:
    """``expansions``: what ``BoxEvaluator.expand`` gives, packed.

    Args:
        job: The search.
        boxes: What ``pack_boxes`` made.
        goal: What ``pack_goal`` made.
        time_left_s: From now.
    """

    def expand(evaluator: AnyBoxEvaluator, stop: StopSignal) -> Reply:
        found = evaluator.expand(unpack_boxes(boxes), unpack_goal(goal), stop)
        return {"expansions": pack_expansions(found)}

    return _answered_by_boxes(job, expand, time_left_s)


def try_designs(job: str, boxes: PackedBoxes, goal: str, time_left_s: float = math.inf) -> Reply:
    """``trials``: the text of what ``BoxEvaluator.try_designs`` gives.

    Args:
        job: The search.
        boxes: What ``pack_boxes`` made of designs.
        goal: What ``pack_goal`` made.
        time_left_s: From now.
    """

    def try_them(evaluator: AnyBoxEvaluator, stop: StopSignal) -> Reply:
        found = evaluator.try_designs(unpack_boxes(boxes), unpack_goal(goal), stop)
        return {"trials": json_text([to_json(one) for one in found])}

    return _answered_by_boxes(job, try_them, time_left_s)


def solve_box(job: str, boxes: PackedBoxes, goal: str, time_left_s: float = math.inf) -> Reply:
    """``evaluation``: the text of what ``BoxEvaluator.solve`` gives for the one box.

    Args:
        job: The search.
        boxes: What ``pack_boxes`` made of one.
        goal: What ``pack_goal`` made.
        time_left_s: From now.
    """

    def solve(evaluator: AnyBoxEvaluator, stop: StopSignal) -> Reply:
        (box,) = unpack_boxes(boxes)
        found = evaluator.solve(box, unpack_goal(goal), stop)
        if isinstance(found, Unsettled):
            return {"open_bound": found.bound, "design": found.design}
        return {"evaluation": json_text(to_json(found))}

    return _answered_by_boxes(job, solve, time_left_s)


def forget(job: str) -> None:
    """Let go of what was prepared for a job."""
    with _one_task:
        _evaluators.pop(job, None)


_one_task = Lock()
"""Memos and compiled loops are made for one thread: a worker with several takes one task at a time."""
_evaluators: OrderedDict[str, SpaceEvaluator | AnyBoxEvaluator] = OrderedDict()


def _answered(job: str, answer: Callable[[SpaceEvaluator, StopSignal], Reply], time_left_s: float) -> Reply:
    def of_list(evaluator: SpaceEvaluator | AnyBoxEvaluator, stop: StopSignal) -> Reply:
        assert isinstance(evaluator, SpaceEvaluator)
        return answer(evaluator, stop)

    return _answered_by_any(job, of_list, time_left_s)


def _answered_by_boxes(
    job: str, answer: Callable[[AnyBoxEvaluator, StopSignal], Reply], time_left_s: float
) -> Reply:
    def of_boxes(evaluator: SpaceEvaluator | AnyBoxEvaluator, stop: StopSignal) -> Reply:
        assert not isinstance(evaluator, SpaceEvaluator)
        return answer(evaluator, stop)

    return _answered_by_any(job, of_boxes, time_left_s)


def _answered_by_any(
    job: str, answer: Callable[[SpaceEvaluator | AnyBoxEvaluator, StopSignal], Reply], time_left_s: float
) -> Reply:
    stop = StopSignal(time.perf_counter() + time_left_s)
    with _one_task:
        try:
            use_one_thread()
            return answer(_evaluator(job, stop), stop)
        except StoppedError:
            return {"stopped": True}
        except RephazeError as error:
            return {"refused": f"process {os.getpid()} on {platform.node()}: {error}"}


def _evaluator(job: str, stop: StopSignal) -> SpaceEvaluator | AnyBoxEvaluator:
    if job in _evaluators:
        _evaluators.move_to_end(job)
        return _evaluators[job]
    _check_same(json.loads(job))
    evaluator = make_evaluator(from_json(SearchSettings, json.loads(job)["settings"]), stop)
    _evaluators[job] = evaluator
    while len(_evaluators) > MAX_JOBS:
        _evaluators.popitem(last=False)
    return evaluator


def _check_same(asked: dict[str, Any]) -> None:
    """Raise if this worker might compute other numbers than the driver.

    The job is compared as a document: another version of rephaze may know other fields.
    """
    from importlib.metadata import version

    theirs, ours = asked["versions"], version("rephaze")
    if theirs["rephaze"] != ours:
        raise RunError(f"it has rephaze {ours}, the search runs {theirs['rephaze']}")
    if asked["code_digest"] != code_digest():
        raise RunError(f"its rephaze {ours} has other source files than the one that runs the search")
    here = to_json(_job(from_json(SearchSettings, asked["settings"])))["versions"]
    for name, wanted in theirs["packages"].items():
        if here["packages"].get(name) != wanted:
            raise RunError(f"it has {name} {here['packages'].get(name)}, the search runs with {wanted}")
    for path, digest in theirs["input_digests"].items():
        if here["input_digests"][path] != digest:
            raise RunError(f"its file {path} differs from the one the search began with")


def _job(settings: SearchSettings) -> Job:
    try:
        versions = versions_of(settings)
    except OSError as error:
        raise RunError(
            f"cannot read {error.filename} ({error.strerror}); put it where every worker sees it"
        ) from None
    return Job(settings=settings, versions=versions, code_digest=code_digest())


def code_digest() -> str:
    """SHA-256 of the package's own source files."""
    root = Path(__file__).parents[2]
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        found.update(path.relative_to(root).as_posix().encode())
        found.update(path.read_bytes())
    return found.hexdigest()
