import numpy as np
import pytest

from rephaze.place.degrees import candidate_degrees, fewest_microbatches
from rephaze.place.tables import Widths


@pytest.mark.parametrize("num_microbatches", [1, 2, 7, 64, 100, 4096])
@pytest.mark.parametrize("num_devices", [1, 5, 64, 10_001])
def test_every_distinct_count_has_its_smallest_degree(num_microbatches, num_devices):
    counts, degrees = candidate_degrees(num_microbatches, num_devices, None)
    smallest = {}
    for dp in range(1, min(num_microbatches, num_devices) + 1):
        smallest.setdefault(-(-num_microbatches // dp), dp)
    assert dict(zip(counts.tolist(), degrees.tolist(), strict=True)) == smallest
    assert counts.tolist() == sorted(counts.tolist())


def test_candidates_grow_with_the_root_of_the_microbatches():
    assert len(candidate_degrees(4096, 4096, None)[0]) <= 2 * 64 + 1


def test_a_given_degree_is_the_only_candidate():
    counts, degrees = candidate_degrees(33, 64, 8)
    assert (counts.tolist(), degrees.tolist()) == ([5], [8])
    assert len(candidate_degrees(4, 64, 8)[0]) == 0


def test_deeper_pipelines_leave_fewer_replicas():
    widths = Widths(common_devices=3, rare_devices=3, num_rare_most=0, num_devices=12)
    fewest = fewest_microbatches(5, widths, candidate_degrees(12, 12, None), False)
    # 12, 6, 4 and 3 devices' worth of pipelines: dp 4, 2, 1, 1; 15 devices are not there.
    assert fewest.tolist() == [0, 3, 6, 12, 12, 0]


def test_narrow_stages_count_one_device():
    widths = Widths(common_devices=3, rare_devices=1, num_rare_most=2, num_devices=12)
    fewest = fewest_microbatches(4, widths, candidate_degrees(12, 12, None), False)
    devices = [1, 2, 5, 8]
    assert fewest[1:].tolist() == [-(-12 // (12 // each)) for each in devices]


def test_depth_may_ask_for_as_many_microbatches():
    widths = Widths(common_devices=1, rare_devices=1, num_rare_most=0, num_devices=100)
    fewest = fewest_microbatches(4, widths, candidate_degrees(12, 100, None), True)
    assert np.all(fewest[1:] >= np.arange(1, 5))
