"""The shape of placement problem and plan files, as written; ``problem_file`` checks what joins several fields."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rephaze.types.quantities import MAX_CUTS, MAX_LAYERS, MAX_LINKS, Bytes, Name, Rate, Seconds


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class LevelText(_Strict):
    """A level of the network."""

    num_devices: int
    bytes_per_s: Rate
    latency_s: Seconds = 0.0


class ClusterText(_Strict):
    """The cluster: one bandwidth, or levels."""

    num_devices: int
    device_memory_bytes: Rate
    link_bytes_per_s: Rate | None = None
    levels: list[LevelText] | None = None
    hbm_bytes_per_s: Rate | None = None


class PrecisionText(_Strict):
    """Bytes a parameter, where no named policy fits."""

    weight_bytes: float
    gradient_bytes: float
    state_bytes: float
    step_bytes: float = 0.0


class TrainingText(_Strict):
    """The batch, recompute and optimizer."""

    num_microbatches: int | float | None = None
    global_batch: int | None = None
    recompute: bool | Literal["none", "block", "stage", "auto"] = "auto"
    optimizer: str
    precision: str | PrecisionText | None = None


class LayerText(_Strict):
    """A layer of one graph."""

    name: Name
    param_bytes: Bytes
    activation_bytes: Bytes
    forward_s: Seconds
    backward_s: Seconds
    tensor_parallel: bool = False
    input_bytes: Bytes | None = None
    working_bytes: Bytes = 0.0


class EdgeText(_Strict):
    """A tensor from one layer to another."""

    src: str
    dst: str
    bytes: Bytes


class TiedText(_Strict):
    """Weights that several layers share; the first owns them."""

    layers: list[str] = Field(min_length=1)
    param_bytes: Bytes


class GraphText(_Strict):
    """The model at one tensor-parallel degree and microbatch size."""

    tp: int
    microbatch: int = 1
    layers: list[LayerText] = Field(max_length=MAX_LAYERS)
    edges: list[EdgeText] = Field(max_length=MAX_LINKS)
    tied: list[TiedText] = []


class ProblemText(_Strict):
    """A placement problem."""

    format: str
    cost_model: Literal["paper", "1f1b"] = "1f1b"
    cluster: ClusterText
    training: TrainingText
    graphs: list[GraphText] = Field(max_length=MAX_CUTS)


class StageText(_Strict):
    """A stage of a plan."""

    layers: list[str]
    recompute: Literal["none", "block", "stage"] | None = None


class PlanText(_Strict):
    """A plan."""

    tp: int
    dp: int
    microbatch: int = 1
    stages: list[StageText]


class PlanFileText(_Strict):
    """A plan with the problem it is for."""

    format: str
    problem: dict[str, Any]
    plan: PlanText
