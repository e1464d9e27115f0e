"""What plans show: degrees and time in a sentence, stages with their memory, where the time goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rephaze.api.placed_from import PlacedFrom
from rephaze.api.plan_rates import PlanRates
from rephaze.api.present import Block, TextTable
from rephaze.types.placement import BatchTime, PricedPlan, StageCost
from rephaze.units import GIB, S_PER_MS

if TYPE_CHECKING:
    from rephaze.api.plan_results import Alternative, EvaluatedPlan, PlacedModel
    from rephaze.types.placement import Placement, PlacementProblem

BAR_WIDTH = 16
MEMORY_PARTS = (
    ("weights_bytes", "W"),
    ("gradients_bytes", "G"),
    ("state_bytes", "O"),
    ("kept_bytes", "A"),
    ("replay_bytes", "R"),
    ("working_bytes", "w"),
)
"""What a device holds, and the letter it is drawn with in its bar."""
FREE = "·"
TOO_MUCH = ">"
LEGEND = (
    "held: microbatches in flight; memory: W weights, G gradients, O optimizer state, "
    "A kept activations, R replayed ones, w working set"
)
STAGE_HEADINGS = ("stage", "layers", "chips", "replay", "load ms", "held", "GiB", "memory")
STAGE_WORDS = frozenset({"layers", "replay", "memory"})
WHY_WORDS = frozenset({""})


def placement_blocks(found: PlacedModel) -> list[Block]:
    """The best plan with its proof, or why there is none; then the alternative asked about."""
    best = found.placement.best
    if best is None:
        blocks: list[Block] = [f"{found.label}: {found.status}: {found.placement.reason}"]
    else:
        headline = f"{found.label}: {plan_sentence(found.problem, best)}"
        blocks = [headline, *rates_said(found.rates, found.source), proof_sentence(found), *_plan_blocks(best)]
    if found.alternative is not None:
        blocks.append(f"Why not {choices_asked(found.alternative)}? {found.alternative.text}")
        if (table := alternative_table(found.placement, found.alternative)) is not None:
            blocks += [table, alternative_sentence(found.alternative)]
    return blocks


def evaluated_blocks(found: EvaluatedPlan) -> list[Block]:
    """A given plan: its time, stages and memory, and what would help if it does not fit."""
    headline = f"{found.status}: {plan_sentence(found.problem, found.priced)}"
    replayed = [replay_sentence(found.replay_s)] if found.replay_s is not None else []
    return [
        headline,
        *rates_said(found.rates),
        *replayed,
        *_plan_blocks(found.priced),
        *(f"- {remedy}" for remedy in found.remedies),
    ]


def rates_said(rates: PlanRates | None, source: PlacedFrom | None = None) -> list[str]:
    """How fast it trains, if that can be told, and at which rates if not at those of the chip's figures."""
    said = [] if rates is None else [rates.sentence]
    return [*said, source.rates_sentence] if source is not None and source.rates_sentence else said


def plan_sentence(problem: PlacementProblem, priced: PricedPlan) -> str:
    """Time of a batch, degrees, microbatches and devices."""
    plan = priced.plan
    return (
        f"{priced.batch_s:.6g} s a batch with tp {plan.tp}, pp {plan.pp}, dp {plan.dp}, "
        f"microbatch {plan.microbatch} x {priced.num_microbatches}; "
        f"{priced.num_devices} of {problem.cluster.num_devices} devices"
    )


def proof_sentence(found: PlacedModel) -> str:
    """What is proven of the plan, how long that took, and what a replay says."""
    placement = found.placement
    proof = f"{placement.status}, no plan is faster than {placement.bound_s:.6g} s"
    if placement.reason:
        proof += f" (gap {placement.gap:.2%}): {placement.reason}"
    said = [proof, f"solved in {(found.solve_s or 0.0) / S_PER_MS:.2f} ms"]
    if found.replay_s is not None:
        said.append(replay_sentence(found.replay_s))
    return "; ".join(said)


def replay_sentence(replay_s: float) -> str:
    """The time of a batch as the devices would run it."""
    return f"replayed microbatch by microbatch: {replay_s:.6g} s"


def stage_cells(position: int, stage: StageCost, device_memory_bytes: float) -> tuple[str, ...]:
    """A row under ``STAGE_HEADINGS``."""
    return (
        str(position),
        _layer_range(stage),
        str(stage.num_devices),
        str(stage.recompute),
        f"{stage.load_s / S_PER_MS:.4g}",
        str(stage.num_in_flight),
        f"{stage.memory.total_bytes / GIB:.3g}",
        memory_bar(stage, device_memory_bytes),
    )


def memory_bar(stage: StageCost, device_memory_bytes: float) -> str:
    """A bar as long as the memory; letters are what fills it, an arrow says that it does not fit."""
    bar, filled = "", 0.0
    for name, letter in MEMORY_PARTS:
        filled += getattr(stage.memory, name) * BAR_WIDTH / device_memory_bytes
        bar += letter * (min(round(filled), BAR_WIDTH) - len(bar))
    return bar.ljust(BAR_WIDTH, FREE) + ("" if stage.fits else TOO_MUCH)


def memory_sentence(priced: PricedPlan) -> str:
    """What is left, or lacking, on the fullest device."""
    left = priced.margin_bytes
    told = f"{left / GIB:.3g} GiB left" if left >= 0 else f"{-left / GIB:.3g} GiB over"
    return f"fullest device: {told} of {priced.device_memory_bytes / GIB:.4g} GiB"


def time_sentence(time: BatchTime) -> str:
    """The parts of a batch's time."""
    parts = (
        ("compute", time.compute_s), ("replay", time.replay_s), ("transfers", time.transfer_s),
        ("bubble", time.bubble_s), ("gradient sync", time.sync_s), ("tied weights", time.tied_s),
        ("optimizer", time.step_s),
    )  # fmt: skip
    total = time.total_s or 1.0
    shown = ", ".join(f"{name} {part / total:.1%}" for name, part in parts if part > 0)
    return f"time: {shown}"


def choices_asked(alternative: Alternative) -> str:
    """The choices an alternative keeps to."""
    limits = alternative.limits
    names = ("tp", "pp", "dp", "microbatch", "recompute")
    return ", ".join(f"{name} {getattr(limits, name)}" for name in names if getattr(limits, name) is not None)


def alternative_table(placement: Placement, alternative: Alternative) -> TextTable | None:
    """The best plan and the alternative side by side; None unless there are both."""
    best, other = placement.best, alternative.placement.best
    if best is None or other is None:
        return None
    pairs = [("batch s", best.batch_s, other.batch_s)]
    pairs += [
        (part, getattr(best.time, f"{part}_s"), getattr(other.time, f"{part}_s")) for part in alternative.loss_s
    ]
    rows = [
        (name, f"{here:.6g}", f"{there:.6g}", f"{there - here:+.4g}")
        for name, here, there in pairs
        if here or there
    ]
    left, other_left = best.margin_bytes / GIB, other.margin_bytes / GIB
    rows.append(("memory left GiB", f"{left:.4g}", f"{other_left:.4g}", f"{other_left - left:+.4g}"))
    ours = "optimum" if placement.status == "optimal" else "best found"
    return TextTable(headings=("", ours, "alternative", "difference"), rows=tuple(rows), left=WHY_WORDS)


def alternative_sentence(alternative: Alternative) -> str:
    """The alternative's degrees and what is proven of it."""
    placement = alternative.placement
    assert placement.best is not None, "only an alternative that fits has degrees to tell"
    plan = placement.best.plan
    return (
        f"the alternative: tp {plan.tp}, pp {plan.pp}, dp {plan.dp}, microbatch {plan.microbatch}; "
        f"{placement.status}, none such is faster than {placement.bound_s:.6g} s"
    )


def _plan_blocks(priced: PricedPlan) -> list[Block]:
    rows = tuple(
        stage_cells(position, stage, priced.device_memory_bytes) for position, stage in enumerate(priced.stages)
    )
    table = TextTable(headings=STAGE_HEADINGS, rows=rows, left=STAGE_WORDS)
    return [table, LEGEND, memory_sentence(priced), time_sentence(priced.time)]


def _layer_range(stage: StageCost) -> str:
    names = stage.layers
    if len(names) <= 2:
        return ", ".join(names)
    return f"{_short(names[0])}..{_short(names[-1])} ({len(names)})"


def _short(name: str) -> str:
    """The end of a dotted name, enough to tell a layer: ``h.12`` of ``transformer.h.12``."""
    return ".".join(name.split(".")[-2:])
