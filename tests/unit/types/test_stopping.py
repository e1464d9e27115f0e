import math
import time

import pytest

from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal


def test_it_never_stops_unless_told():
    UNSTOPPED.check()
    assert not UNSTOPPED.is_over()
    assert UNSTOPPED.time_left_s() == math.inf


def test_a_moment_that_has_passed_stops():
    over = StopSignal(time.perf_counter() - 1.0)
    assert over.is_over()
    assert over.time_left_s() == 0.0
    with pytest.raises(StoppedError):
        over.check()
    assert not over.later(3600.0).is_over()
    assert 3590.0 < over.later(3600.0).time_left_s() < 3600.0


def test_once_asked_it_stays_with_it():
    asked = [False, True, False]
    signal = StopSignal(is_asked=lambda: asked.pop(0))
    assert [signal.is_over() for _ in range(4)] == [False, True, True, True]
    assert asked == [False]
