"""Orders of passes, worked out by hand from the published figures."""

import pytest

from rephaze.place.full.pass_order import NUM_KINDS, pass_order
from rephaze.types.full import PipelineSchedule


def told(schedule, device, *, pp, chunks=1, num_microbatches):
    codes = pass_order(schedule, device=device, pp=pp, chunks=chunks, num_microbatches=num_microbatches)
    return " ".join("FBW"[code % NUM_KINDS] + str(code // NUM_KINDS) for code in codes.tolist())


@pytest.mark.parametrize(
    ("device", "said"),
    [
        (0, "F0 F1 F2 B0 F3 B1 B2 B3"),
        (1, "F0 F1 B0 F2 B1 F3 B2 B3"),
        (2, "F0 B0 F1 B1 F2 B2 F3 B3"),
    ],
)
def test_one_forward_one_backward(device, said):
    assert told(PipelineSchedule.ONE_F_ONE_B, device, pp=3, num_microbatches=4) == said


def test_fewer_microbatches_than_stages():
    assert told(PipelineSchedule.ONE_F_ONE_B, 0, pp=4, num_microbatches=2) == "F0 F1 B0 B1"
    assert told(PipelineSchedule.ZERO_BUBBLE, 1, pp=4, num_microbatches=2) == "F0 F1 B0 B1 W0 W1"


def test_interleaved_devices_run_ahead_by_two_passes_for_each_device_after_them():
    asked = {"pp": 2, "chunks": 2, "num_microbatches": 2}
    assert told(PipelineSchedule.INTERLEAVED, 0, **asked) == "F0 F1 F2 F3 B0 B1 B2 B3"
    assert told(PipelineSchedule.INTERLEAVED, 1, **asked) == "F0 F1 F2 B0 F3 B1 B2 B3"


@pytest.mark.parametrize(
    ("device", "said"),
    [
        (0, "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3"),
        (1, "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3"),
        (2, "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3"),
    ],
)
def test_zero_bubble_puts_weight_parts_off_by_the_number_of_the_device(device, said):
    assert told(PipelineSchedule.ZERO_BUBBLE, device, pp=3, num_microbatches=4) == said
