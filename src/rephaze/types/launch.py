"""A plan as a training framework is told about it: its settings, and what of them a framework cannot be told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rephaze.types.full import DeviceOrder, PipelineSchedule, Sharding


class ExportTarget(StrEnum):
    """What a run or a plan can be written as."""

    MEGATRON = "megatron"
    TORCHTITAN = "torchtitan"
    DEEPSPEED = "deepspeed"
    MAXTEXT = "maxtext"
    NEMO = "nemo"
    PERFETTO = "perfetto"
    CHROME_TRACE = "chrome-trace"
    TIMELOOP = "timeloop"
    ACCELFORGE = "accelforge"
    CSV = "csv"
    PARQUET = "parquet"
    JSON = "json"

    @property
    def is_framework(self) -> bool:
        """Settings to launch a plan with."""
        return self in (
            ExportTarget.MEGATRON,
            ExportTarget.TORCHTITAN,
            ExportTarget.DEEPSPEED,
            ExportTarget.MAXTEXT,
            ExportTarget.NEMO,
        )

    @property
    def is_trace(self) -> bool:
        """What the devices do when."""
        return self in (ExportTarget.PERFETTO, ExportTarget.CHROME_TRACE)

    @property
    def is_chip(self) -> bool:
        """A chip as an architecture of another tool."""
        return self in (ExportTarget.TIMELOOP, ExportTarget.ACCELFORGE)

    @property
    def is_table(self) -> bool:
        """Rows and columns."""
        return self in (ExportTarget.CSV, ExportTarget.PARQUET)


class Recomputing(StrEnum):
    """How much of the blocks' activations is computed again."""

    NONE = "none"
    SOME = "some"
    """Between the other two, or not the same in all stages."""
    FULL = "full"
    """Every block keeps its input alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageParts:
    """What a pipeline stage, or a chunk of one, holds."""

    has_embedding: bool
    """What comes before the first block."""
    num_blocks: int
    has_head: bool
    """What comes after the last block."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerLine:
    """The layers of a model: what comes before its repeated blocks, the blocks, what comes after them."""

    num_before: int
    num_blocks: int
    num_after: int
    num_keep_points_l: tuple[int, ...]
    """Of each layer: how many choices there are of what it keeps."""

    @property
    def num_layers(self) -> int:
        """All of them."""
        return self.num_before + self.num_blocks + self.num_after


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanSettings:
    """The decisions of a plan, in the words that frameworks share.

    ``order`` is pp-outer where it makes no difference: with one stage or one replica.
    """

    tp: int
    sp: bool
    cp: int
    ep: int
    etp: int
    dp: int
    pp: int
    microbatch: int
    global_batch: int
    order: DeviceOrder
    sharding: Sharding
    shard_group: int
    reshard: bool
    schedule: PipelineSchedule
    chunks: int
    stages: tuple[StageParts, ...] | None
    """None where the model is no line of blocks, or its stages are no pieces of that line."""
    recompute: Recomputing

    @property
    def num_devices(self) -> int:
        """In use."""
        return self.dp * self.pp * self.tp * self.cp

    @property
    def num_replicas(self) -> int:
        """Of a weight that is no expert's."""
        return self.cp * self.dp

    @property
    def num_microbatches(self) -> int:
        """Of a replica; the last may be smaller."""
        return -(-self.global_batch // (self.dp * self.microbatch))


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchPlan:
    """A plan and what else a launch file has to know."""

    model: str
    settings: PlanSettings
    line: LayerLine | None
    """None where the model is no line of blocks."""
    num_cluster_devices: int
    num_node_devices: int
    """Devices that the innermost level of the network joins."""
    overlap: bool
    """Gradients are summed behind the backward pass."""
    seq_len: int | None = None
    one_f_one_b_factor: float | None = None
    """Of a zero-bubble plan: the batch time with 1F1B over the same stages, over the plan's own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsaid:
    """What a framework's settings cannot say of a plan, or say otherwise."""

    field: str
    """Of ``PlanSettings``, which then does not read back; empty for what only has to be known."""
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchFile:
    """Settings for one framework."""

    text: str
    unsaid: tuple[Unsaid, ...]
