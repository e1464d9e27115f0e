"""When every pass of a pipeline runs: each device in its order, each pass after the one it waits for; compiled.

Axis letters: d = device of the pipeline, i = place in its order, c = stage or chunk, k = kind of pass,
j = microbatch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import kernel
from rephaze.place.full.pass_order import BACKWARD, FORWARD, NUM_KINDS, WEIGHT

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Times(NamedTuple):
    """By chunk and kind of pass: how long it takes."""

    message_s_ck: Floats
    compute_s_ck: Floats
    tail_s_c: Floats
    """What the link does after a backward pass."""


class Clock(NamedTuple):
    """By device and place in its order: when a pass starts to receive, and when it has been computed."""

    start_s_di: Floats
    end_s_di: Floats


@kernel
def turn_of(number: int, kind: int, device: int, pp: int, chunks: int) -> tuple[int, int]:
    """The microbatch and the chunk of a pass."""
    turn, place = divmod(number, pp * chunks)
    of_device = place // pp
    if kind != FORWARD:
        of_device = chunks - 1 - of_device
    return turn * pp + place % pp, of_device * pp + device


@kernel
def run_passes(orders: Ints, times: Times, pp: int, chunks: int) -> Clock:
    """When every pass runs: each device in its order, each pass after the one it waits for."""
    num_passes = orders.shape[1]
    num_chunks = pp * chunks
    start_s_di = np.zeros((pp, num_passes))
    end_s_di = np.zeros((pp, num_passes))
    # By chunk and microbatch, when its forward and its backward pass ended; below 0: not yet.
    num_microbatches = (orders.max() // NUM_KINDS + 1) // chunks
    ended_s_kcj = np.full((2, num_chunks, num_microbatches), -1.0)
    free_s_d = np.zeros(pp)
    next_d = np.zeros(pp, dtype=np.int64)
    num_done, moved = 0, True
    while moved:
        moved = False
        for device in range(pp):
            while next_d[device] < num_passes:
                at = next_d[device]
                number, kind = orders[device, at] // NUM_KINDS, orders[device, at] % NUM_KINDS
                microbatch, chunk = turn_of(number, kind, device, pp, chunks)
                arrives_s = 0.0
                if kind == FORWARD and chunk > 0:
                    arrives_s = ended_s_kcj[FORWARD, chunk - 1, microbatch]
                elif kind == BACKWARD and chunk < num_chunks - 1:
                    arrives_s = ended_s_kcj[BACKWARD, chunk + 1, microbatch]
                elif kind == BACKWARD:
                    arrives_s = ended_s_kcj[FORWARD, chunk, microbatch]
                elif kind == WEIGHT:
                    arrives_s = ended_s_kcj[BACKWARD, chunk, microbatch]
                if arrives_s < 0:
                    break
                start_s = max(free_s_d[device], arrives_s)
                end_s = start_s + times.message_s_ck[chunk, kind] + times.compute_s_ck[chunk, kind]
                start_s_di[device, at], end_s_di[device, at] = start_s, end_s
                free_s_d[device] = end_s
                if kind == BACKWARD:
                    free_s_d[device] += times.tail_s_c[chunk]
                if kind != WEIGHT:
                    ended_s_kcj[kind, chunk, microbatch] = end_s
                next_d[device] += 1
                num_done += 1
                moved = True
    assert num_done == pp * num_passes, "the pipeline came to a halt"
    return Clock(start_s_di, end_s_di)
