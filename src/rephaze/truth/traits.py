"""How a code base runs a model: what of it decides times, for reasons that are physical."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rephaze.truth.machines import Machine
from rephaze.truth.physics import ATTENTION_KINDS
from rephaze.truth.records import MeasuredRun


@dataclass(frozen=True, kw_only=True, slots=True)
class Traits:
    """Of the software of a run."""

    is_eager: bool
    """Norms, rotations and residuals run as many small kernels."""
    attention_kind: int
    is_tp_overlapped: bool
    is_dp_overlapped: bool
    is_pp_overlapped: bool
    """What leaves a chunk is sent while the next is computed, where stages have several chunks."""
    is_ep_overlapped: bool
    is_dropless: bool
    """Every expert takes as many tokens as come, in one kernel for all; else buffers of one size."""
    keeps_weight_gradients: bool
    """At 16 bits, whatever the other products have."""
    waits_for_routing: bool
    """The host must know how many tokens each expert gets before it goes on: it cannot run ahead of the device."""
    sends_once: bool
    """Tokens go once to each device or node that wants them (DeepEP, HybridEP)."""
    sends_whole: bool
    """Every rank of tensor parallelism sends all that leaves a stage, not its part."""
    tensors_by_block: int
    """All-gathers that bring a block's updated weights back: one, or one for each tensor."""
    cuts_by_work: bool
    """Stages are cut by the work of their blocks, the head's counted."""
    starts_by_rank: bool
    """Every collective of tensor parallelism starts operators for each rank of it."""
    is_ethernet: bool
    """The outer network is an Ethernet or a cloud's: every step of a ring waits for it."""
    is_cp_balanced: bool
    drops_last: bool
    """A compiler leaves out of a replay what nothing needs."""
    has_dropout: bool
    gradient_bytes: float
    second_gradient_bytes: float
    """Of a weight: gradients in the weights' precision beside those that are summed."""
    summed_bytes: float
    """Of a weight, that a microbatch's product moves beyond its own, to add a gradient to those before."""
    holds_whole_gradients: bool
    """FSDP over a pipeline: gradients are summed, and cut, after the last microbatch."""
    logit_bytes: float
    kept_share: float = 1.0
    """Of 16 bits, at which inputs of products are kept: Transformer Engine keeps them as it multiplied them."""
    state_bytes: float = 12.0
    weight_bytes: float = 2.0


BEFORE_THIRD_KERNELS = ("NeMo 24.03", "MLPerf Training v3.0")
"""Code bases older than the kernels of 2024 (FlashAttention 3, cuDNN 9), though not compiled for Ampere."""


def traits_of(run: MeasuredRun, machine: Machine) -> Traits:
    """From the source, the year of its code and the chip."""
    source = run.source
    is_old = source.startswith(("Megatron-LM SC21", "Korthikanti", "vTrain", "PaLM", "BigScience", "Zero Bubble"))
    is_eager = run.is_sweep or source.startswith("MosaicML") or "eager" in run.notes
    is_titan = source.startswith("torchtitan")
    if machine.is_tpu:
        kind = "tpu"
    elif machine.family == "hopper":
        kind = "hopper"
        if source.startswith("MosaicML"):
            kind = "hopper-first"
        elif run.is_sweep or is_titan or source.startswith(BEFORE_THIRD_KERNELS):
            kind = "hopper-second"
    else:
        kind = {"ampere": "ampere", "blackwell": "blackwell", "cdna": "hopper", "gaudi": "ampere"}[machine.family]
    is_megascale = source.startswith("MegaScale") and "MegaScale;" in run.notes
    overlapped = not is_old and not run.is_sweep and (not source.startswith("MegaScale") or is_megascale)
    if source.startswith("SimuMax"):
        overlapped = False
    if is_titan:
        overlapped = "async" in run.notes.lower()
    # Performance recipes of NeMo 2 fill experts up to a capacity of one and drop the rest.
    drops = bool(re.search("token drop|capacity factor", run.notes)) or source.startswith("NVIDIA dgxc")
    # Those of Megatron-Bridge exchange tokens by HybridEP and graphs on racks, by NCCL's all-to-all on nodes of 8.
    is_rack_recipe = source.startswith("NeMo Megatron-Bridge 26") and machine.node_devices > 8
    return Traits(
        is_eager=is_eager,
        attention_kind=ATTENTION_KINDS.index(kind),
        is_tp_overlapped=overlapped,
        is_dp_overlapped=not is_old and not run.is_sweep and not source.startswith("SimuMax"),
        # The 2021 code base sent before it went on; torchtitan's chunks do, too.
        is_pp_overlapped=overlapped and not is_titan,
        is_ep_overlapped="overlapped" in run.notes or "EP overlap on" in run.notes,
        is_dropless=not drops,
        keeps_weight_gradients=machine.is_tpu and run.facts.get("precision") == "int8",
        waits_for_routing=not machine.is_tpu
        and not drops
        and not is_rack_recipe
        and not re.search("HybridEP|CUDA graph", run.notes),
        sends_once=bool(re.search("DeepEP|HybridEP|ring of experts", run.notes)) or is_rack_recipe,
        sends_whole=source.startswith("BigScience"),
        tensors_by_block=9 if run.is_sweep or source.startswith("InternEvo") else 1,
        cuts_by_work=run.is_sweep,
        starts_by_rank=run.is_sweep
        and run.facts.get("pp_fixed") == "1"
        and run.plan.num_devices > machine.node_devices,
        is_ethernet=run.is_sweep or bool(re.search("RoCE|EFA", run.chip + run.facts.get("network", ""))),
        is_cp_balanced=not is_titan,
        drops_last=machine.is_tpu or _stops_early(run),
        has_dropout=is_old,
        gradient_bytes=_gradient_bytes(run, machine),
        second_gradient_bytes=2.0 if run.is_sweep or _is_bf16_deepspeed(run) else 0.0,
        summed_bytes=_summed_bytes(run, machine),
        holds_whole_gradients=is_titan and run.plan.pp > 1,
        # Logits, their copy at 32 bits and what the softmax keeps; one kernel, or a compiled loss, needs less.
        logit_bytes=6.0
        if machine.is_tpu or "fused CE" in run.notes or source.startswith("torchtitan 2025")
        else 10.0,
        kept_share=1.0 if machine.is_tpu or is_titan else run.bits / 16,
        state_bytes=8.0 if _has_short_moments(run) else 12.0,
    )


def _gradient_bytes(run: MeasuredRun, machine: Machine) -> float:
    """Of a weight, as gradients are summed.

    16 bits: the fused optimizer of MLPerf's submissions; the performance recipes of NeMo and Megatron-Bridge
    (``grad_reduce_in_fp32`` off: logs of 8B and 15B show 2 + 2 + 12/dp bytes a weight between steps); DeepSpeed
    under fp16; compiled code on TPUs, which sums what its products give (How to Scale Your Model, 2025).
    """
    if machine.is_tpu:
        return 2.0
    if run.source.startswith("MLPerf Training"):
        return 4.0 if machine.family == "gaudi" else 2.0
    if run.source.startswith(("NeMo", "DGX Cloud", "NVIDIA dgxc", "Megatron-Bridge")):
        return 2.0
    return 2.0 if _is_deepspeed(run) and run.facts.get("precision") == "fp16" else 4.0


def _summed_bytes(run: MeasuredRun, machine: Machine) -> float:
    """What it takes to add a gradient to the sum, beyond the product that makes it.

    The sum is read and written by the product itself, which hides the reading; without that fusion a gradient is
    read again, and the sum read and written. Where every microbatch's gradients are cut at once there is no sum.
    """
    if machine.is_tpu or run.plan.sharding == "weights":
        return 0.0
    return 10.0 if run.is_sweep else _gradient_bytes(run, machine)


def _stops_early(run: MeasuredRun) -> bool:
    """PyTorch's checkpoints (2.1 and later) end a replay with the last tensor that a gradient needs.

    Of llm-foundry's tables those with ``amp_`` before the precision were made with it.
    """
    is_new = run.facts.get("precision", "").startswith("amp_")
    return run.source.startswith("torchtitan") or (run.source.startswith("MosaicML") and is_new)


def _is_deepspeed(run: MeasuredRun) -> bool:
    return "DeepSpeed" in run.notes or run.source.startswith("BigScience")


def _is_bf16_deepspeed(run: MeasuredRun) -> bool:
    """Gradients at 16 bits beside those that are summed at 32."""
    return _is_deepspeed(run) and run.facts.get("precision") == "bf16"


def _has_short_moments(run: MeasuredRun) -> bool:
    """Both moments at 16 bits: what the recipes of Megatron-Bridge set for models with latent attention."""
    return run.source.startswith(("Megatron-Bridge", "NeMo Megatron-Bridge")) and run.shape.latent is not None
