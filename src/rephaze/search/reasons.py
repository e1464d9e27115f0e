"""Why an answer is not proven, or why there is none: in words, from what is recorded of a run alone."""

from __future__ import annotations

from collections.abc import Iterable

from rephaze.types.search import Certificate, Evaluation

UNPREPARED = "stopped before the models were prepared"


def why_unproven(*, is_complete: bool, is_proven: bool, num_unproven: int) -> str:
    """Of an answer; empty if it is proven.

    Args:
        is_complete: Nothing is open that might be better.
        is_proven: Nor is any schedule open to any effect.
        num_unproven: Designs that might do better, had their schedules been proven.
    """
    reasons = [] if is_complete else ["stopped before everything was settled"]
    if not is_proven and num_unproven:
        reasons.append(f"schedules not proven on {num_unproven:,} designs that might do better")
    return "; ".join(reasons)


def why_nothing_listed(certificate: Certificate, evaluations: Iterable[Evaluation], *, is_complete: bool) -> str:
    """Of a search through a list that found no plan."""
    if not certificate.num_designs:
        return "no design keeps to the limits of the space"
    return _why_no_plan(evaluations) if is_complete else "stopped before a plan was found"


def why_nothing_in_boxes(certificate: Certificate, evaluations: Iterable[Evaluation], *, is_complete: bool) -> str:
    """Of a search by boxes that found no plan."""
    if not is_complete:
        return "stopped before a plan was found"
    points = certificate.num_dropped_by_bound
    most = max(points, key=lambda name: points[name], default="")
    if most and sum(points.values()) == certificate.num_designs:
        part = points[most] / certificate.num_designs
        whose = f"all break its {most}" if part == 1 else f"its {most} closes most of the grid, {part:.0%}"
        return f"no design keeps to the limits of the space: {whose}"
    why = _why_no_plan(evaluations)
    part = points[most] / certificate.num_designs if most else 0.0
    return f"{why} ({part:.0%} of the grid is closed by its {most})" if most else why


def _why_no_plan(evaluations: Iterable[Evaluation]) -> str:
    reasons = {item.reason for item in evaluations if item.reason}
    return "; ".join(sorted(reasons)) or "no plan fits the memory of any design"
