"""A scenario: the space, the cluster and the training settings a search starts from."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from rephaze.types.added_later import ADDED_LATER
from rephaze.types.cluster import Cluster
from rephaze.types.full import PlanOptions
from rephaze.types.graph import AttentionKind
from rephaze.types.placement import Optimizer, PlacementModel, PrecisionName, Recompute
from rephaze.types.schedule import Exclusion
from rephaze.types.space import DesignSpace


class EstimateModelName(StrEnum):
    """How operators are timed: the parameter sets of ``rephaze.estimate.estimate_model``, by name."""

    DEFAULT = "default"
    """Padded tiles at the chip's own rates; operators wait for HBM."""
    PAPER = "paper"
    """The ICML 2024 paper's: tiles that divide each other, at its fixed rates."""


class PhysicsName(StrEnum):
    """At which rates chips and networks run."""

    IDEAL = "ideal"
    """Those of their figures."""
    CALIBRATED = "calibrated"
    """Those that measured machines of the family reach (``rephaze.hardware.derating``)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSettings:
    """How a model is trained, before a plan is chosen."""

    global_batch: int
    """Samples in one optimizer step, over the whole cluster."""
    microbatches: tuple[int, ...]
    """Microbatch sizes to try, in samples."""
    tp_degrees: tuple[int, ...]
    """Tensor-parallel degrees to try, where the model allows them."""
    recompute: tuple[Recompute, ...]
    """Recompute modes to try; with all of them listed a plan may mix them, stage by stage."""
    optimizer: Optimizer
    precision: PrecisionName
    sequence_parallel: tuple[bool, ...] = field(default=(False,), metadata=ADDED_LATER)
    """Whether what tensor parallelism replicates is cut along the sequence; tried where tp is above 1."""
    cp_degrees: tuple[int, ...] = field(default=(1,), metadata=ADDED_LATER)
    """Context-parallel degrees to try, where they divide the sequence."""
    ep_degrees: tuple[int, ...] = field(default=(1,), metadata=ADDED_LATER)
    """Expert-parallel degrees to try, where they divide a mixture's experts."""
    etp_degrees: tuple[int, ...] | None = field(default=None, metadata=ADDED_LATER)
    """How many ways each expert is cut, where that divides tp; None: as everything else, by tp."""
    imbalance_factor: float = field(default=1.0, metadata=ADDED_LATER)
    """Tokens of the busiest expert over those of an average one; 1: forced balance."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """Everything a search needs besides the models."""

    name: str
    title: str
    space: DesignSpace
    cluster: Cluster
    training: TrainingSettings
    estimate_model: EstimateModelName
    placement_model: PlacementModel
    """How a plan is timed."""
    all_cores_excludes: Exclusion
    """What an operator on all cores keeps from running."""
    attention: AttentionKind
    plans: PlanOptions = field(default_factory=PlanOptions, metadata=ADDED_LATER)
    """What plans of cost model ``full`` may choose from; the other models have no such choice."""
    physics: PhysicsName = field(default=PhysicsName.IDEAL, metadata=ADDED_LATER)
    """Template and cluster have been brought to these rates."""
