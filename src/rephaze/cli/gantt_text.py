"""A schedule as a Gantt chart of characters, one lane per core that is ever busy."""

from __future__ import annotations

from rich.text import Text

from rephaze.api.present import printable
from rephaze.types.latency import Engine
from rephaze.types.schedule import Mode, Schedule, ScheduleProblem

_COLORS = {Engine.TENSOR: "blue", Engine.VECTOR: "green", Engine.FUSED: "magenta", Engine.LINK: "yellow"}


def gantt_lines(problem: ScheduleProblem, schedule: Schedule, width: int) -> list[Text]:
    """Lines in colours: lanes of bars, named where there is room, and a time axis below.

    Args:
        problem: What was scheduled.
        schedule: Its answer.
        width: Characters a line.
    """
    ops = {op.name: op for op in problem.ops}
    timed = [
        (start.start_cycles, start.way_of(ops[start.op]).cycles, ops[start.op], start.mode)
        for start in schedule.starts
    ]
    bars = sorted((item for item in timed if item[1] > 0), key=lambda item: (item[0], item[2].name))
    if not bars:
        return []
    lanes: list[tuple[str, int, list[tuple[int, int, str, str]]]] = []
    columns = max(10, width - 11)
    per_column = schedule.makespan_cycles / columns
    for begin, cycles, op, mode in bars:
        label = {
            Engine.TENSOR: "tensor",
            Engine.VECTOR: "vector",
            Engine.FUSED: "fused",
            Engine.LINK: "link",
        }[op.engine]
        if mode is Mode.ALL_CORES:
            label += " all"
        # The first lane of this kind that is free takes the bar: lanes then count what runs at once.
        lane = next((k for k, (name, free, _) in enumerate(lanes) if name == label and free <= begin), None)
        if lane is None:
            lanes.append((label, 0, []))
            lane = len(lanes) - 1
        lanes[lane][2].append((begin, begin + cycles, op.name, _COLORS[op.engine]))
        lanes[lane] = (label, begin + cycles, lanes[lane][2])
    lines = []
    for label, _, drawn in sorted(lanes, key=lambda lane: lane[0]):
        line, at = Text(f"{label:>10} "), 0
        for begin, end, name, color in drawn:
            left, right = round(begin / per_column), round(end / per_column)
            left, right = max(at, left), max(at, left, right)
            text = name[: right - left - 1] if right - left > 1 else ""
            line.append(" " * (left - at))
            line.append(printable(text).ljust(right - left), style=f"black on {color}")
            at = right
        lines.append(line)
    axis = f"{'cycles':>10} 0" + f"{schedule.makespan_cycles:,}".rjust(columns - 1)
    return [*lines, Text(axis)]
