"""What every kind of workers must do, as tests: a kind passes them by a subclass that says how to start it.

Each kind is compared with ``SpaceEvaluator``, the definition of the answers, to the last bit: so kinds that pass
agree with each other too, and a search gives the same result whoever does its work.
"""

import math
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import cache

import pytest

from rephaze.hardware.grid import DesignGrid
from rephaze.search.box_seeds import single_boxes
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.system_evaluator import box_evaluator
from rephaze.search.workers.base import InProcess
from rephaze.store.record_json import canonical_text, to_json
from rephaze.types.boxes import NO_GOAL, Goal, OpenBox
from rephaze.types.search import Evaluation, Unsettled
from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal
from tests.property.box_cases import box_settings, every_position
from tests.property.search_cases import small_settings

SPACE = {"num_tensor_cores": [1, 4], "tensor_width": [32, 64]}
SCENARIOS = ("coarse", "paper")
PATIENCE_S = 60.0
"""Nothing here takes longer, on a machine that does other things beside it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A small search, and the right answers."""

    settings: object
    designs: list
    """All of the space, out of order."""
    bounds: list
    """One list of models a design of ``designs``."""
    joined: list
    """The same as ``unit_bounds`` gives them: for each model, all designs in one record."""
    evaluations: list
    cutoff: float
    """An objective that some designs reach and some do not."""
    cut: list
    """The evaluations when ``cutoff`` is the incumbent's objective."""


@cache
def prepared(scenario):
    models = ("gpt", "llama") if scenario == "coarse" else ("gpt",)
    settings = small_settings(7, scenario, models, num_choices=0, space=SPACE, num_devices=4)
    evaluator = SpaceEvaluator(settings)
    num_designs = evaluator.census.num_designs
    assert num_designs >= 4
    designs = [*range(1, num_designs, 2), *range(0, num_designs, 2)]
    joined = evaluator.unit_bounds(designs)
    bounds = [[own.chip(position) for own in joined] for position in range(num_designs)]
    pairs = list(zip(designs, bounds, strict=True))
    evaluations = [evaluator.evaluate(design, own, -math.inf) for design, own in pairs]
    cutoff = sorted(item.objective for item in evaluations)[num_designs // 2]
    cut = [evaluator.evaluate(design, own, cutoff) for design, own in pairs]
    assert any(item.is_exact for item in cut)
    assert not all(item.is_exact for item in cut)
    return Job(
        settings=settings,
        designs=designs,
        bounds=bounds,
        joined=joined,
        evaluations=evaluations,
        cutoff=cutoff,
        cut=cut,
    )


@cache
def by_boxes():
    """A small search by boxes: its settings, and what one process does of it."""
    settings = box_settings(3, most_points=24, space={})
    return settings, InProcess(box_evaluator(settings), UNSTOPPED)


def whole_box(settings):
    grid = DesignGrid(settings.scenario.space)
    last = tuple(size - 1 for size in grid.shape)
    return OpenBox(first=(0,) * len(last), last=last, upper=math.inf, bounded_by="", times=())


def bits(bounds):
    """Every array of every model by shape, type and bytes."""
    arrays = [getattr(own, field.name) for own in bounds for field in fields(own)]
    return [(array.shape, array.dtype.str, array.tobytes()) for array in arrays]


def text(answer):
    """An answer as text that reads back to the same bits."""
    assert isinstance(answer, Evaluation), answer
    return canonical_text(to_json(answer))


class WorkersKit:
    """Subclass it with ``start``, and the tests run on workers of that kind; ``request`` gives other fixtures."""

    @classmethod
    @contextmanager
    def start(cls, request, settings, stop):
        """Workers that solve the search and heed the signal; what they need besides ends with the context."""
        raise NotImplementedError

    @pytest.fixture(scope="class", params=SCENARIOS)
    @classmethod
    def job(cls, request):
        return prepared(request.param)

    @pytest.fixture(scope="class")
    @classmethod
    def workers(cls, request, job):
        with cls.started(request, job.settings, UNSTOPPED) as workers:
            yield workers

    @classmethod
    @contextmanager
    def started(cls, request, settings, stop):
        with cls.start(request, settings, stop) as workers:
            try:
                yield workers
            finally:
                workers.close()

    def test_bounds_are_the_evaluators_in_the_order_asked(self, job, workers):
        assert bits(workers.unit_bounds(job.designs)) == bits(job.joined)
        assert bits(workers.unit_bounds(job.designs[2:3])) == bits(job.bounds[2])

    def test_evaluations_are_the_evaluators_in_the_order_asked(self, job, workers):
        found = list(workers.evaluate(job.designs, job.bounds, -math.inf))
        assert [text(item) for item in found] == [text(item) for item in job.evaluations]

    def test_what_the_incumbent_beats_is_dropped_alike(self, job, workers):
        found = list(workers.evaluate(job.designs, job.bounds, job.cutoff))
        assert [item.design for item in found] == job.designs
        for item, want, whole in zip(found, job.cut, job.evaluations, strict=True):
            if want.is_exact:
                assert text(item) == text(want)
            else:
                # How far below the cutoff the bound comes may depend on the schedules a worker has proven before.
                assert not item.is_exact
                assert whole.objective <= item.bound < job.cutoff

    def test_boxes_are_expanded_tried_and_solved_as_in_one_process(self, request):
        settings, here = by_boxes()
        grid = DesignGrid(settings.scenario.space)
        boxes = single_boxes(every_position(grid))
        assert len(boxes) >= 8, "too few for two pieces: the test shows nothing"
        with self.started(request, settings, UNSTOPPED) as workers:
            trials = workers.try_designs(boxes, NO_GOAL)
            assert trials
            assert trials == here.try_designs(boxes, NO_GOAL)
            found, expected = ([*one.solve(boxes[:3], NO_GOAL)] for one in (workers, here))
            assert [text(item) for item in found] == [text(item) for item in expected]
            best = max(item.objective for item in found)
            goal = Goal(threshold=best, objective=best, area_um2=math.inf, cutoff=best)
            pieces = [[whole_box(settings)], boxes[:3], boxes[3:]]
            assert [*workers.expand(pieces, goal)] == [*here.expand(pieces, goal)]

    def test_nothing_asked_is_nothing_answered(self, job, workers):
        assert list(workers.evaluate([], [], -math.inf)) == []

    def test_past_the_deadline_nothing_is_settled(self, request):
        job = prepared("paper")
        with self.started(request, job.settings, StopSignal(time.perf_counter())) as workers:
            began_s = time.monotonic()
            with pytest.raises(StoppedError):
                workers.unit_bounds(job.designs)
            found = list(workers.evaluate(job.designs, job.bounds, -math.inf))
            assert time.monotonic() - began_s < PATIENCE_S
        assert all(isinstance(item, Unsettled) for item in found)
        assert [item.design for item in found] == job.designs
        for item, whole in zip(found, job.evaluations, strict=True):
            assert item.bound >= whole.objective, "a design that was cut keeps a bound"

    def test_asked_to_stop_they_say_so_or_answer_rightly(self, request):
        job = prepared("paper")
        is_asked = False
        with self.started(request, job.settings, StopSignal(is_asked=lambda: is_asked)) as workers:
            answers = workers.evaluate(job.designs, job.bounds, -math.inf)
            first = next(answers)
            is_asked = True
            found = [first, *answers]
            with suppress(StoppedError):
                assert bits(workers.unit_bounds(job.designs)) == bits(job.joined)
        assert text(first) == text(job.evaluations[0])
        for item, whole in zip(found, job.evaluations, strict=True):
            if isinstance(item, Unsettled):
                assert item.design == whole.design
                assert item.bound >= whole.objective
            else:
                assert text(item) == text(whole)

    def test_they_can_be_closed_twice_and_unused(self, request):
        with self.started(request, prepared("paper").settings, UNSTOPPED) as workers:
            workers.close()
