"""Bars of ratios to a common reference: baselines over the first, changed searches over the unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rephaze.report.figure import Figure
from rephaze.report.svg import WIDTH, Scale, drawing, label, shortened, tag, x_axis
from rephaze.types.readable import amount

LEFT, RIGHT, TOP, ROW, THICK = 210.0, 70.0, 10.0, 26.0, 16.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RatioBar:
    """One bar: how many times the reference."""

    name: str
    ratio: float
    objective: float
    colour: str


def ratio_figure(
    name: str, title: str, bars: Sequence[RatioBar], axis: str, base: float, note: str = ""
) -> Figure:
    """Bars from ``base`` to each ratio.

    Args:
        name: Of the figure.
        title: Of the figure.
        bars: From top to bottom.
        axis: What a ratio is of.
        base: 0 for bars of whole values, 1 for changes.
        note: Below it.
    """
    most = 1.05 * max([base, *(bar.ratio for bar in bars)])
    least = 0.0 if base == 0 else min([1.0, *(bar.ratio for bar in bars)]) * 0.95
    scale = Scale(low=least, high=most, begin=LEFT, end=WIDTH - RIGHT)
    bottom = TOP + ROW * max(len(bars), 1)
    body = [x_axis(scale, TOP, bottom, axis)]
    for at, bar in enumerate(bars):
        y = TOP + ROW * at + (ROW - THICK) / 2
        left, right = sorted((scale(base), scale(bar.ratio)))
        said = f"{bar.name}\n{amount(bar.objective, 5)}, {bar.ratio:.3f} times"
        body.append(label(LEFT - 8, y + 12, shortened(bar.name, LEFT - 10), "end", data_t=bar.name))
        body.append(
            tag(
                "rect",
                class_=f"f{bar.colour}",
                data_t=said,
                x=left,
                y=y,
                width=max(right - left, 1.0),
                height=THICK,
            )
        )
        body.append(label(max(right, scale(base)) + 6, y + 12, f"{bar.ratio:.2f}x", class_="tick"))
    return Figure(
        name=name,
        title=title,
        svg=drawing(bottom + 42, "".join(body), title),
        header=("what", "objective", "ratio"),
        rows=[[bar.name, bar.objective, bar.ratio] for bar in bars],
        note=note,
    )
