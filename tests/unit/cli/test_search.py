"""Options of a search as changes of its settings, and Ctrl-C as a question instead of an end."""

import dataclasses
import json
import math
import signal

import pytest

from rephaze import explore
from rephaze.cli.search import _changes, _interruptible, _record
from rephaze.errors import SpecError
from rephaze.search.settings import resolve_settings


def test_options_that_were_not_given_change_nothing():
    changes = _changes(None, None, None, None, None, exhaustive=False)
    assert changes == {"search": {}, "training": {}, "cluster": {}, "space": {}}
    assert resolve_settings(("gpt2-xl",), changes=changes) == resolve_settings(("gpt2-xl",))


def test_options_arrive_in_the_settings():
    found = resolve_settings(("gpt2-xl",), changes=_changes("per-usd", "worst", 64, 512, 250.0, exhaustive=True))
    assert (found.objective, found.aggregate, found.exhaustive) == ("per-usd", "worst", True)
    scenario = found.scenario
    assert (scenario.cluster.num_devices, scenario.training.global_batch) == (64, 512)
    assert scenario.space.area_limit_um2 == 250e6


def test_ctrl_c_is_asked_for_once_and_obeyed_twice():
    before = signal.getsignal(signal.SIGINT)
    with _interruptible() as is_interrupted:
        assert not is_interrupted()
        signal.raise_signal(signal.SIGINT)
        assert is_interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_method_is_one_of_three_and_auto_unless_said():
    def asked(method):
        changes = _changes(None, None, None, None, None, exhaustive=False, method=method)
        return resolve_settings(("gpt2-xl",), changes=changes).method

    assert [asked(one) for one in (None, "auto", "boxes", "list")] == ["auto", "auto", "boxes", "list"]
    with pytest.raises(SpecError, match=r"search.method is 'both': must be one of auto, boxes, list"):
        asked("both")


def test_a_search_stopped_before_its_space_was_bounded_is_a_record_without_gap():
    space = {"num_tensor_cores": [4], "tensor_width": [128], "tensor_depth": [128], "num_vector_cores": [2]}
    rest = {"vector_lanes": [1024], "global_buffer_mib": [16], "num_hbm_stacks": [2]}
    found = explore("gpt2-xl", scenario="coarse", changes={"space": space | rest}, num_workers=1)
    record = _record(dataclasses.replace(found, status="feasible", bound=math.inf, gap=math.inf))
    assert (record["bound"], record["gap"]) == (None, None)
    json.dumps(record, allow_nan=False, default=str)
    assert _record(found)["gap"] == 0.0
