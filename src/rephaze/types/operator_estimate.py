"""One operator on one chip, as a person reads it."""

from __future__ import annotations

from dataclasses import dataclass

from rephaze.types.latency import Engine


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorEstimate:
    """Time, energy and what binds an operator that may use all cores of its engine."""

    layer: str
    """Layer type it belongs to."""
    direction: str
    name: str
    target: str
    engine: Engine
    num_times: int
    """Layers of this type in the model."""
    time_s: float
    """Once, on all cores."""
    one_core_s: float
    energy_j: float
    time_share: float
    """Of the model's forward and backward operators, run one after the other."""
    bound_by: str
    """array, lanes, buffer, hbm or link: the resource that takes longest."""
    num_flops: float
    """Done by the arrays (two a multiply-accumulate): causal attention skips keys above the diagonal."""
    num_model_flops: int
    """By the usual convention, which counts the full square of causal attention: to compare models by."""
    hbm_bytes: float
    hbm_share: float
    buffer_share: float
    tensor_utilization: float
    """Of the arrays' peak while it runs: work done, so never above 1."""
