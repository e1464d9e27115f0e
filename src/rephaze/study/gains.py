"""A gain split by cause: from one chip and plan to another, one thing changed at a time, in a fixed order."""

from __future__ import annotations

from dataclasses import fields, replace

from rephaze.study.yardstick import Yardstick
from rephaze.types.chip import Chip
from rephaze.types.comparison import TPUV4_EXPERT, TPUV4_SEARCHED, ChipAnswer, GainSplit, GainStep

PLACEMENT = "placement"
CAUSES: dict[str, tuple[str, ...]] = {
    "vector lanes": ("num_vector_cores", "vector_lanes", "vector_scratchpad_bytes"),
    "MACs": (
        "num_tensor_cores",
        "tensor_width",
        "tensor_depth",
        "tensor_scratchpad_bytes",
        "scratchpad_bytes_per_cycle",
    ),
    "buffer": ("global_buffer_bytes", "global_buffer_bytes_per_cycle", "global_buffer_multicast"),
    "HBM": ("num_hbm_stacks", "hbm_bytes", "hbm_bytes_per_s"),
    "clock": ("clock_hz",),
}
"""Fields of a chip that change together, in the order they are changed."""
assert {name for group in CAUSES.values() for name in group} == {f.name for f in fields(Chip)} - {"name"}


def split_gain(
    yardstick: Yardstick, expert: ChipAnswer, searched: ChipAnswer, winner: ChipAnswer
) -> GainSplit | None:
    """The winner's gain over the start as a product over causes; None if the start has no plans at all.

    Args:
        yardstick: Measures the chips on the way.
        expert: The starting chip with the expert's plans; without them the split starts at ``searched``.
        searched: The starting chip with the best plans.
        winner: Where the way ends.
    """
    if searched.objective <= 0.0 or winner.objective <= 0.0:
        return None
    has_expert = expert.objective > 0.0
    start = expert if has_expert else searched
    limit_um2 = yardstick.settings.scenario.space.area_limit_um2
    steps: list[GainStep] = []
    before = start

    def add(cause: str, answer: ChipAnswer) -> None:
        nonlocal before
        steps.append(
            GainStep(
                cause=cause,
                gain_factor=answer.objective / before.objective,
                answer=answer,
                exceeds_area_limit=answer.area_um2 > limit_um2 * (1 + 1e-12),
                is_proven=before.is_proven and answer.is_proven,
            )
        )
        before = answer

    if has_expert:
        add(PLACEMENT, searched)
    pending: list[str] = []
    ways = chips_between(searched.chip, winner.chip)
    for position, (cause, chip) in enumerate(ways):
        is_last = position == len(ways) - 1
        answer = winner if is_last else yardstick.with_searched_plans(chip)
        pending.append(cause)
        if answer.objective > 0.0:
            # A chip on the way that runs nothing has no factor of its own: it counts with the next change.
            add(" and ".join(pending), answer)
            pending = []
    note = "" if has_expert else f"starts at {TPUV4_SEARCHED}: {expert.reason}"
    return GainSplit(
        start=TPUV4_EXPERT if has_expert else TPUV4_SEARCHED,
        steps=tuple(steps),
        total_gain_factor=winner.objective / start.objective,
        is_proven=start.is_proven and winner.is_proven,
        note=note,
    )


def chips_between(first: Chip, last: Chip) -> list[tuple[str, Chip]]:
    """The chips met when the causes are changed one after the other; the last equals ``last``.

    Causes in which the two do not differ are left out, except that the four the comparison is about always show.
    """
    found = []
    chip = replace(first, name="")
    for cause, names in CAUSES.items():
        changed = replace(chip, **{name: getattr(last, name) for name in names})
        if cause == "clock" and changed == chip:
            continue
        chip = replace(changed, name=f"{first.name} to {last.name}, {cause}")
        found.append((cause, chip))
        chip = replace(chip, name="")
    return found
