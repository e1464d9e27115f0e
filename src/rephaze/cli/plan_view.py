"""Plans as tables: stages with their loads and memory bars, where the time goes, what is left of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from rephaze.units import GIB, S_PER_MS

if TYPE_CHECKING:
    from rich.console import Console

    from rephaze.place.why_not import Alternative
    from rephaze.types.placement import BatchTime, Placement, PlacementProblem, PricedPlan, StageCost

_BAR_WIDTH = 16
_MOST_ROWS = 40
_TIMELINE_WIDTH = 72
_LETTERS = {"forward": "F", "backward": "B", "sync": "S", "tied": "T", "step": "O"}
_LETTER_STYLES = {"F": "cyan", "B": "green", "S": "yellow", "T": "yellow", "O": "magenta", "·": "dim"}
# What a device holds, as drawn in its bar.
_PARTS = (
    ("weights_bytes", "W", "cyan"),
    ("gradients_bytes", "G", "blue"),
    ("state_bytes", "O", "magenta"),
    ("kept_bytes", "A", "green"),
    ("replay_bytes", "R", "yellow"),
    ("working_bytes", "w", "bright_black"),
)
_LEGEND = (
    "held: microbatches in flight; memory: W weights, G gradients, O optimizer state, "
    "A kept activations, R replayed ones, w working set"
)


def show_placement(
    console: Console,
    label: str,
    problem: PlacementProblem,
    placement: Placement,
    solve_s: float,
    replay_s: float | None,
    alternative: Alternative | None,
) -> None:
    """Print an answer, and the alternative asked about."""
    console.rule(Text(label))
    if placement.best is None:
        console.print(f"[bold red]{placement.status}[/] ", end="")
        console.print(placement.reason, markup=False, highlight=False)
    else:
        proof = f"{placement.status}, no plan is faster than {placement.bound_s:.6g} s"
        if placement.reason:
            proof += f" (gap {placement.gap:.2%}): {placement.reason}"
        show_plan(console, problem, placement.best, f"{proof}; solved in {solve_s / S_PER_MS:.2f} ms", replay_s)
    if alternative is not None:
        _show_alternative(console, placement, alternative)


def show_plan(
    console: Console, problem: PlacementProblem, priced: PricedPlan, note: str, replay_s: float | None
) -> None:
    """Print a plan's degrees, stages, memory and time."""
    plan = priced.plan
    console.print(
        f"[bold]{priced.batch_s:.6g} s[/] a batch with [bold]tp {plan.tp}, pp {plan.pp}, dp {plan.dp}[/], "
        f"microbatch {plan.microbatch} x {priced.num_microbatches}; "
        f"{priced.num_devices} of {problem.cluster.num_devices} devices",
        highlight=False,
    )
    replayed = f"replayed microbatch by microbatch: {replay_s:.6g} s" if replay_s is not None else ""
    if note or replayed:
        console.print("; ".join(filter(None, (note, replayed))), style="dim", highlight=False)
    console.print(_stage_table(priced))
    left = priced.margin_bytes
    told = f"{left / GIB:.3g} GiB left" if left >= 0 else f"[red]{-left / GIB:.3g} GiB over[/]"
    console.print(
        f"[dim]{_LEGEND}[/]\nfullest device: {told} of {priced.device_memory_bytes / GIB:.4g} GiB",
        highlight=False,
    )
    console.print(_time_line(priced.time), highlight=False)


def show_timeline(console: Console, events: list[dict[str, Any]]) -> None:
    """Print what each stage does when, one letter a time slice."""
    end_s = max(event["end_s"] for event in events) or 1.0
    num_stages = 1 + max(event["stage"] for event in events)
    rows = [["·"] * _TIMELINE_WIDTH for _ in range(num_stages)]
    for event in events:
        first = int(event["start_s"] / end_s * _TIMELINE_WIDTH)
        last = max(first + 1, round(event["end_s"] / end_s * _TIMELINE_WIDTH))
        for column in range(first, min(last, _TIMELINE_WIDTH)):
            rows[event["stage"]][column] = _LETTERS[event["activity"]]
    console.print(
        f"timeline, {end_s:.6g} s: F forward, B backward, S gradient sync, T tied weights, O optimizer step"
    )
    for stage, row in enumerate(rows):
        line = Text(f"{stage:>4} ")
        for letter in row:
            line.append(letter, style=_LETTER_STYLES[letter])
        console.print(line)


def _stage_table(priced: PricedPlan) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (
        ("stage", "right"), ("layers", "left"), ("chips", "right"), ("replay", "left"),
        ("load ms", "right"), ("held", "right"), ("GiB", "right"), ("memory", "left"),
    ):  # fmt: skip
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    slowest = max(stage.load_s for stage in priced.stages)
    for position, stage in enumerate(priced.stages):
        if position == _MOST_ROWS // 2 and len(priced.stages) > _MOST_ROWS:
            table.add_row("...", f"({len(priced.stages) - _MOST_ROWS} more; --json lists all)")
        if len(priced.stages) > _MOST_ROWS and (
            _MOST_ROWS // 2 <= position < len(priced.stages) - _MOST_ROWS // 2
        ):
            continue
        load = Text(f"{stage.load_s / S_PER_MS:.4g}", style="bold" if stage.load_s == slowest else "")
        size = Text(f"{stage.memory.total_bytes / GIB:.3g}", style="" if stage.fits else "bold red")
        table.add_row(
            str(position), _layer_range(stage), str(stage.num_devices), str(stage.recompute), load,
            str(stage.num_in_flight), size, _memory_bar(stage, priced.device_memory_bytes),
        )  # fmt: skip
    return table


def _layer_range(stage: StageCost) -> str:
    names = stage.layers
    if len(names) <= 2:
        return ", ".join(names)
    return f"{_short(names[0])}..{_short(names[-1])} ({len(names)})"


def _memory_bar(stage: StageCost, memory_bytes: float) -> Text:
    """A bar as long as the memory; letters are what fills it, an arrow says that it does not fit."""
    bar = Text()
    scale = _BAR_WIDTH / memory_bytes
    drawn, filled = 0, 0.0
    for name, letter, color in _PARTS:
        filled += getattr(stage.memory, name) * scale
        upto = min(round(filled), _BAR_WIDTH)
        bar.append(letter * (upto - drawn), style=color)
        drawn = max(drawn, upto)
    bar.append("·" * (_BAR_WIDTH - drawn), style="dim")
    if not stage.fits:
        bar.append(">", style="bold red")
    return bar


def _time_line(time: BatchTime) -> str:
    parts = (
        ("compute", time.compute_s), ("replay", time.replay_s), ("transfers", time.transfer_s),
        ("bubble", time.bubble_s), ("gradient sync", time.sync_s), ("tied weights", time.tied_s),
        ("optimizer", time.step_s),
    )  # fmt: skip
    total = time.total_s or 1.0
    shown = ", ".join(f"{name} {part / total:.1%}" for name, part in parts if part > 0)
    return f"time: {shown}"


def _show_alternative(console: Console, placement: Placement, alternative: Alternative) -> None:
    limits = alternative.limits
    names = ("tp", "pp", "dp", "microbatch", "recompute")
    chosen = ", ".join(f"{name} {getattr(limits, name)}" for name in names if getattr(limits, name) is not None)
    console.print(f"\n[bold]Why not {chosen}?[/] ", end="", highlight=False)
    console.print(alternative.text, markup=False, highlight=False)
    best, other = placement.best, alternative.placement.best
    if best is None or other is None:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "optimum" if placement.status == "optimal" else "best found", "alternative", "difference"):
        table.add_column(name, justify="right" if name else "left")
    rows = [("batch s", best.batch_s, other.batch_s)]
    rows += [
        (part, getattr(best.time, f"{part}_s"), getattr(other.time, f"{part}_s")) for part in alternative.loss_s
    ]
    for name, here, there in rows:
        if here or there:
            table.add_row(name, f"{here:.6g}", f"{there:.6g}", f"{there - here:+.4g}")
    here, there = best.margin_bytes / GIB, other.margin_bytes / GIB
    table.add_row("memory left GiB", f"{here:.4g}", f"{there:.4g}", f"{there - here:+.4g}")
    console.print(table)
    plan = other.plan
    console.print(
        f"the alternative: tp {plan.tp}, pp {plan.pp}, dp {plan.dp}, microbatch {plan.microbatch}; "
        f"{alternative.placement.status}, none such is faster than {alternative.placement.bound_s:.6g} s",
        highlight=False,
    )


def _short(name: str) -> str:
    """The end of a dotted name, enough to tell a layer: ``h.12`` of ``transformer.h.12``."""
    return ".".join(name.split(".")[-2:])
