"""One number to maximise: a model's objective from its throughput, several models' from theirs.

Both are monotone in every throughput, so bounds on throughputs give a bound on the objective.

Axis letters: m = model, d = design.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rephaze.errors import SpecError
from rephaze.types.search import Aggregate, SearchSettings

Floats = NDArray[np.float64]


def check_weights(settings: SearchSettings) -> None:
    """Raise unless there is one positive weight for each model."""
    if len(settings.weights) != len(settings.models):
        rule = f"must list one weight for each of the {len(settings.models)} models"
        raise SpecError("weights", list(settings.weights), rule)
    for weight in settings.weights:
        if not weight > 0 or not np.isfinite(weight):
            raise SpecError("weights", list(settings.weights), "must all be positive")


def combine(values_md: Floats, weights: tuple[float, ...], aggregate: Aggregate) -> Floats:
    """The objective of each design from each model's value on it.

    Args:
        values_md: Throughputs (per area, watt or dollar); zero where nothing fits.
        weights: One a model. Mean and geometric mean are weighted; the worst case is of value / weight.
        aggregate: How.

    Returns:
        One value a design; zero as soon as one model does not fit.
    """
    weight_m = np.asarray(weights, dtype=np.float64)
    share_m = weight_m / weight_m.sum()
    fits_d = (values_md > 0).all(axis=0)
    safe_md = np.where(values_md > 0, values_md, 1.0)
    if aggregate is Aggregate.MEAN:
        combined = (safe_md * share_m[:, None]).sum(axis=0)
    elif aggregate is Aggregate.GEOMEAN:
        combined = np.exp((np.log(safe_md) * share_m[:, None]).sum(axis=0))
    else:
        combined = (safe_md / weight_m[:, None]).min(axis=0)
    return np.where(fits_d, combined, 0.0)
