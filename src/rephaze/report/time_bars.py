"""Where the time of a batch goes, for the winner and everything it is set beside: a bar each, by cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rephaze.report.figure import Cell, Figure, Series
from rephaze.report.svg import WIDTH, Scale, drawing, label, shortened, tag, x_axis
from rephaze.types.plan_account import PlanAccount
from rephaze.types.readable import amount
from rephaze.units import S_PER_MS

LEFT, RIGHT, TOP, ROW, THICK = 190.0, 66.0, 10.0, 24.0, 16.0

RESOURCES = {
    "array": ("compute bound by arrays", "1"),
    "lanes": ("compute bound by vector lanes", "6"),
    "buffer": ("compute bound by the global buffer", "4"),
    "hbm": ("compute bound by HBM", "7"),
    "link": ("transfers inside layers", "3"),
}
CAUSES = {
    "replay": (("replay_s",), "recompute: what was not kept", "2"),
    "transfers": (("messages_s", "gathers_s"), "exposed transfers between stages and of weights", "5"),
    "bubble": (("bubble_s",), "bubble: waiting for other stages", "11"),
    "sync": (("sync_s", "tied_s", "regather_s"), "sync of gradients and weights", "9"),
    "step": (("step_s",), "optimizer step", "10"),
}
LEAST_PART = 1e-6
"""Of a batch: less is not drawn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeRow:
    """One bar."""

    name: str
    account: PlanAccount
    is_own: bool = False


def parts_of(account: PlanAccount) -> list[tuple[str, str, str, float]]:
    """The batch by parts: key, words, colour, seconds. They add up to it."""
    causes = account.causes
    shares = {name: part for name, part in account.bound_by_fractions.items() if name in RESOURCES}
    total = sum(shares.values())
    if not total:
        found = [("compute", "compute", "1", causes.compute_s)]
    else:
        found = [
            (name, *RESOURCES[name], causes.compute_s * shares[name] / total)
            for name in RESOURCES
            if name in shares
        ]
    for key, (fields, words, colour) in CAUSES.items():
        found.append((key, words, colour, sum(getattr(causes, name) for name in fields)))
    return [part for part in found if part[3] > LEAST_PART * causes.total_s]


def time_figure(model: str, rows: Sequence[TimeRow], *, as_share: bool) -> Figure:
    """Bars of milliseconds, or of shares of the batch.

    Args:
        model: Whose batch.
        rows: The winner first.
        as_share: Every bar as long as any other.
    """
    longest_ms = max(row.account.causes.total_s for row in rows) / S_PER_MS
    scale = Scale(low=0.0, high=100.0 if as_share else longest_ms, begin=LEFT, end=WIDTH - RIGHT)
    bottom = TOP + ROW * len(rows)
    unit = "share of the batch (%)" if as_share else "time of a batch (ms)"
    body, seen = [x_axis(scale, TOP, bottom, unit)], {}
    data: list[list[Cell]] = []
    for at, row in enumerate(rows):
        y, total_s, before = TOP + ROW * at + (ROW - THICK) / 2, row.account.causes.total_s, 0.0
        name = shortened(row.name, LEFT - 8)
        body.append(label(LEFT - 8, y + 12, name, "end", class_="strong" if row.is_own else None, data_t=row.name))
        for key, words, colour, part_s in parts_of(row.account):
            seen[key] = Series(key=key, name=words, colour=colour)
            part = 100 * part_s / total_s if as_share else part_s / S_PER_MS
            said = f"{row.name}\n{words}: {amount(part_s / S_PER_MS)} ms, {part_s / total_s:.1%} of the batch"
            body.append(
                tag(
                    "rect",
                    class_=f"f{colour} edge",
                    data_s=key,
                    data_t=said,
                    x=scale(before),
                    y=y,
                    width=max(scale(before + part) - scale(before), 0.4),
                    height=THICK,
                )
            )
            before += part
            data.append([row.name, model, words, part_s / S_PER_MS, part_s / total_s])
        body.append(label(scale(before) + 6, y + 12, f"{amount(total_s / S_PER_MS)} ms", class_="tick"))
    order = [*RESOURCES, "compute", *CAUSES]
    how = "share" if as_share else "ms"
    return Figure(
        name=f"time-{how}-{model}",
        title=f"Where the time of a batch of {model} goes",
        svg=drawing(bottom + 42, "".join(body), f"Time of a batch of {model} by cause"),
        header=("what", "model", "cause", "time_ms", "share"),
        rows=data,
        legend=[seen[key] for key in order if key in seen],
        note=(
            "Passes of the device that has most to do, by the resource that binds each operator (in proportion to "
            "the operators' times one after the other); then what nothing hides. The parts add up to the batch."
        ),
    )
