"""Which measured runs are near a plan, and what they say about its price and about the choice of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import log2
from statistics import fmean, median

import numpy as np
from numpy.typing import ArrayLike

from rephaze.truth.machines import find_machine
from rephaze.truth.predictions import KeptPrediction, kept_predictions
from rephaze.truth.records import MeasuredRun
from rephaze.truth.shipped_runs import shipped_runs
from rephaze.types.chip import Chip
from rephaze.types.truth import ExpectedError, Stability

MOST_ROWS, LEAST_ROWS = 24, 4
FARTHEST = 2.0
NEAR_BEST = 1.02
NUM_DRAWS = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanFeatures:
    """Of a plan, what nearness looks at."""

    tp: int
    pp: int
    cp: int
    ep: int
    shards_weights: bool
    num_params: float
    """0: not known, and then not looked at."""
    num_devices: int

    def distance(self, other: PlanFeatures) -> float:
        """One for each way of cutting that only one has; sizes that differ by 16 count as much."""
        cuts = ("tp", "pp", "cp", "ep")
        far: float = sum((getattr(self, cut) > 1) != (getattr(other, cut) > 1) for cut in cuts)
        far += self.shards_weights != other.shards_weights
        sizes = abs(log2(self.num_devices / other.num_devices))
        if self.num_params and other.num_params:
            sizes += abs(log2(self.num_params / other.num_params))
        return far + sizes / 4


def expected_error(
    family: str | None, features: PlanFeatures, *, is_calibrated: bool = False
) -> ExpectedError | None:
    """What the nearest measured runs say; None where none is near."""
    near = sorted(
        (features.distance(other), run.line, run, kept)
        for other, run, kept in _measured()
        if find_family(run) == family and features.distance(other) <= FARTHEST
    )[:MOST_ROWS]
    if len(near) < LEAST_ROWS or family is None:
        return None
    ratios = np.array([(run.measured_s or 0.0) / kept.ideal_s for _, _, run, kept in near])
    over = np.array([(run.measured_s or 0.0) / kept.calibrated_s for _, _, run, kept in near])
    errors = [abs(kept.calibrated_s / (run.measured_s or 1.0) - 1) for _, _, run, kept in near]
    return ExpectedError(
        num_rows=len(near),
        family=family,
        sources=tuple(sorted({run.source for _, _, run, _ in near})),
        measured_over_ideal_low_ratio=float(np.quantile(ratios, 0.1)),
        measured_over_ideal_ratio=median(ratios.tolist()),
        measured_over_ideal_high_ratio=float(np.quantile(ratios, 0.9)),
        measured_over_calibrated_low_ratio=float(np.quantile(over, 0.1)),
        measured_over_calibrated_ratio=median(over.tolist()),
        measured_over_calibrated_high_ratio=float(np.quantile(over, 0.9)),
        calibrated_error_share=fmean(errors),
        is_calibrated=is_calibrated,
    )


def stability(times_s: Sequence[float], plans: Sequence[PlanFeatures]) -> Stability:
    """Of the first of these plans: errors of plans that are cut alike are alike, as nearness has it."""
    far = [[min(1.0, 0.5 * a.distance(b) + 0.25 * (a != b)) for b in plans] for a in plans]
    return _drawn(times_s, far, group_spread(), "plan")


def chip_stability(times_s: Sequence[float], chips: Sequence[Chip]) -> Stability:
    """Of the first of these chips, each with its own best plan: errors of chips that are built alike are alike.

    Their errors differ as those of measured chips do; as far apart as those are chips of which the arrays, the
    memory or the buffer is twice that of the other.
    """
    sizes = np.log2([(one.peak_flops_per_s, one.hbm_bytes_per_s, one.global_buffer_bytes) for one in chips])
    far = np.minimum(1.0, np.abs(sizes[:, None] - sizes[None, :]).sum(axis=2))
    return _drawn(times_s, far, chip_spread(), "chip")


def _drawn(times_s: Sequence[float], far: ArrayLike, spread: float, chosen: str) -> Stability:
    """How often the first stays near the best, if errors go the more their own way the farther choices are."""
    covariance = spread**2 * (1 - np.asarray(far))
    # Distances need not make a covariance: what is negative of it is left out.
    values, vectors = np.linalg.eigh(covariance)
    draws = np.random.default_rng(0).standard_normal((NUM_DRAWS, len(times_s)))
    errors = draws @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    times = np.array(times_s) * np.exp(errors)
    share = float(np.mean(times[:, 0] <= NEAR_BEST * times.min(axis=1)))
    return Stability(
        num_plans=len(times_s), num_draws=NUM_DRAWS, near_best_share=share, spread_factor=spread, chosen=chosen
    )


@cache
def group_spread() -> float:
    """Standard deviation of the errors of plans inside one group of measured runs; half of it by the median."""
    groups: dict[str, list[float]] = {}
    for _, run, kept in _measured():
        if run.group:
            groups.setdefault(run.group, []).append(float(np.log(kept.calibrated_s / (run.measured_s or 1.0))))
    own = [error - median(errors) for errors in groups.values() if len(errors) > 2 for error in errors]
    # The median keeps plans out that collapse near the end of the memory.
    return 1.4826 * median(map(abs, own))


@cache
def chip_spread() -> float:
    """Standard deviation, by the median, of the errors of whole chips: of the middle error of all runs on each."""
    chips: dict[str, list[float]] = {}
    for _, run, kept in _measured():
        machine = find_machine(run.chip)
        if machine is not None:
            error = float(np.log(kept.calibrated_s / (run.measured_s or 1.0)))
            chips.setdefault(machine.name, []).append(error)
    middles = [median(errors) for errors in chips.values() if len(errors) >= LEAST_ROWS]
    return 1.4826 * median(abs(one - median(middles)) for one in middles)


def find_family(run: MeasuredRun) -> str:
    """Of the chip of a run."""
    machine = find_machine(run.chip)
    return machine.family if machine else ""


@cache
def _measured() -> tuple[tuple[PlanFeatures, MeasuredRun, KeptPrediction], ...]:
    pairs = zip(shipped_runs(), kept_predictions(), strict=True)
    return tuple((features_of_run(run), run, kept) for run, kept in pairs)


def features_of_run(run: MeasuredRun) -> PlanFeatures:
    """Of a measured run."""
    shape, plan = run.shape, run.plan
    heads = shape.heads + shape.kv_heads
    attention = 2 * shape.hidden * shape.head_dim * heads
    feed_forward = (3 if shape.is_gated else 2) * shape.hidden * shape.ffn
    if shape.experts:
        feed_forward = 3 * shape.hidden * shape.experts.ffn * shape.experts.num_experts
    return PlanFeatures(
        tp=plan.tp,
        pp=plan.pp,
        cp=plan.cp,
        ep=plan.ep,
        shards_weights=plan.sharding == "weights",
        num_params=shape.num_blocks * (attention + feed_forward) + 2.0 * shape.vocab * shape.hidden,
        num_devices=plan.num_devices,
    )
