"""The lower bound of ``bounds`` for the paper's cost model on a line of layers, where the first stage decides.

Only the first stage's gradients are summed over the replicas, so a good plan has a light first stage and pays
for it in the others. For every depth S and every first stage of f layers:

    T >= L * (m_d + S - 1) + 4 (d - 1) / d * params_f / bandwidth
    L = max(first + transfer, rest / (S - 1), max_t ceil(rest_t / (S - 1)) * work_t + transfer)

Axis letters: c = chip, t = layer type, v = layer, s = depth, a = candidate degree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rephaze.compiled import inner, kernel
from rephaze.place.tables import Degrees, Floats, Ints


class LineTypes(NamedTuple):
    """A line of layers by type."""

    type_v: Ints
    """Column of each layer in the times."""
    param_bytes_v: Floats
    held_t: Ints
    """By type, layers times the devices each holds."""


class Pipelines(NamedTuple):
    """What pipelines a graph allows."""

    stages_least: int
    """No plan is shallower."""
    devices_s: Ints
    """Fewest devices of a pipeline by its depth, from 0 to the deepest."""
    num_devices: int
    """In the cluster."""
    transfer_s: float
    """Least time between two stages."""
    must_replay: bool
    """All stages but the last run their forward pass twice."""


@kernel
def lower_paper_line(
    bound_c: Floats,
    forward_ct: Floats,
    backward_ct: Floats,
    line: LineTypes,
    pipelines: Pipelines,
    degrees: Degrees,
    seconds_per_byte: float,
) -> None:
    """Lower ``bound_c`` to this graph's bound where that is less.

    Args:
        bound_c: Bounds so far.
        forward_ct: Forward seconds.
        backward_ct: Backward seconds.
        line: The layers.
        pipelines: What holds them.
        degrees: Candidates.
        seconds_per_byte: Of summing gradients over many replicas.
    """
    # Unpacked once: every field access of a tuple in compiled code counts references.
    type_v, params_v, held_t = line.type_v, line.param_bytes_v, line.held_t
    devices_s, num_devices = pipelines.devices_s, pipelines.num_devices
    transfer_s, must_replay = pipelines.transfer_s, pipelines.must_replay
    count_a, dp_a = degrees.count_c, degrees.dp_c
    num_types = len(held_t)
    num_layers = len(type_v)
    rest_t = np.empty(num_types, dtype=np.int64)
    # The first layer's parameters, over the fewest replicas.
    least_sync_s = seconds_per_byte * (dp_a[-1] - 1) / dp_a[-1] * params_v[0] if len(dp_a) else 0.0
    for c in range(len(bound_c)):
        total = replay = device_work = 0.0
        for t in range(num_types):
            device_work += held_t[t] * (forward_ct[c, t] + backward_ct[c, t])
        for v in range(num_layers):
            total += forward_ct[c, type_v[v]] + backward_ct[c, type_v[v]]
            replay += forward_ct[c, type_v[v]]
        best = bound_c[c]
        for depth in range(pipelines.stages_least, len(devices_s)):
            if total + (2 * depth - 2) * transfer_s >= best:
                # Even with one microbatch: S times the slowest load is no less than the sum of all.
                break
            first_a = 0
            while first_a < len(dp_a) and dp_a[first_a] * devices_s[depth] > num_devices:
                first_a += 1
            if first_a == len(dp_a):
                continue
            even = (total + (2 * depth - 2) * transfer_s) / depth
            if even * (count_a[first_a] + depth - 1) + least_sync_s >= best:
                continue
            rest_t[:] = 0
            for v in range(num_layers):
                rest_t[type_v[v]] += 1
            first = first_replay = params = 0.0
            for v in range(num_layers - depth + 1):
                t = type_v[v]
                rest_t[t] -= 1
                first += forward_ct[c, t] + backward_ct[c, t]
                first_replay += forward_ct[c, t]
                params += params_v[v]
                if depth == 1 and v < num_layers - 1:
                    continue
                own = first
                if depth > 1:
                    own = first + transfer_s
                    if must_replay:
                        own = max(own, first + first_replay)
                others = _others(
                    total - first, replay - first_replay, forward_ct[c], backward_ct[c], rest_t, depth - 1,
                    transfer_s, must_replay,
                )  # fmt: skip
                slowest = max(own, others)
                for a in range(first_a, len(dp_a)):
                    pipe = slowest * (count_a[a] + depth - 1)
                    if pipe >= best:
                        break
                    # No fewer device seconds than the layers take on the devices they hold.
                    slower = max(slowest, device_work / (num_devices // dp_a[a]))
                    sync_s = seconds_per_byte * (dp_a[a] - 1) / dp_a[a] * params
                    best = min(best, slower * (count_a[a] + depth - 1) + sync_s)
                if own >= others:
                    # A longer first stage is slower and has more to sum.
                    break
        bound_c[c] = best


@inner
def _others(
    work: float,
    replay: float,
    forward_t: Floats,
    backward_t: Floats,
    rest_t: Ints,
    num_stages: int,
    transfer_s: float,
    must_replay: bool,
) -> float:
    """The slowest of the stages after the first is no faster than this."""
    if num_stages == 0:
        return 0.0
    slowest = (work + (2 * num_stages - 1) * transfer_s) / num_stages
    if must_replay:
        # The last stage is spared its replay, which is at most one load.
        slowest = max(slowest, (work + replay + num_stages * transfer_s) / (num_stages + 1))
    for t in range(len(rest_t)):
        if rest_t[t] > 0:
            held = -(-rest_t[t] // num_stages)
            slowest = max(slowest, held * (forward_t[t] + backward_t[t]) + transfer_s)
    return slowest
