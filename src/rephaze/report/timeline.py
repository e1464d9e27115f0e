"""A pipeline as its devices run a batch, pass by pass: drawn whole, zoomed in the browser."""

from __future__ import annotations

from rephaze.report.figure import Figure, Series
from rephaze.report.svg import WIDTH, Scale, drawing, label, tag, x_axis
from rephaze.types.plan_account import PlanTimeline
from rephaze.types.readable import amount
from rephaze.units import S_PER_MS

LEFT, RIGHT, TOP = 70.0, 16.0, 8.0
MOST_HIGH, LEAST_ROW, MOST_ROW = 420.0, 4.0, 34.0
UNITS = 1000.0
"""Of the inner drawing along the batch; the page's script knows it."""
MOST_LABELS = 24

KINDS = {
    "forward": ("forward", "1"),
    "backward": ("backward, replay included", "2"),
    "weight": ("weight part of backward, put off", "6"),
    "message": ("waiting for a message", "5"),
    "scatter": ("gradients left to sum", "3"),
    "sync": ("sync of gradients", "9"),
    "tied": ("tied weights", "7"),
    "step": ("optimizer step", "10"),
    "regather": ("weights gathered anew", "4"),
}


def timeline_figure(model: str, timeline: PlanTimeline) -> Figure:
    """A row for each device, a rectangle for each pass; what is white waits."""
    count = timeline.num_devices
    row = min(max(MOST_HIGH / count, LEAST_ROW), MOST_ROW)
    high, wide = row * count, WIDTH - LEFT - RIGHT
    last_ms = timeline.batch_s / S_PER_MS
    scale = Scale(low=0.0, high=last_ms, begin=LEFT, end=WIDTH - RIGHT)
    inner = [tag("rect", class_="ground", x=0.0, y=0.0, width=UNITS, height=float(count))]
    for kind, name in enumerate(timeline.kinds):
        path = _rectangles(timeline, kind)
        if path:
            inner.append(f'<path class="f{KINDS[name][1]}" data-s="{name}" d="{path}"/>')
    if timeline.left_out_to_s > 0:
        begin, end = (UNITS * at / timeline.batch_s for at in (timeline.left_out_from_s, timeline.left_out_to_s))
        said = "passes in the middle of the batch, not drawn"
        inner.append(
            tag("rect", class_="f11", data_t=said, x=begin, y=0.0, width=end - begin, height=float(count))
        )
    part = tag(
        "svg",
        "".join(inner),
        class_="zoom events",
        x=LEFT,
        y=TOP,
        width=wide,
        height=high,
        viewBox=f"0 0 {UNITS:g} {count}",
        preserveAspectRatio="none",
        data_last=repr(last_ms),
        data_rows=str(count),
    )
    every = -(-count // MOST_LABELS)
    names = "".join(
        label(
            LEFT - 8,
            TOP + row * (at + 0.5) + 4,
            f"device {at + 1}" if row > 14 else str(at + 1),
            "end",
            class_="tick",
        )
        for at in range(0, count, every)
    )
    body = x_axis(scale, TOP, TOP + high, "time in the batch (ms)", "xticks") + names + part
    used = [name for kind, name in enumerate(timeline.kinds) if kind in set(timeline.kind_e)]
    note = (
        f"One pipeline, microbatches: {timeline.num_microbatches:,}; replayed by events, "
        f"{amount(last_ms)} ms. Buttons or the keys + and - zoom, arrow keys or dragging move, 0 shows all."
    )
    if timeline.left_out_to_s > 0:
        note += " Grey: passes in the middle, which go on alike and are left out."
    return Figure(
        name=f"timeline-{model}",
        title=f"A pipeline of {model} through a batch",
        svg=drawing(TOP + high + 42, body, f"Timeline of a pipeline of {model}"),
        header=("device", "what", "microbatch", "start_ms", "end_ms"),
        rows=_rows(timeline),
        legend=[Series(key=name, name=KINDS[name][0], colour=KINDS[name][1]) for name in KINDS if name in used],
        note=note,
        is_zoomable=True,
    )


def _rectangles(timeline: PlanTimeline, kind: int) -> str:
    """All passes of a kind as one path: a page with thousands of elements is slow."""
    parts = []
    columns = zip(timeline.kind_e, timeline.device_e, timeline.start_s_e, timeline.end_s_e, strict=True)
    for own, device, start_s, end_s in columns:
        if own == kind:
            x, wide = UNITS * start_s / timeline.batch_s, UNITS * (end_s - start_s) / timeline.batch_s
            # A sliver stays free, so that equal passes one after the other are told apart.
            parts.append(f"M{x:.7g} {device + 0.08:g}h{0.985 * wide:.5g}v.84h-{0.985 * wide:.5g}z")
    return "".join(parts)


def _rows(timeline: PlanTimeline) -> list[list[str | int | float | None]]:
    columns = zip(
        timeline.device_e,
        timeline.kind_e,
        timeline.microbatch_e,
        timeline.start_s_e,
        timeline.end_s_e,
        strict=True,
    )
    return [
        [
            device + 1,
            timeline.kinds[kind],
            None if microbatch < 0 else microbatch + 1,
            float(f"{start_s / S_PER_MS:.7g}"),
            float(f"{end_s / S_PER_MS:.7g}"),
        ]
        for device, kind, microbatch, start_s, end_s in columns
    ]
