"""Traces in the trace event format, which Perfetto and chrome://tracing open: slices on tracks, none over another.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (complete events, "X", and names of
processes and threads, "M"); Perfetto's reader of it: https://perfetto.dev/docs/getting-started/other-formats
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """Something that takes time on a track."""

    process: str
    """Under which the track stands, such as a pipeline or a pass of a layer."""
    track: str
    name: str
    category: str
    start_s: float
    end_s: float
    facts: dict[str, Any] = field(default_factory=dict)


def trace_text(slices: Iterable[Slice], facts: dict[str, Any]) -> str:
    """The trace as JSON; times in microseconds to the nanosecond, counted from the first slice of all.

    Args:
        slices: In any order. Two on one track must not overlap, but for what rounding does.
        facts: About the trace.
    """
    by_track: dict[tuple[str, str], list[Slice]] = {}
    for one in slices:
        by_track.setdefault((one.process, one.track), []).append(one)
    events: list[dict[str, Any]] = []
    processes = {name: at for at, name in enumerate(dict.fromkeys(process for process, _ in by_track), start=1)}
    for process, number in processes.items():
        events.append(_named("process_name", process, number, 0))
    for thread, ((process, track), found) in enumerate(by_track.items(), start=1):
        events.append(_named("thread_name", track, processes[process], thread))
        sort = {"name": "thread_sort_index", "ph": "M", "pid": processes[process], "tid": thread}
        events.append(sort | {"args": {"sort_index": thread}})
        events += _on_track(found, processes[process], thread)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": facts}, allow_nan=False) + "\n"


def _named(what: str, name: str, process: int, thread: int) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def _on_track(slices: Sequence[Slice], process: int, thread: int) -> list[dict[str, Any]]:
    """Events one after another: ends that rounding puts behind the next start are moved to it."""
    events = []
    ordered = sorted(slices, key=lambda one: (one.start_s, one.end_s))
    starts = [round(one.start_s * NS_PER_S) for one in ordered]
    for at, one in enumerate(ordered):
        end = round(one.end_s * NS_PER_S)
        if at + 1 < len(ordered):
            over_s = one.end_s - ordered[at + 1].start_s
            assert over_s <= 1e-9 * max(1.0, abs(one.end_s)), f"{one.name} runs into {ordered[at + 1].name}"
            end = min(end, starts[at + 1])
        event = {
            "name": one.name,
            "cat": one.category,
            "ph": "X",
            "pid": process,
            "tid": thread,
            "ts": starts[at] / 1000,
            "dur": max(0, end - starts[at]) / 1000,
        }
        events.append(event | ({"args": one.facts} if one.facts else {}))
    return events


def first_free_lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """For each span, in order of their starts, the first lane on which nothing runs then."""
    free_at: list[float] = []
    lanes = [0] * len(spans)
    for at in sorted(range(len(spans)), key=lambda k: spans[k]):
        start, end = spans[at]
        lane = next((k for k, free in enumerate(free_at) if free <= start), len(free_at))
        if lane == len(free_at):
            free_at.append(end)
        free_at[lane] = end
        lanes[at] = lane
    return lanes
