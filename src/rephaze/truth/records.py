"""What was measured: a model's shape, how it was cut, on what, and the time and memory it took."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Experts:
    """The mixture in some blocks of a model."""

    num_experts: int
    num_active: int
    """Experts a token goes to."""
    ffn: int
    shared_ffn: int = 0
    """Of the experts every token goes to, together."""
    num_dense_blocks: int = 0
    """Blocks without a mixture."""
    capacity_factor: float = 1.0
    """Work done per work counted: buffers that are filled up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LatentAttention:
    """Multi-head latent attention: ranks and the parts of a head."""

    q_rank: int
    """0: queries are projected directly."""
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelShape:
    """A language model by its sizes."""

    hidden: int
    num_blocks: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    seq: int
    is_gated: bool
    is_tied: bool
    is_causal: bool = True
    is_parallel: bool = False
    """Attention and feed-forward side by side: one norm, one sum over tensor parallelism a pass."""
    window: int = 0
    num_windowed_blocks: int = 0
    packed_share: float = 1.0
    """Of the causal attention that packed samples leave."""
    experts: Experts | None = None
    latent: LatentAttention | None = None
    num_extra_blocks: int = 0
    """Blocks beside the stack that predict further tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPlan:
    """How a run was cut. None: not stated, so the model's own preference counts."""

    num_devices: int
    tp: int
    pp: int
    dp: int
    cp: int
    ep: int
    etp: int
    sp: bool
    chunks: int | None
    microbatch: int | None
    sharding: str
    shard_group: int
    schedule: str
    recompute: str
    kept: tuple[str, ...] = ()
    """With a policy: outputs that are not computed again."""
    num_slices: int = 1
    """Groups of chips that only the outer network joins."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredRun:
    """One row of a table of measured runs."""

    source: str
    model: str
    chip: str
    shape: ModelShape
    plan: RunPlan
    global_batch: int
    bits: int
    """Of the factors of the linear layers' products."""
    is_fused: bool
    """Attention without its square in memory."""
    measured_s: float | None
    measured_bytes: float | None
    memory_meaning: str
    group: str
    score: str
    """yes, memory (only), fit (only) or no."""
    status: str
    """ok, or oom: it did not fit."""
    notes: str
    line: int
    file: str
    is_sweep: bool = False
    reason: str = ""
    """Why it cannot be modelled, where it cannot."""
    facts: dict[str, str] = field(default_factory=dict)
