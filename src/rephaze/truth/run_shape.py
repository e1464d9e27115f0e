"""The model of a measured run, from its line: sizes, attention, experts."""

from __future__ import annotations

import re

from rephaze.truth.records import Experts, LatentAttention, ModelShape
from rephaze.truth.run_row import Row, is_numeric


def read_shape(row: Row) -> tuple[ModelShape, str]:
    """The shape, and why it cannot be modelled, where it cannot."""
    hidden, heads = row.count("hidden"), row.count("heads")
    model, kind = row.text("model"), row.text("model_kind")
    is_gated = kind in ("llama", "moe", "mla-moe", "other") or (
        not kind and not re.match(r"GPT-|MPT|MT-NLG", model)
    )
    latent, head_dim = None, 0
    if row.text("head_dim") == "MLA" or row.text("kv_heads") == "MLA" or "DeepSeek" in model or "Kimi" in model:
        stated = re.search(r"q_lora=(\w+) kv_lora=(\d+) qk=(\d+)\+(\d+) v=(\d+)", row.text("notes"))
        q_rank = (
            (0 if stated.group(1) == "none" else row.stated("notes", stated.group(1)))
            if stated
            else (0 if "Lite" in model else 1536)
        )
        kv_rank, nope, rope, value = (
            (row.stated("notes", one, at_least=1) for one in stated.groups()[1:])
            if stated
            else (512, 128, 64, 128)
        )
        latent = LatentAttention(q_rank=q_rank, kv_rank=kv_rank, nope_dim=nope, rope_dim=rope, value_dim=value)
        head_dim = value
    else:
        head_dim = row.count("head_dim", hidden // heads if heads else 0)
    kv_heads = heads if row.text("kv_heads") == "MLA" else row.count("kv_heads", heads)
    blocks, seq = row.count("layers"), row.count("seq")
    experts = _experts(row, blocks) if row.text("experts") else None
    window, windowed = 0, 0
    stated_window = row.text("window")
    if is_numeric(stated_window):
        window, windowed = row.stated("window", stated_window), blocks
        share = re.search(r"(\d+) of (\d+) layers", row.text("notes"))
        if share:
            some, out_of = (row.stated("notes", one, at_least=1) for one in share.groups())
            windowed = min(blocks, blocks * some // out_of)
    elif chunk := re.fullmatch(r"chunk (\d+)", stated_window):
        window, windowed = row.stated("window", chunk.group(1), at_least=1), blocks
    if "sliding window" in row.text("notes"):
        window, windowed = 512, blocks
    vocab = row.count("vocab", 51_200)
    packed = "packed" in row.text("notes") + row.text("remark") and "packed samples off" not in row.text("notes")
    is_tied = kind in ("dense-gpt", "") and not is_gated
    if "tied embedding" in row.text("notes"):
        is_tied = True
    shape = ModelShape(
        hidden=hidden,
        num_blocks=blocks,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        ffn=row.count("ffn", experts.ffn if experts else None),
        vocab=vocab,
        seq=seq,
        is_gated=is_gated,
        is_tied=is_tied and not model.startswith(("GPT3-", "Nemotron")),
        is_causal="BERT" not in model,
        is_parallel=_is_parallel(row),
        window=window,
        num_windowed_blocks=windowed,
        packed_share=0.5 if packed else 1.0,
        experts=experts,
        latent=latent,
        num_extra_blocks=1 if "MTP layer" in row.text("remark") + row.text("notes") else 0,
    )
    if row.text("precision").lower() in ("fp32", "tf32"):
        return shape, f"products in {row.text('precision')} have no rate here"
    if "LoRA" in row.text("notes") + row.text("model"):
        return shape, "only part of the weights is trained"
    if row.text("model").startswith("T5"):
        return shape, "encoder and decoder: not a stack of equal blocks"
    return shape, ""


def _is_parallel(row: Row) -> bool:
    """PaLM's blocks; and those of MaxText's own models, whose two parts read one norm and are summed once."""
    is_base = re.match(r"MaxText-\d", row.text("model")) is not None
    return is_base or row.text("model_kind") == "palm" or "parallel block" in row.text("notes")


def _experts(row: Row, blocks: int) -> Experts:
    dense = row.noted(r"dense_layers=(\d+)", 0)
    model = row.text("model")
    if not dense:
        if "DeepSeek-V3" in model or "DeepSeekV3" in model:
            dense = 3
        elif "DeepSeek" in model or "Kimi" in model:
            dense = 1
        elif "Maverick" in model:
            dense = blocks // 2
    shared = row.noted(r"shared_expert_ffn=(\d+)", 0)
    ffn = row.count("moe_ffn")
    if not shared and ("DeepSeek-V3" in model or "DeepSeekV3" in model or "Kimi" in model or "Maverick" in model):
        shared = ffn
    if not shared and "DeepSeek-V2" in model:
        shared = 2 * ffn
    capacity = re.search(r"capacity factor (\d+(?:\.\d+)?)", row.text("notes"))
    return Experts(
        num_experts=row.count("experts"),
        num_active=row.count("topk"),
        ffn=ffn,
        shared_ffn=shared,
        num_dense_blocks=dense,
        capacity_factor=max(1.0, float(capacity.group(1))) if capacity else 1.0,
    )
