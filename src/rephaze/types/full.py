"""Plans as people run them (cost model ``full``): what a layer costs, what may be chosen, what was, its price.

Times are for one microbatch and one device, sizes for one device, after tensor, context and expert parallelism
have cut the layer. docs/plans.md has the definitions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from rephaze.types.cluster import Cluster
from rephaze.types.placement import LayerLink, Optimizer, PrecisionPolicy, TiedWeights


class Sharding(StrEnum):
    """What is cut over the replicas of a weight, ever more of it (ZeRO 1, 2, 3; the last is FSDP)."""

    NONE = "none"
    OPTIMIZER = "optimizer"
    GRADIENTS = "gradients"
    WEIGHTS = "weights"


class PipelineSchedule(StrEnum):
    """In which order a device runs the passes of its stages."""

    ONE_F_ONE_B = "1f1b"
    INTERLEAVED = "interleaved"
    """A device has several chunks of layers."""
    ZERO_BUBBLE = "zero-bubble"
    """Weight gradients are computed late, in what would be the bubble (H1)."""


class DeviceOrder(StrEnum):
    """Which of replicas and stages are neighbours in the network."""

    DP_OUTER = "dp-outer"
    """A pipeline takes consecutive devices, replicas follow one another."""
    PP_OUTER = "pp-outer"
    """The replicas of a stage take consecutive devices."""


class PlanFamily(StrEnum):
    """Which plans can be launched."""

    ANY = "any"
    EXACT = "exact"
    """dp times the microbatch size divides the global batch."""
    MEGATRON = "megatron"
    TORCHTITAN = "torchtitan"
    MAXTEXT = "maxtext"


class ShardGroups(StrEnum):
    """Over how many of a weight's replicas it may be sharded."""

    ALL = "all"
    LEVEL = "level"
    """Any legal number above one: shards inside, copies outside (HSDP)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeepPoint:
    """One choice of what a layer keeps between its passes."""

    kept_bytes: float
    replay_s: float
    """To compute again what was not kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FullLayer:
    """One layer on one device."""

    name: str
    param_bytes: float
    """Weights, without experts."""
    expert_param_bytes: float
    forward_s: float
    backward_s: float
    weight_backward_s: float | None
    """The part of the backward pass that nothing waits for; None: not known, so it cannot be put off."""
    keep: tuple[KeepPoint, ...]
    """The first keeps everything; then ever less, with ever more to replay."""
    working_bytes: float = 0.0
    is_block: bool = False
    """One of the repeated layers that some frameworks count."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FullGraph:
    """The model with its layers cut one way."""

    tp: int
    cp: int
    ep: int
    etp: int
    sp: bool
    microbatch: int
    layers: tuple[FullLayer, ...]
    links: tuple[LayerLink, ...]
    tied: tuple[TiedWeights, ...] = ()
    orders: tuple[DeviceOrder, ...] = (DeviceOrder.DP_OUTER, DeviceOrder.PP_OUTER)
    """Device orders its collectives were priced for: experts that span replicas want these side by side."""

    @property
    def stage_width(self) -> int:
        """Devices a stage of one replica takes."""
        return self.tp * self.cp


@dataclass(frozen=True, kw_only=True, slots=True)
class FullLimits:
    """Choices made beforehand; None leaves one to the solver."""

    tp: int | None = None
    sp: bool | None = None
    cp: int | None = None
    ep: int | None = None
    etp: int | None = None
    dp: int | None = None
    pp: int | None = None
    microbatch: int | None = None
    order: DeviceOrder | None = None
    sharding: Sharding | None = None
    shard_group: int | None = None
    reshard: bool | None = None
    schedule: PipelineSchedule | None = None
    chunks: int | None = None
    keep: int | None = None
    """Position of all stages."""
    family: PlanFamily | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanOptions:
    """What a plan may choose from."""

    sharding: tuple[Sharding, ...] = (Sharding.NONE,)
    shard_group: tuple[ShardGroups, ...] = (ShardGroups.ALL,)
    reshard: tuple[bool, ...] = (False,)
    schedule: tuple[PipelineSchedule, ...] = (PipelineSchedule.ONE_F_ONE_B,)
    chunks: tuple[int, ...] = ()
    """Of ``interleaved``."""
    order: tuple[DeviceOrder, ...] = (DeviceOrder.DP_OUTER,)
    overlap: bool = False
    """Gradients are summed behind the backward pass, weights gathered before the forward pass needs them."""
    family: PlanFamily = PlanFamily.ANY


@dataclass(frozen=True, kw_only=True, slots=True)
class FullProblem:
    """Everything the choice of a plan depends on."""

    cluster: Cluster
    device_memory_bytes: float
    hbm_bytes_per_s: float | None
    """Times the optimizer's step; None: the step is free."""
    global_batch: int
    optimizer: Optimizer
    precision: PrecisionPolicy
    options: PlanOptions
    graphs: tuple[FullGraph, ...]
    limits: FullLimits | None = None
    """Only plans with these degrees, order, sharding and schedule."""

    def with_graphs(self, graphs: tuple[FullGraph, ...]) -> FullProblem:
        """The same problem of other graphs."""
        return replace(self, graphs=graphs)

    def num_microbatches(self, graph: FullGraph) -> int:
        """In a batch; the last may be smaller."""
        return -(-self.global_batch // graph.microbatch)


@dataclass(frozen=True, kw_only=True, slots=True)
class FullStage:
    """A stage, or a chunk of one: its layers, and which of their points of ``keep`` they use."""

    layers: tuple[int, ...]
    keep: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class FullPlan:
    """A decision. ``stages`` in order; of ``interleaved`` chunk c runs on device c mod pp."""

    tp: int
    cp: int
    ep: int
    etp: int
    sp: bool
    dp: int
    microbatch: int
    order: DeviceOrder
    sharding: Sharding
    shard_group: int
    """Devices a weight is sharded over; 1 without sharding."""
    reshard: bool
    """Gathered weights are let go after each use, and gathered again."""
    schedule: PipelineSchedule
    chunks: int
    stages: tuple[FullStage, ...]

    @property
    def pp(self) -> int:
        """Devices of a pipeline, in units of a stage's."""
        return len(self.stages) // self.chunks

    @property
    def num_replicas(self) -> int:
        """Of a weight that is no expert's."""
        return self.cp * self.dp

    @property
    def num_devices(self) -> int:
        """In use."""
        return self.dp * self.pp * self.tp * self.cp

    @property
    def is_gathering(self) -> bool:
        """Weights are gathered for every pass."""
        return self.sharding is Sharding.WEIGHTS and self.reshard


@dataclass(frozen=True, kw_only=True, slots=True)
class FullTime:
    """Where the time of a batch goes; the parts add up to it."""

    pipe_s: float
    sync_s: float
    tied_s: float
    step_s: float
    regather_s: float

    @property
    def total_s(self) -> float:
        """The time of a batch."""
        return self.pipe_s + self.sync_s + self.tied_s + self.step_s + self.regather_s


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeCauses:
    """What the time of a batch is spent on; the parts add up to it.

    The first four are those of the device that has most to do, all its microbatches.
    """

    compute_s: float
    """Forward and backward passes."""
    replay_s: float
    """To compute again what was not kept."""
    messages_s: float
    """Between stages."""
    gathers_s: float
    """What compute waits for weights that are gathered for every pass, and for their gradients."""
    bubble_s: float
    """Waiting for other devices, while the pipeline fills and drains."""
    sync_s: float
    """Gradients summed once a batch, as far as nothing hides it."""
    tied_s: float
    step_s: float
    regather_s: float
    """Weights gathered once a batch, as far as nothing hides it."""

    @property
    def total_s(self) -> float:
        """The time of a batch."""
        pipe_s = self.compute_s + self.replay_s + self.messages_s + self.gathers_s + self.bubble_s
        return pipe_s + self.sync_s + self.tied_s + self.step_s + self.regather_s


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceMemory:
    """Bytes on one device of a pipeline, by purpose."""

    weights_bytes: float
    gradients_bytes: float
    state_bytes: float
    kept_bytes: float
    replay_bytes: float
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
class FullPrice:
    """A plan with its time and memory; it need not fit."""

    plan: FullPlan
    time: FullTime
    stage_load_s: tuple[float, ...]
    """Of each stage or chunk, for one microbatch."""
    devices: tuple[DeviceMemory, ...]
    """Of each device of a pipeline."""
    device_memory_bytes: float
    num_cluster_devices: int

    @property
    def batch_s(self) -> float:
        """The time of a batch."""
        return self.time.total_s

    @property
    def fits(self) -> bool:
        """In memory and in the number of devices."""
        fullest = max(device.total_bytes for device in self.devices)
        return fullest <= self.device_memory_bytes and self.plan.num_devices <= self.num_cluster_devices
