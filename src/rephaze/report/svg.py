"""Drawing: elements of SVG as text, escaped; axes with round numbers. Colours are classes of the style sheet."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

WIDTH = 760.0
"""Of every figure, in its own units; the page scales it to what there is."""
CHAR_WIDTH = 6.4
"""Of a character at the figures' font size, about."""


def number(value: float) -> str:
    """A coordinate: two decimals are finer than any screen."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def tag(name: str, body: str = "", **attributes: str | float | None) -> str:
    """An element; ``class_`` and ``data_x`` become ``class`` and ``data-x``, None leaves an attribute out.

    Args:
        name: Of the element.
        body: Its content, made by these functions: it is not escaped.
        attributes: Their values are.
    """
    parts = [name]
    for key, value in attributes.items():
        if value is None:
            continue
        text = value if isinstance(value, str) else number(value)
        parts.append(f'{key.rstrip("_").replace("_", "-")}="{escape(text)}"')
    opening = " ".join(parts)
    return f"<{opening}>{body}</{name}>" if body else f"<{opening}/>"


def label(x: float, y: float, text: str, anchor: str = "start", **attributes: str | float | None) -> str:
    """Text at a point: ``start``, ``middle`` or ``end`` of it is there."""
    given = None if anchor == "start" else anchor
    return tag("text", escape(text, quote=False) or " ", x=x, y=y, text_anchor=given, **attributes)


def shortened(text: str, width: float) -> str:
    """The text, cut with an ellipsis where it is too wide."""
    most = max(int(width / CHAR_WIDTH), 1)
    return text if len(text) <= most else text[: max(most - 1, 1)] + "…"


def drawing(height: float, body: str, title: str, **attributes: str | float | None) -> str:
    """A whole figure of the common width."""
    box = f"0 0 {number(WIDTH)} {number(height)}"
    return tag("svg", body, viewBox=box, role="img", aria_label=title, **attributes)


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two others, at most so many."""
    if not high > low:
        return [low]
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw)
    first = math.ceil(low / step - 1e-9)
    return [step * at for at in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between two numbers; where there are few of them also twice and five times those."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1.0,) if len(powers) > 4 else (1.0, 2.0, 5.0)
    found = [factor * 10.0**power for power in powers for factor in factors]
    return [value for value in found if low <= value * (1 + 1e-9) and value <= high * (1 + 1e-9)]


def shown(value: float) -> str:
    """A number as a tick has it."""
    if value and not 1e-3 <= abs(value) < 1e7:
        return f"{value:.3g}"
    return f"{value:,.6g}" if abs(value) < 1000 else f"{value:,.0f}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """Numbers to positions on an axis."""

    low: float
    high: float
    begin: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        """Where a number stands."""
        if self.is_log:
            part = math.log(max(value, 1e-300) / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / ((self.high - self.low) or 1.0)
        return self.begin + part * (self.end - self.begin)

    @property
    def ticks(self) -> list[float]:
        """Numbers to be written at it."""
        return log_ticks(self.low, self.high) if self.is_log else round_ticks(self.low, self.high)


def x_axis(scale: Scale, top: float, bottom: float, title: str, ticks: str = "") -> str:
    """Lines from top to bottom at round numbers, which are written below.

    Args:
        scale: Of the axis.
        top: Of the lines.
        bottom: Of the lines.
        title: Written below the numbers.
        ticks: Class of the group of lines and numbers, if a script is to find it.
    """
    marks = "".join(
        tag("line", class_="grid", x1=scale(value), x2=scale(value), y1=top, y2=bottom)
        + label(scale(value), bottom + 16, shown(value), "middle", class_="tick")
        for value in scale.ticks
    )
    middle = (scale.begin + scale.end) / 2
    return tag("g", marks, class_=ticks or None) + label(middle, bottom + 34, title, "middle", class_="axis")


def y_axis(scale: Scale, left: float, right: float, title: str, written: Callable[[float], str] = shown) -> str:
    """Lines from left to right at round numbers, which are written beside them, the title above."""
    marks = "".join(
        tag("line", class_="grid", x1=left, x2=right, y1=scale(value), y2=scale(value))
        + label(left - 7, scale(value) + 4, written(value), "end", class_="tick")
        for value in scale.ticks
    )
    return marks + label(left - 50, min(scale.begin, scale.end) - 12, title, class_="axis")


def rows_of(count: int, wide: float, high: float) -> list[int]:
    """How many equal cells each row takes so that they come near to squares; rows differ by one at most."""
    if count < 1:
        return []
    num_rows = min(max(round(math.sqrt(count * high / wide)), 1), count) if wide > 0 and high > 0 else 1
    return [count // num_rows + (row < count % num_rows) for row in range(num_rows)]
