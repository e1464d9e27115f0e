"""A scenario: the space, the cluster and the training settings a search starts from."""

from __future__ import annotations

from dataclasses import dataclass

from rephaze.types.cluster import Cluster
from rephaze.types.space import DesignSpace


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSettings:
    """How a model is trained, before a plan is chosen."""

    global_batch: int
    """Samples in one optimizer step, over the whole cluster."""
    microbatches: tuple[int, ...]
    """Microbatch sizes to try, in samples."""
    tp_degrees: tuple[int, ...]
    """Tensor-parallel degrees to try, where the model allows them."""
    recompute: tuple[str, ...]
    """Recompute modes to try: ``none``, ``block``, ``stage``."""
    optimizer: str
    precision: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """Everything a search needs besides the models."""

    name: str
    title: str
    space: DesignSpace
    cluster: Cluster
    training: TrainingSettings
    estimate_model: str
    """``default`` or ``paper``: how operators are timed."""
    placement_model: str
    """``1f1b`` or ``paper``: how a plan is timed."""
    all_cores_excludes: str
    """``engine`` or ``chip``: what an operator on all cores keeps from running."""
    attention: str
    """``fused`` or ``eager``."""
