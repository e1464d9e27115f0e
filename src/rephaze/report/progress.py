"""How the answer of a search grew and its bound fell, until they met."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from rephaze.report.figure import Figure, Series
from rephaze.report.svg import WIDTH, Scale, drawing, number, tag, x_axis, y_axis
from rephaze.types.readable import amount
from rephaze.types.run_record import Incumbent
from rephaze.types.search import SearchResult

LEFT, RIGHT, TOP, HEIGHT = 76.0, 20.0, 30.0, 240.0
MOST_BOUND = 4.0
"""Times the answer: bounds above it would press the rest to the ground."""


def progress_figure(incumbents: Sequence[Incumbent], result: SearchResult, unit: str) -> Figure:
    """The best answer and the best bound as time went by, sessions end to end."""
    end = Incumbent(
        elapsed_s=result.search_s, objective=result.objective, bound=result.bound, design=result.design
    )
    steps = _end_to_end([*incumbents, end])
    finite = [value for step in steps for value in step[1:] if math.isfinite(value) and value >= 0]
    most = min(max([*finite, 1e-12]), MOST_BOUND * result.objective if result.objective > 0 else math.inf)
    bottom = TOP + HEIGHT
    across = Scale(low=0.0, high=max(steps[-1][0], 1e-9), begin=LEFT, end=WIDTH - RIGHT)
    up = Scale(low=0.0, high=1.06 * most, begin=bottom, end=TOP)
    body = [x_axis(across, TOP, bottom, "seconds of search"), y_axis(up, LEFT, WIDTH - RIGHT, unit)]
    lines = (("bound", "bound: nothing does better", 2, "5"), ("best", "best found", 1, "2"))
    for key, _, column, colour in lines:
        known = [(step[0], min(step[column], most)) for step in steps if math.isfinite(step[column])]
        if known:
            path = f"M{number(across(known[0][0]))} {number(up(known[0][1]))}"
            path += "".join(f"H{number(across(x))}V{number(up(y))}" for x, y in known[1:])
            body.append(tag("path", class_=f"line s{colour}", data_s=key, d=path))
            dots = "".join(
                tag(
                    "circle",
                    class_=f"f{colour}",
                    cx=across(x),
                    cy=up(y),
                    r=3.0,
                    data_t=f"{x:,.1f} s: {amount(y, 6)} {unit}",
                )
                for x, y in known
            )
            body.append(tag("g", dots, data_s=key))
    return Figure(
        name="progress",
        title="Best and bound over time",
        svg=drawing(bottom + 42, "".join(body), "Best and bound over time"),
        header=("elapsed_s", "best", "bound"),
        rows=[list(step) for step in steps],
        legend=[Series(key=key, name=words, colour=colour) for key, words, _, colour in lines],
        note="Bounds above four times the answer are drawn there." if max(finite, default=0.0) > most else "",
    )


def _end_to_end(incumbents: Sequence[Incumbent]) -> list[tuple[float, float, float]]:
    """Steps on one clock: each session of a resumed run counts its seconds from zero."""
    offset_s = 0.0
    steps = [(step.elapsed_s, step.objective, step.bound) for step in incumbents[:1]]
    for before, step in pairwise(incumbents):
        if step.elapsed_s < before.elapsed_s:
            offset_s += before.elapsed_s
        steps.append((offset_s + step.elapsed_s, step.objective, step.bound))
    return steps
