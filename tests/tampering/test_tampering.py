"""Every column of every table of a run tampered with: nothing passes that changes a number anyone reads."""

import random
from collections import Counter

import pytest

from tests.tampering.catching import NOTHING, caught_by, copied, outcomes, quick
from tests.tampering.excused import excuse
from tests.tampering.forging import columns_of, recompute_chain
from tests.tampering.runs import KINDS, make_run
from tests.tampering.ways import all_ways

NUM_LEAVES = 40
"""Values of JSON documents tried a run; all with ``python -m tests.tampering``."""


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.name)
def run(request, tmp_path_factory):
    return make_run(request.param, tmp_path_factory.mktemp("tampering") / "run")


def chosen(run):
    ways = list(all_ways(run))
    inside = [way for way in ways if way.leaf]
    return [way for way in ways if not way.leaf] + random.Random(24).sample(inside, NUM_LEAVES)


def test_nothing_passes_that_changes_a_number_anyone_reads(run, tmp_path):
    with quick():
        assert caught_by(run) == NOTHING
        tried = Counter()
        for way in chosen(run):
            found = outcomes(run, way, tmp_path / "copy")
            if found is None:  # the database itself refuses it
                tried[way.table, way.column] += 1
                continue
            alone, forged = found
            assert alone != NOTHING, f"{way} is not told"
            assert forged != NOTHING or excuse(way), f"{way} is not told once the digests are recomputed"
            tried[way.table, way.column] += 1
    for table, columns in columns_of(run).items():
        for column in columns:
            assert tried[table, column] >= 3 or not tried[table, "(row)"], (table, column)


def test_recomputing_the_digests_of_what_is_as_it_was_changes_nothing(run, tmp_path):
    folder = copied(run, tmp_path / "copy")
    recompute_chain(folder)
    with quick():
        assert caught_by(folder) == NOTHING
