"""A small Bayesian optimiser over a table of candidates: Gaussian process, expected improvement, seeded.

Axis letters: n = point known, k = candidate, f = feature.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LENGTHS = (0.1, 0.2, 0.4, 0.8)
"""Length scales tried, in units of a feature's range; the likeliest is used."""
NOISE = 1e-6
"""On the diagonal, for a stable factorisation: values themselves are exact."""
NUM_CANDIDATES = 2048
"""Points whose promise is computed at a time: a sample is as good as all, and keeps memory small."""


def minimise(
    points_kf: Floats, cost: Callable[[int], float], budget: int, seed: int
) -> tuple[int | None, dict[int, float]]:
    """The cheapest point found, and the cost of every point tried; None if none is finite.

    Args:
        points_kf: The candidates' features, each scaled to 0..1.
        cost: Of one candidate: positive, or infinite where it cannot run.
        budget: How many costs may be asked for.
        seed: Of everything random: equal seeds try equal points.
    """
    rng = np.random.default_rng(seed)
    budget = min(budget, len(points_kf))
    # A fifth of the budget, at least five: enough to fit a length scale before it is trusted.
    num_first = min(budget, max(5, budget // 5))
    tried: dict[int, float] = {}
    for k in rng.choice(len(points_kf), size=num_first, replace=False).tolist():
        tried[k] = cost(k)
    while len(tried) < budget:
        k = _most_promising(points_kf, tried, rng)
        tried[k] = cost(k)
    best = min(tried, key=lambda k: (tried[k], k), default=None)
    if best is None or not math.isfinite(tried[best]):
        return None, tried
    return best, tried


def unit_features(columns: list[NDArray[np.int64]]) -> Floats:
    """Positive columns as features: logarithms scaled to 0..1; a constant column is 0."""
    logs = np.log2(np.stack(columns, axis=1).astype(np.float64))
    low = logs.min(axis=0)
    spread = logs.max(axis=0) - low
    scaled: Floats = (logs - low) / np.where(spread > 0, spread, 1.0)
    return scaled


def _most_promising(points_kf: Floats, tried: dict[int, float], rng: np.random.Generator) -> int:
    """The untried candidate with the largest expected improvement, among a random sample."""
    is_open = np.ones(len(points_kf), dtype=bool)
    is_open[list(tried)] = False
    left = np.flatnonzero(is_open)
    if len(left) > NUM_CANDIDATES:
        left = np.sort(rng.choice(left, size=NUM_CANDIDATES, replace=False))
    known = [k for k, value in tried.items() if math.isfinite(value) and value > 0]
    if len(known) < 2:
        return int(left[rng.integers(len(left))])
    values_n = np.log([tried[k] for k in known])
    spread = float(values_n.std()) or 1.0
    target_n = (values_n - values_n.mean()) / spread
    mean_k, deviation_k = _posterior(points_kf[known], target_n, points_kf[left])
    return int(left[int(np.argmax(_expected_improvement(mean_k, deviation_k, float(target_n.min()))))])


def _posterior(x_nf: Floats, y_n: Floats, x_kf: Floats) -> tuple[Floats, Floats]:
    """Mean and deviation at the candidates, under the likeliest length scale."""
    between_nn, between_kn = _distances(x_nf, x_nf), _distances(x_kf, x_nf)
    fits = []
    for length in LENGTHS:
        factor = np.linalg.cholesky(_matern(between_nn / length) + NOISE * np.eye(len(x_nf)))
        white_n = np.linalg.solve(factor, y_n)
        likelihood = -0.5 * float(white_n @ white_n) - float(np.log(np.diag(factor)).sum())
        fits.append((likelihood, length, factor, white_n))
    _, length, factor, white_n = max(fits, key=lambda fit: fit[0])
    white_nk = np.linalg.solve(factor, _matern(between_kn / length).T)
    variance_k = np.maximum(1.0 - (white_nk**2).sum(axis=0), 1e-12)
    return white_nk.T @ white_n, np.sqrt(variance_k)


def _distances(a_nf: Floats, b_kf: Floats) -> Floats:
    squared = ((a_nf[:, None, :] - b_kf[None, :, :]) ** 2).sum(axis=2)
    distances: Floats = np.sqrt(squared)
    return distances


def _matern(scaled: Floats) -> Floats:
    """Matérn 5/2: twice differentiable, the usual choice for costs of designs."""
    root = math.sqrt(5.0) * scaled
    kernel: Floats = (1.0 + root + root**2 / 3.0) * np.exp(-root)
    return kernel


def _expected_improvement(mean_k: Floats, deviation_k: Floats, best: float) -> Floats:
    gain_k = best - mean_k
    z_k = gain_k / deviation_k
    density_k = np.exp(-0.5 * z_k**2) / math.sqrt(2.0 * math.pi)
    below_k = 0.5 * (1.0 + np.array([math.erf(z / math.sqrt(2.0)) for z in z_k.tolist()]))
    improvement: Floats = gain_k * below_k + deviation_k * density_k
    return improvement
