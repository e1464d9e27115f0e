"""Long timelines lose their middle, nothing else."""

import pytest

from rephaze.measure import plan_again
from rephaze.measure.plan_again import _timeline


def test_of_a_long_batch_begin_and_end_are_kept(monkeypatch):
    monkeypatch.setattr(plan_again, "MOST_EVENTS", 10)
    events = [(0, 0, at, float(at), at + 1.0) for at in range(100)]
    found = _timeline(events, ("forward",), 1, 100)
    assert found.microbatch_e == (0, 1, 2, 3, 4, 95, 96, 97, 98, 99)
    assert (found.left_out_from_s, found.left_out_to_s) == (5.0, 95.0)
    assert (found.batch_s, found.num_microbatches) == (100.0, 100)
    whole = _timeline(events[:10], ("forward",), 1, 10)
    assert len(whole.kind_e) == 10
    assert whole.left_out_to_s == pytest.approx(0.0)
