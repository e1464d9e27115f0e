"""Core shapes as columns: which are equal, and as rows for compiled functions."""

from dataclasses import fields

import numpy as np

from rephaze.estimate.gemm_default.core_shapes import CoreShapes

NAMES = [field.name for field in fields(CoreShapes)]


def shapes(**columns):
    """Three shapes whose fields are 1, 2, 3, ... but for those given."""
    return CoreShapes(
        **{name: np.array(columns.get(name, [i + 1] * 3), dtype=np.float64) for i, name in enumerate(NAMES)}
    )


def test_capacities_are_whole_words_of_four_bytes():
    found = shapes(scratchpad_bytes=[16, 19, 20], global_buffer_bytes=[1023, 1024, 1025])
    assert found.scratchpad_words.tolist() == [4, 4, 5]
    assert found.buffer_words.tolist() == [255, 256, 256]
    assert found.rows()["scratchpad_words"].tolist() == [4, 4, 5]
    assert found.rows()["buffer_words"].tolist() == [255, 256, 256]


def test_every_column_goes_to_its_field():
    row = shapes(scratchpad_bytes=[400] * 3, global_buffer_bytes=[500] * 3).rows()[0]
    assert row.tolist() == (1, 2, 3, 100, 125, 6, 7, 8, 9, 10, 11, 12)
    assert row.dtype.names == (
        "cores", "width", "depth", "scratchpad_words", "buffer_words", "scratchpad_rate", "buffer_rate",
        "hbm_rate", "multicast", "near_j", "middle_j", "far_j",
    )  # fmt: skip


def test_equal_shapes_are_one():
    found, of_shape = shapes(num_cores=[8, 2, 8]).distinct()
    assert len(found) == 2
    assert found.num_cores[of_shape].tolist() == [8, 2, 8]


def test_shapes_differ_if_any_column_does():
    for name in NAMES:
        assert len(shapes(**{name: [5, 6, 7]}).distinct()[0]) == 3, name
        assert len(set(shapes(**{name: [5, 6, 5]}).keys())) == 2, name


def test_taken_shapes_keep_all_columns():
    taken = shapes(num_cores=[8, 2, 4], hbm_bytes_per_cycle=[1, 2, 3]).take(np.array([2, 0]))
    assert taken.num_cores.tolist() == [4, 8]
    assert taken.hbm_bytes_per_cycle.tolist() == [3, 1]
    assert taken.multicast.tolist() == [9, 9]
