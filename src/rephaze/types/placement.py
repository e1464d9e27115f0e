"""Placement: layers with their times and bytes in, pipeline stages with their costs out.

A *pipeline* is one copy of the model: ``pp`` stages in a line. ``dp`` equal pipelines share the batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from rephaze.errors import SpecError
from rephaze.types.checks import check_count, check_number
from rephaze.types.cluster import Cluster


class PlacementModel(StrEnum):
    """How the time of a batch is charged."""

    PAPER = "paper"
    """The formulas of the ICML 2024 paper's program."""
    ONE_F_ONE_B = "1f1b"
    """Ours: fill and drain by the stages' own loads, every stage's gradients, network levels."""
    FULL = "full"
    """Plans as people run them: FSDP, context and expert parallelism, schedules, overlap (docs/plans.md)."""


class Recompute(StrEnum):
    """What a stage keeps of a microbatch between its forward and its backward pass."""

    NONE = "none"
    """Everything the backward pass reads."""
    BLOCK = "block"
    """The input of every layer; one layer at a time is run again."""
    STAGE = "stage"
    """The input of the stage; the whole stage is run again."""


class RecomputePolicy(StrEnum):
    """Which recompute modes a plan may use."""

    NONE = "none"
    BLOCK = "block"
    STAGE = "stage"
    """``stage`` wherever more than one microbatch is in flight: with one there is nothing to replay."""
    AUTO = "auto"
    """Whatever is fastest and fits, stage by stage."""


class Optimizer(StrEnum):
    """The optimizer, as far as it costs memory and time."""

    SGD = "sgd"
    ADAM = "adam"


class PrecisionName(StrEnum):
    """In how many bits weights, gradients and optimizer state are kept; ``PrecisionPolicy`` has the bytes."""

    MIXED = "mixed"
    """16-bit weights; 32-bit gradients, master copy and moments."""
    FP32 = "fp32"
    BF16 = "bf16"
    PAPER = "paper"
    """The ICML 2024 paper's: 16 bits throughout, Adam one more copy of the weights."""


class SolveStatus(StrEnum):
    """What was proven about an answer."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    """A plan with a bound below it: the search was cut short, or a layer's time is not proven shortest."""
    INFEASIBLE = "infeasible"
    CUTOFF = "cutoff"
    """No plan is faster than the bound, and none was found: the caller's limit or the work limit came first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PrecisionPolicy:
    """Bytes that one parameter takes on a device, by purpose."""

    name: str
    weight_bytes: float
    gradient_bytes: float
    state_bytes: float
    """Of the optimizer, a master copy of the weights included."""
    step_bytes: float
    """Read and written in HBM by the optimizer's step."""

    def __post_init__(self) -> None:
        check_number("precision.weight_bytes", self.weight_bytes, at_least=0.125, at_most=64)
        check_number("precision.gradient_bytes", self.gradient_bytes, at_most=64)
        check_number("precision.state_bytes", self.state_bytes, at_most=256)
        check_number("precision.step_bytes", self.step_bytes, at_most=1024)

    @property
    def resident_ratio(self) -> float:
        """Weights, gradients and optimizer state in units of the weights alone."""
        return (self.weight_bytes + self.gradient_bytes + self.state_bytes) / self.weight_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerCost:
    """One layer on one device of its tensor-parallel group, for one microbatch."""

    name: str
    param_bytes: float
    """Weights."""
    activation_bytes: float
    """Kept from forward to backward when nothing is recomputed, the layer's input included."""
    forward_s: float
    backward_s: float
    is_sharded: bool
    """Runs on all devices of the tensor-parallel group, not on one."""
    input_bytes: float | None = None
    """The layer's input: what block recompute keeps. None: what its links bring."""
    working_bytes: float = 0.0
    """Largest sum of transient tensors, beyond what is kept."""
    forward_bound_s: float | None = None
    """No forward pass is shorter, where ``forward_s`` is a schedule not proven shortest. None: it is exact."""
    backward_bound_s: float | None = None
    """The same of the backward pass."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerLink:
    """Activations (and later their gradients) that pass between two layers, by position."""

    src: int
    dst: int
    payload_bytes: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TiedWeights:
    """Weights shared by layers, counted in the ``param_bytes`` of the earliest one."""

    layers: tuple[int, ...]
    param_bytes: float


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerGraph:
    """The model at one tensor-parallel degree and one microbatch size."""

    tp: int
    microbatch: int
    """Samples."""
    layers: tuple[LayerCost, ...]
    links: tuple[LayerLink, ...]
    tied: tuple[TiedWeights, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacementProblem:
    """Everything the choice of a plan depends on."""

    cost_model: PlacementModel
    cluster: Cluster
    device_memory_bytes: float
    graphs: tuple[LayerGraph, ...]
    """One for each (tp, microbatch) that may be chosen; the same layers and links in each."""
    recompute: RecomputePolicy
    optimizer: Optimizer
    precision: PrecisionPolicy
    num_microbatches: int | None = None
    """In a batch, whatever their size; give this or ``global_batch``."""
    global_batch: int | None = None
    """Samples in a batch."""
    hbm_bytes_per_s: float | None = None
    """Times the optimizer's step; None: the step is free."""

    def __post_init__(self) -> None:
        check_number("device_memory_bytes", self.device_memory_bytes, at_least=1e-9)
        if (self.num_microbatches is None) == (self.global_batch is None):
            raise SpecError("num_microbatches", self.num_microbatches, "give it, or global_batch, not both")
        if self.num_microbatches is not None:
            check_count("num_microbatches", self.num_microbatches)
        if self.global_batch is not None:
            check_count("global_batch", self.global_batch)
        if self.hbm_bytes_per_s is not None:
            check_number("hbm_bytes_per_s", self.hbm_bytes_per_s, at_least=1e-9)

    def microbatches_of(self, graph: LayerGraph) -> int:
        """Microbatches in a batch when they have this graph's size; the last may be smaller."""
        if self.num_microbatches is not None:
            return self.num_microbatches
        assert self.global_batch is not None
        return -(-self.global_batch // graph.microbatch)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedStage:
    """A stage as a decision: which layers, and what it recomputes."""

    layers: tuple[int, ...]
    """Positions in the graph."""
    recompute: Recompute


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A decision: degrees, microbatch size and stages, front to back."""

    tp: int
    dp: int
    microbatch: int
    stages: tuple[PlannedStage, ...]

    @property
    def pp(self) -> int:
        """Number of stages."""
        return len(self.stages)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanLimits:
    """Choices made beforehand; None leaves one to the solver."""

    tp: int | None = None
    dp: int | None = None
    pp: int | None = None
    microbatch: int | None = None
    recompute: RecomputePolicy | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StageMemory:
    """Bytes on one device of a stage, by purpose."""

    weights_bytes: float
    gradients_bytes: float
    state_bytes: float
    kept_bytes: float
    """Activations of the microbatches in flight."""
    replay_bytes: float
    """Activations rebuilt for the microbatch whose backward pass runs."""
    working_bytes: float

    @property
    def total_bytes(self) -> float:
        """All of it."""
        return (
            self.weights_bytes
            + self.gradients_bytes
            + self.state_bytes
            + self.kept_bytes
            + self.replay_bytes
            + self.working_bytes
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class StageCost:
    """A stage with its times for one microbatch and its memory."""

    layers: tuple[str, ...]
    num_devices: int
    recompute: Recompute
    num_in_flight: int
    forward_s: float
    """Without waiting."""
    backward_s: float
    """Without waiting or replay."""
    replay_s: float
    transfer_s: float
    """Point-to-point time that nothing hides."""
    sync_s: float
    """Gradient all-reduce over the data-parallel group, once a batch."""
    tied_s: float
    """Exchange of gradients of tied weights with the stage that owns them, once a batch."""
    step_s: float
    """Optimizer step, once a batch."""
    param_bytes: float
    memory: StageMemory
    fits: bool

    @property
    def load_s(self) -> float:
        """Time of the stage's device for one microbatch."""
        return self.forward_s + self.backward_s + self.replay_s + self.transfer_s


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchTime:
    """Where the time of a batch goes; the parts add up to it."""

    compute_s: float
    """Forward and backward passes of the slowest stage, all its microbatches."""
    replay_s: float
    transfer_s: float
    bubble_s: float
    """Filling and draining the pipeline."""
    sync_s: float
    tied_s: float
    step_s: float

    @property
    def total_s(self) -> float:
        """The time of a batch."""
        return (
            self.compute_s
            + self.replay_s
            + self.transfer_s
            + self.bubble_s
            + self.sync_s
            + self.tied_s
            + self.step_s
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PricedPlan:
    """A plan with its time and memory; it need not fit."""

    plan: Plan
    batch_s: float
    time: BatchTime
    stages: tuple[StageCost, ...]
    num_microbatches: int
    """A pipeline works through in a batch: the most any has."""
    num_devices: int
    """In use by all pipelines."""
    device_memory_bytes: float
    fits: bool
    """In memory and in the number of devices."""

    @property
    def margin_bytes(self) -> float:
        """Memory left on the fullest device; negative when it does not fit."""
        return self.device_memory_bytes - max(stage.memory.total_bytes for stage in self.stages)


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """The answer: the fastest plan with its proof, or why there is none."""

    status: SolveStatus
    bound_s: float
    """No plan is faster than this; infinite when infeasible."""
    best: PricedPlan | None = None
    reason: str = ""
    """For an infeasible problem: which limit binds, and by how much. For a feasible one: what is not proven."""

    @property
    def gap(self) -> float:
        """How much faster than the plan another might be: batch time over bound, less one; 0 when optimal."""
        if self.best is None or self.status is SolveStatus.OPTIMAL:
            return 0.0
        return self.best.batch_s / self.bound_s - 1.0 if self.bound_s > 0 else math.inf
