"""Loads of every candidate stage from the layers' times.

A stage runs its layers one after the other on one device (or tensor-parallel group). A layer that needs a
tensor from another stage waits for it; the order of layers is the one that waits least. That optimum has a
closed form: with r_v the time by which layer v's outside inputs (and those of its predecessors in the
stage) have come,

    F = max over v of (r_v + the work of all layers u with r_u >= r_v)

which on a line is F_v = max(F_{v-1}, r_v) + f_v. Backward is the same with the graph turned round.

Axis letters: e = stage, r = recompute mode (none, block, stage), v = layer, k = ideal.
"""

from __future__ import annotations

import numpy as np

from rephaze.compiled import inner, kernel
from rephaze.place.arrays import GraphArrays, GraphShape
from rephaze.place.tables import (
    BLOCK,
    NONE,
    NUM_MODES,
    STAGE,
    Flags,
    Floats,
    Ints,
    LayerTimes,
    LinkRows,
    Plain,
    ShortInts,
    StageTable,
    Wire,
)


def load_stages(
    arrays: GraphArrays,
    shape: GraphShape,
    table: StageTable,
    times: LayerTimes,
    wire: Wire,
    must_replay: bool,
) -> tuple[Floats, Floats, Floats]:
    """Of a table's stages: loads (stage x recompute mode), bare work, and that with a replay they must do."""
    if shape.is_line:
        return _line_loads(
            table.start_k, tuple(times), tuple(arrays.entering), tuple(arrays.leaving), tuple(wire), must_replay
        )
    return _branching_loads(
        table.start_k, table.end_e, shape.members_kv, times, arrays.entering, arrays.leaving, wire, must_replay
    )


@inner
def _transfer(payload_bytes: float, wire: Wire) -> float:
    """Time of one message; nothing to send takes no time."""
    return payload_bytes / wire.bytes_per_s + wire.latency_s if payload_bytes > 0.0 else 0.0


@kernel
def _line_loads(
    start_k: Ints,
    plain_times: Plain,
    plain_entering: Plain,
    plain_leaving: Plain,
    plain_wire: Plain,
    must_replay: bool,
) -> tuple[Floats, Floats, Floats]:
    """Loads of intervals, each from the one before it."""
    times, wire = LayerTimes(*plain_times), Wire(*plain_wire)
    entering, leaving = LinkRows(*plain_entering), LinkRows(*plain_leaving)
    # Unpacked once: every field access of a tuple in compiled code counts references.
    forward_v, backward_v = times.forward_s_v, times.backward_s_v
    in_start, in_src, in_bytes = entering.start_v, entering.other, entering.payload_bytes
    out_start, out_bytes = leaving.start_v, leaving.payload_bytes
    n = len(forward_v)
    has_skips = len(in_src) > n - 1
    num_stages = start_k[n]
    load = np.empty((num_stages, NUM_MODES))
    work = np.empty(num_stages)
    busy = np.empty(num_stages) if must_replay else work
    for i in range(n):
        wait = 0.0
        if i > 0 and not has_skips:
            wait = _transfer(in_bytes[in_start[i]], wire)
        ready = wait
        replay = backward = 0.0
        for e in range(start_k[i], start_k[i + 1]):
            j = i + e - start_k[i]
            if has_skips:
                for at in range(in_start[j], in_start[j + 1]):
                    if in_src[at] < i:
                        ready = max(ready, _transfer(in_bytes[at], wire))
            ready += forward_v[j]
            replay += forward_v[j]
            backward += backward_v[j]
            work[e] = replay + backward
            if must_replay:
                busy[e] = 2 * replay + backward
            # Without skips the gradient comes in at layer j alone.
            wait = 0.0
            if j < n - 1 and not has_skips:
                wait = _transfer(out_bytes[out_start[j]], wire)
            load[e, NONE] = ready + (wait + backward)
            load[e, BLOCK] = ready + (wait + replay + backward)
            load[e, STAGE] = ready + max(replay + backward, wait + backward)
            if has_skips:
                load[e, STAGE] = ready  # for the next pass, which adds the gradients
    if has_skips:
        _add_line_gradients(start_k, times, leaving, wire, load)
    return load, work, busy


@inner
def _add_line_gradients(start_k: Ints, times: LayerTimes, leaving: LinkRows, wire: Wire, load: Floats) -> None:
    """Replace the backward part of each load by one that waits for gradients wherever they enter."""
    forward_v, backward_v = times.forward_s_v, times.backward_s_v
    out_start, out_dst, out_bytes = leaving.start_v, leaving.other, leaving.payload_bytes
    n = len(forward_v)
    for j in range(n):
        plain = within = replay = backward = 0.0
        for i in range(j, -1, -1):
            wait = 0.0
            for at in range(out_start[i], out_start[i + 1]):
                if out_dst[at] > j:
                    wait = max(wait, _transfer(out_bytes[at], wire))
            plain = max(plain, wait) + backward_v[i]
            within = max(within, wait) + (forward_v[i] + backward_v[i])
            replay += forward_v[i]
            backward += backward_v[i]
            e = start_k[i] + j - i
            if e < start_k[i + 1]:
                ready = load[e, STAGE]
                load[e, NONE] = ready + plain
                load[e, BLOCK] = ready + within
                load[e, STAGE] = ready + max(replay + backward, plain)


@inner
def _latest_finish(wait_v: Floats, work_v: Floats, inside: Ints, count: int) -> float:
    """Finish of a stage's layers run in the order their inputs come."""
    finish = 0.0
    threshold = 0.0
    # One round for each distinct time at which inputs come: seldom more than three.
    while threshold < np.inf:
        total, later = threshold, np.inf
        for a in range(count):
            when = wait_v[inside[a]]
            if when >= threshold:
                total += work_v[inside[a]]
                if when > threshold:
                    later = min(later, when)
        finish = max(finish, total)
        threshold = later
    return finish


@kernel
def _branching_loads(
    start_k: Ints,
    end_e: ShortInts,
    members_kv: Flags,
    times: LayerTimes,
    entering: LinkRows,
    leaving: LinkRows,
    wire: Wire,
    must_replay: bool,
) -> tuple[Floats, Floats, Floats]:
    """Loads of differences of nested ideals."""
    forward_v, backward_v = times.forward_s_v, times.backward_s_v
    in_start, in_src, in_bytes = entering.start_v, entering.other, entering.payload_bytes
    out_start, out_dst, out_bytes = leaving.start_v, leaving.other, leaving.payload_bytes
    num_ideals, n = members_kv.shape
    load = np.empty((len(end_e), NUM_MODES))
    work = np.empty(len(end_e))
    busy = np.empty(len(end_e)) if must_replay else work
    both_v = forward_v + backward_v
    in_wait = np.array([_transfer(payload, wire) for payload in in_bytes])
    out_wait = np.array([_transfer(payload, wire) for payload in out_bytes])
    wait = np.zeros(n)
    inside = np.empty(n, dtype=np.int64)
    for k in range(num_ideals):
        for e in range(start_k[k], start_k[k + 1]):
            last = end_e[e]
            count = 0
            replay = backward = 0.0
            for v in range(n):
                if members_kv[last, v] and not members_kv[k, v]:
                    inside[count] = v
                    count += 1
                    replay += forward_v[v]
                    backward += backward_v[v]
            longest = 0.0
            for a in range(count):
                v = inside[a]
                wait[v] = 0.0
                for at in range(in_start[v], in_start[v + 1]):
                    u = in_src[at]
                    wait[v] = max(wait[v], in_wait[at] if members_kv[k, u] else wait[u])
                longest = max(longest, wait[v])
            ready = _latest_finish(wait, forward_v, inside, count) if longest > 0.0 else replay
            longest = 0.0
            for a in range(count - 1, -1, -1):
                v = inside[a]
                wait[v] = 0.0
                for at in range(out_start[v], out_start[v + 1]):
                    u = out_dst[at]
                    wait[v] = max(wait[v], wait[u] if members_kv[last, u] else out_wait[at])
                longest = max(longest, wait[v])
            plain, within = backward, replay + backward
            if longest > 0.0:
                plain = _latest_finish(wait, backward_v, inside, count)
                within = _latest_finish(wait, both_v, inside, count)
            work[e] = replay + backward
            if must_replay:
                busy[e] = 2 * replay + backward
            load[e, NONE] = ready + plain
            load[e, BLOCK] = ready + within
            load[e, STAGE] = ready + max(replay + backward, plain)
    return load, work, busy
