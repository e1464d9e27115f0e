"""A Dask worker's tasks, called in this process: the same numbers, and refusals as replies."""

import importlib.util
import json
import math
from dataclasses import fields, replace
from pathlib import Path

import pytest

from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.workers import dask_tasks
from rephaze.search.workers.dask_tasks import (
    bound_designs,
    forget,
    job_text,
    prepare,
    solve_design,
)
from rephaze.search.workers.packing import pack_bounds, unpack_bounds
from rephaze.store.record_json import from_json
from rephaze.types.search import Evaluation

_path = Path(__file__).parents[3] / "property" / "search_cases.py"
_spec = importlib.util.spec_from_file_location("search_cases", _path)
search_cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(search_cases)


@pytest.fixture
def asked():
    return search_cases.small_settings(3, "coarse")


@pytest.fixture(autouse=True)
def empty_worker():
    yield
    dask_tasks._evaluators.clear()


def test_bounds_and_evaluations_are_the_evaluators_bit_for_bit(asked):
    evaluator, job = SpaceEvaluator(asked), job_text(asked)
    designs = list(range(evaluator.census.num_designs))
    want = evaluator.unit_bounds(designs)
    found = [unpack_bounds(own) for own in bound_designs(job, designs)["bounds"]]
    for ours, theirs in zip(found, want, strict=True):
        for field in fields(ours):
            assert getattr(ours, field.name).tolist() == getattr(theirs, field.name).tolist()
    own = [bounds.chip(0) for bounds in want]
    reply = solve_design(job, 0, [pack_bounds(one) for one in own], -math.inf)
    assert from_json(Evaluation, json.loads(reply["evaluation"])) == evaluator.evaluate(0, own, -math.inf)


def test_a_worker_makes_ready_before_it_is_asked(asked):
    job = job_text(asked)
    assert prepare(job, 0.0) == {"stopped": True}
    assert not dask_tasks._evaluators
    assert prepare(job) == {}
    assert list(dask_tasks._evaluators) == [job]
    assert prepare(edited(job, lambda document: document.update(code_digest="0" * 64))).keys() == {"refused"}


def edited(job, change):
    document = json.loads(job)
    change(document)
    return json.dumps(document)


def other_files(job):
    digests = job["versions"]["input_digests"]
    digests.update(dict.fromkeys(digests, "0"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda job: job["versions"].update(rephaze="99.0"), "the search runs 99.0"),
        (lambda job: job.update(code_digest="0" * 64), "other source files"),
        (lambda job: job["versions"]["packages"].update(numpy="1.0"), "the search runs with 1.0"),
        (other_files, "differs"),
        (lambda job: job["settings"].update(models=["/nowhere/gpt.json"]), "cannot read /nowhere/gpt.json"),
    ],
)
def test_a_worker_that_might_compute_something_else_says_so(asked, change, told):
    reply = bound_designs(edited(job_text(asked), change), [0])
    assert reply.keys() == {"refused"}
    assert told in reply["refused"]


def test_a_worker_keeps_few_jobs_and_forgets_on_request(asked):
    jobs = [job_text(replace(asked, seed=seed)) for seed in range(dask_tasks.MAX_JOBS + 1)]
    for job in jobs:
        bound_designs(job, [0])
    assert list(dask_tasks._evaluators) == jobs[1:]
    forget(jobs[1])
    assert list(dask_tasks._evaluators) == jobs[2:]


def test_out_of_time_a_worker_leaves_the_design_open(asked):
    evaluator, job = SpaceEvaluator(asked), job_text(asked)
    # Not even the models were prepared: nothing of the job is kept.
    assert bound_designs(job, [0], 0.0) == {"stopped": True}
    assert not dask_tasks._evaluators
    own = [bounds.chip(0) for bounds in evaluator.unit_bounds([0])]
    packed = [pack_bounds(one) for one in own]
    whole = solve_design(job, 0, packed, -math.inf)
    assert bound_designs(job, [0], 0.0) == {"stopped": True}
    reply = solve_design(job, 0, packed, -math.inf, 0.0)
    assert reply.keys() == {"open_bound"}
    assert reply["open_bound"] >= from_json(Evaluation, json.loads(whole["evaluation"])).objective
    assert solve_design(job, 0, packed, -math.inf) == whole
