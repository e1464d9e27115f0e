"""Every possible stage with what it holds: width, parameters, and how many microbatches fit in memory.

A stage goes from one ideal to a larger one. None of this depends on the layers' times, so it is built once for a
device memory and serves every chip.

Axis letters: e = stage (edge between ideals), r = recompute mode (none, block, stage), v = layer, k = ideal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import kernel
from rephaze.errors import UnsupportedError
from rephaze.place.arrays import GraphArrays, GraphShape
from rephaze.place.tables import (
    BLOCK,
    NONE,
    NUM_MODES,
    STAGE,
    Flags,
    Floats,
    Ints,
    LayerBytes,
    LinkRows,
    MemoryRules,
    Plain,
    ShortInts,
    StageTable,
    TieRows,
    Widths,
)

MAX_STAGES = 3_000_000
"""More candidate stages than this are refused: a line of 2,448 layers, or two towers of 57, just pass."""

# Of a group of tied weights in a stage: not there, held as a copy, or with its owner and nothing extra.
_ABSENT, _COPIED, _OWNED = range(3)


@dataclass(frozen=True, kw_only=True, slots=True)
class TiedCopies:
    """Weights that each stage of a table holds only because a layer is tied to one in another stage."""

    copied_bytes_e: Floats
    num_copied_e: ShortInts


def tabulate_stages(
    arrays: GraphArrays, shape: GraphShape, rules: MemoryRules, widths: Widths
) -> tuple[StageTable, TiedCopies]:
    """All stages of a graph that fit in memory at some position of a pipeline."""
    if shape.is_line:
        starts, ends = _line_pairs(
            arrays.layers.param_bytes_v, rules.memory_bytes, rules.resident_ratio, MAX_STAGES + 1
        )
        members = np.empty((0, 0), dtype=np.uint8)
    else:
        starts, ends = _nested_pairs(shape.members_kv, MAX_STAGES + 1)
        members = shape.members_kv
    if len(ends) > MAX_STAGES:
        raise UnsupportedError(f"the layer graph has over {MAX_STAGES} possible stages; merge some of its layers")
    limit, params, copied, num_copied, wide = _hold(
        starts,
        ends,
        members,
        shape.is_line,
        tuple(arrays.layers),
        tuple(arrays.entering),
        tuple(arrays.ties),
        tuple(rules),
    )
    fits = limit.max(axis=1) > 0
    if shape.is_line:
        _fill_rows(starts, fits)
    num_kept = np.concatenate([[0], np.cumsum(fits)]).astype(np.int64)
    table = StageTable(
        start_k=num_kept[starts],
        end_e=ends[fits].astype(np.int32),
        limit_er=np.ascontiguousarray(limit[fits]),
        param_bytes_e=params[fits],
        rare_e=_rare(wide[fits], widths),
        is_line=shape.is_line,
    )
    return table, TiedCopies(copied_bytes_e=copied[fits], num_copied_e=num_copied[fits])


def _rare(wide_e: Flags, widths: Widths) -> Flags:
    if widths.num_rare_most == 0:
        return np.zeros_like(wide_e)
    return wide_e if widths.rare_devices > widths.common_devices else (1 - wide_e).astype(np.uint8)


@kernel
def depth_limit(fixed_bytes: float, flight_bytes: float, memory_bytes: float, most: int) -> int:
    """Most microbatches in flight, up to ``most``, that fit: fixed + (q - 1) * flight <= memory."""
    if fixed_bytes + (most - 1) * flight_bytes <= memory_bytes:
        return most
    if fixed_bytes > memory_bytes:
        return 0
    return min(most, 1 + int(np.floor((memory_bytes - fixed_bytes) / flight_bytes)))


@kernel
def _line_pairs(params_v: Floats, memory_bytes: float, ratio: float, most: int) -> tuple[Ints, Ints]:
    """Intervals of a line, cut off where the parameters alone exceed the memory."""
    n = len(params_v)
    starts = np.zeros(n + 2, dtype=np.int64)
    total = 0
    for i in range(n):
        held = 0.0
        count = 0
        for j in range(i, n):
            held += params_v[j]
            # A hair of slack: the exact rule is applied later, on sums added in another order.
            if held * ratio > memory_bytes * (1 + 1e-9):
                break
            count += 1
        total += count
        starts[i + 1] = total
    starts[n + 1] = total
    ends = np.empty(min(total, most), dtype=np.int64)
    at = 0
    for i in range(n):
        for j in range(starts[i + 1] - starts[i]):
            if at < most:
                ends[at] = i + j + 1
                at += 1
    return starts, ends


@kernel
def _nested_pairs(members_kv: Flags, most: int) -> tuple[Ints, Ints]:
    """Pairs of ideals, one inside the other; stops at ``most``."""
    num_ideals, n = members_kv.shape
    num_words = (n + 63) // 64
    words = np.zeros((num_ideals, num_words), dtype=np.uint64)
    for k in range(num_ideals):
        for v in range(n):
            if members_kv[k, v]:
                words[k, v // 64] |= np.uint64(1) << np.uint64(v % 64)
    starts = np.zeros(num_ideals + 1, dtype=np.int64)
    ends = np.empty(1024, dtype=np.int64)
    at = 0
    for a in range(num_ideals):
        for b in range(a + 1, num_ideals):
            inside = True
            for w in range(num_words):
                if words[a, w] & ~words[b, w]:
                    inside = False
                    break
            if inside:
                if at == most:
                    return starts, ends
                if at == len(ends):
                    longer = np.empty(2 * at, dtype=np.int64)
                    longer[:at] = ends
                    ends = longer
                ends[at] = b
                at += 1
        starts[a + 1] = at
    return starts, ends[:at]


@kernel
def _fill_rows(starts: Ints, fits: NDArray[np.bool_]) -> None:
    """Mark everything before the last mark of each row."""
    for k in range(len(starts) - 1):
        marked = False
        for e in range(starts[k + 1] - 1, starts[k] - 1, -1):
            marked |= fits[e]
            fits[e] = marked


@kernel
def _hold(
    starts: Ints,
    ends: Ints,
    members_kv: Flags,
    is_line: bool,
    plain_layers: Plain,
    plain_entering: Plain,
    plain_ties: Plain,
    plain_rules: Plain,
) -> tuple[ShortInts, Floats, Floats, ShortInts, Flags]:
    """Depth limits, parameters, copies of tied weights (bytes, how many) and width of every stage."""
    layers, entering_links = LayerBytes(*plain_layers), LinkRows(*plain_entering)
    ties, rules = TieRows(*plain_ties), MemoryRules(*plain_rules)
    # Unpacked once: every field access of a tuple in compiled code counts references.
    params_v, activations_v, inputs_v = layers.param_bytes_v, layers.activation_bytes_v, layers.input_bytes_v
    working_v, source_v, wide_v = layers.working_bytes_v, layers.source_bytes_v, layers.wide_v
    in_start, in_src, in_bytes = entering_links.start_v, entering_links.other, entering_links.payload_bytes
    tie_start, tie_group, tie_is_owner, tie_bytes = ties.start_v, ties.group, ties.is_owner, ties.param_bytes
    memory_bytes, is_paper, mode_limit_r = rules.memory_bytes, rules.is_paper, rules.mode_limit_r
    n = len(params_v)
    num_stages = len(ends)
    limit = np.zeros((num_stages, NUM_MODES), dtype=np.int32)
    params = np.empty(num_stages)
    copied = np.zeros(num_stages)
    num_copied = np.zeros(num_stages, dtype=np.int32)
    wide = np.zeros(num_stages, dtype=np.uint8)
    largest_from = np.zeros(n)  # the largest tensor each outside layer sends into the stage
    group_state = np.zeros(max(ties.num_groups, 1), dtype=np.int64)
    for k in range(len(starts) - 1):
        held = kept = kept_inputs = peak = working = entering = 0.0
        extra = 0.0
        num_extra = 0
        is_wide = 0
        done = k  # on a line, layers [k, done) are in the sums already
        largest_from[:] = 0.0
        group_state[:] = _ABSENT
        for e in range(starts[k], starts[k + 1]):
            last = ends[e]
            if not is_line:
                held = kept = kept_inputs = peak = working = entering = 0.0
                extra = 0.0
                num_extra = 0
                is_wide = 0
                largest_from[:] = 0.0
                group_state[:] = _ABSENT
                done, last = 0, n
            for v in range(done, last):
                if not is_line and (members_kv[k, v] or not members_kv[ends[e], v]):
                    continue
                held += params_v[v]
                kept += activations_v[v]
                kept_inputs += inputs_v[v]
                peak = max(peak, activations_v[v] - inputs_v[v])
                is_wide |= wide_v[v]
                if not is_paper:
                    working = max(working, working_v[v])
                    entering += source_v[v]
                for at in range(in_start[v], in_start[v + 1]):
                    u = in_src[at]
                    outside = u < k if is_line else members_kv[k, u] == 1
                    if outside and is_paper:
                        entering += in_bytes[at]
                    elif outside and in_bytes[at] > largest_from[u]:
                        entering += in_bytes[at] - largest_from[u]
                        largest_from[u] = in_bytes[at]
                for at in range(tie_start[v], tie_start[v] if is_paper else tie_start[v + 1]):
                    group = tie_group[at]
                    if tie_is_owner[at]:
                        if group_state[group] == _COPIED:
                            extra -= tie_bytes[at]
                            num_extra -= 1
                        group_state[group] = _OWNED
                    elif group_state[group] == _ABSENT:
                        extra += tie_bytes[at]
                        num_extra += 1
                        group_state[group] = _COPIED
            done = last
            weights = held + extra
            rest = (rules.resident_ratio - 2.0) * weights
            fixed = 2.0 * weights + kept + rest + working
            fixed_block = 2.0 * weights + (kept_inputs + peak) + rest + working
            limit[e, NONE] = depth_limit(fixed, kept, memory_bytes, mode_limit_r[NONE])
            limit[e, BLOCK] = depth_limit(fixed_block, kept_inputs, memory_bytes, mode_limit_r[BLOCK])
            limit[e, STAGE] = depth_limit(fixed, entering, memory_bytes, mode_limit_r[STAGE])
            params[e] = weights
            copied[e] = extra
            num_copied[e] = num_extra
            wide[e] = is_wide
    return limit, params, copied, num_copied, wide
