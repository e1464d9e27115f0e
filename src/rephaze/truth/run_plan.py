"""The plan of a measured run, from its line: degrees, sharding, what is computed again."""

from __future__ import annotations

import re

from rephaze.truth.records import Experts, RunPlan
from rephaze.truth.run_row import Row, is_numeric


def read_plan(row: Row) -> tuple[RunPlan, str]:
    """The plan, and why it cannot be modelled, where it cannot."""
    tp, pp, dp, cp = (row.count(name, 1) for name in ("tp", "pp", "dp", "cp"))
    tp, pp, dp, cp = (max(1, degree) for degree in (tp, pp, dp, cp))
    devices, reason = row.count("gpus"), ""
    used = tp * pp * dp * cp
    if used == 2 * devices and row.text("chip").startswith("TPU7x"):
        devices = used
    elif used != devices:
        reason = f"tp {tp} x pp {pp} x dp {dp} x cp {cp} is not {devices} devices"
    ep = max(1, row.count("ep", 1))
    etp = tp if row.note(r"ETP=(\w+)") == "tp" else row.noted(r"ETP=(\w+)", 1, at_least=1)
    if row.text("chip").startswith("TPU"):
        etp = tp
    stated_chunks = row.text("interleave")
    chunks: int | None = None
    if is_numeric(stated_chunks):
        chunks = max(1, row.stated("interleave", stated_chunks))
    if pp == 1:
        chunks = 1
    elif "VP printed n/a" in row.text("remark"):
        chunks = None
    schedule = row.note(r"schedule=([\w*-]+)")
    if not schedule.startswith("zb"):
        schedule = "auto"
    sharding, group = _sharding(row, cp * dp)
    slices = re.search(r"\w+=(\d+) DCN", row.text("sharding"))
    recompute, kept = _recompute(row)
    if recompute not in RECOMPUTES:
        reason = reason or f"what recompute {recompute} keeps is not known"
    stated_mb = row.text("microbatch")
    local = row.note(r"local batch (\d+)")
    if not stated_mb and local and row.text("source").startswith("torchtitan"):
        # Its default: as many microbatches as stages.
        row.values["microbatch"] = stated_mb = str(max(1, row.stated("notes", local) // pp))
    return RunPlan(
        num_devices=devices,
        tp=tp,
        pp=pp,
        dp=dp,
        cp=cp,
        ep=ep,
        etp=etp,
        sp=_is_sequence_parallel(row) and tp > 1,
        chunks=chunks,
        microbatch=row.count("microbatch") if stated_mb else None,
        sharding=sharding,
        shard_group=group,
        schedule=schedule,
        recompute=recompute,
        kept=kept,
        num_slices=row.stated("sharding", slices.group(1), at_least=1) if slices else 1,
    ), reason


def experts_reason(plan: RunPlan, experts: Experts | None) -> str:
    """Why experts cannot lie on the devices as stated, where they cannot."""
    if experts is None:
        return f"ep {plan.ep} of a model without experts" if plan.ep > 1 else ""
    if experts.num_experts % plan.ep:
        return f"ep {plan.ep} does not divide {experts.num_experts} experts"
    num_devices, width = plan.ep * plan.etp, plan.tp * plan.cp
    if width % num_devices and (num_devices % width or plan.dp % (num_devices // width)):
        stated = f"tp {plan.tp} x cp {plan.cp} x dp {plan.dp}"
        return f"experts on ep {plan.ep} x etp {plan.etp} devices are no whole part of {stated}"
    return ""


def _is_sequence_parallel(row: Row) -> bool:
    """Blank beside a blank ``zero``: taken to be what Megatron-Core does by default."""
    stated = row.word("seq_parallel", "0", "1")
    return stated in ("1", "True", "true") or (not stated and not row.text("zero"))


def _sharding(row: Row, replicas: int) -> tuple[str, int]:
    zero, stated = row.word("zero", "0", "1", "2", "3").lower(), row.text("sharding")
    kind = "none"
    if "3" in zero or "fsdp" in zero:
        kind = "weights"
    elif "2" in zero:
        kind = "gradients"
    elif "1" in zero or "dist" in zero or (not zero and not row.text("seq_parallel")):
        kind = "optimizer"
    if kind == "none" or replicas == 1:
        return "none", 1
    group = replicas
    copies = re.search(r"dp=(\d+) DCN", stated)
    if copies:
        num_copies = row.stated("sharding", copies.group(1), at_least=1)
        group = replicas // num_copies if replicas % num_copies == 0 else group
    group = row.noted(r"zero1 group (\d+)", group, at_least=1)
    hsdp = re.search(r"hsdp=(\d+)x(\d+)", stated)
    if hsdp:
        outer, inner = (row.stated("sharding", one, at_least=1) for one in hsdp.groups())
        group = inner if replicas == outer * inner else group
    return (kind, group) if group > 1 else ("none", 1)


RECOMPUTES = ("none", "full", "attention", "half", "alternate", "policy", "modules")
POLICY_KEEPS = {
    "minimal": ("qkv", "attention_out", "ffn_in", "ffn_out"),
    "save_dot_except_mlpwi": ("qkv", "attention_out", "ffn_out"),
    "save_dot_except_logits": ("qkv", "attention_out", "ffn_in", "ffn_out"),
    "save_dot_except_logits_ffn1": ("qkv", "attention_out", "ffn_out"),
}


def _recompute(row: Row) -> tuple[str, tuple[str, ...]]:
    """none, full, attention (its core), half (every second product), policy with what is kept."""
    stated, notes = row.text("recompute"), row.text("notes") + "; " + row.text("remark")
    source = row.text("source")
    if stated in POLICY_KEEPS:
        return "policy", POLICY_KEEPS[stated]
    if stated == "custom":
        kept = re.search(r"remat custom: ([^;|]*)", notes)
        words = kept.group(1) if kept else ""
        if not words and "Llama3.1-70B" in row.text("model"):
            words = "decoder_layer_input, context, query/key/value"
        found = []
        if re.search(r"q/k/v|query|qkv", words):
            found.append("qkv")
        if "context" in words:
            found.append("attention")
        if "out_proj" in words:
            found.append("attention_out")
        if "mlpwi" in words:
            found.append("ffn_in")
        if "mlpwo" in words:
            found.append("ffn_out")
        return "policy", tuple(found)
    if stated == "selective":
        if source.startswith("torchtitan"):
            return "half", ()
        if "moe" in notes and "recompute" in notes:
            return "modules", tuple(re.findall(r"norm|moe_act|act|mlp|moe", notes.split("recompute", 1)[1][:60]))
        if "recompute norm" in notes or "recompute modules" in notes:
            return "modules", ("norm", "act")
        return "attention", ()
    if stated == "policy":
        for name, keeps in POLICY_KEEPS.items():
            if name in notes:
                return "policy", keeps
        if "every other layer" in notes:
            return "alternate", ()
        if "MLP block" in notes:
            return "modules", ("ffn_in", "act")
        return "policy", POLICY_KEEPS["minimal"]
    if stated in ("full", "block", "uniform", "none"):
        return "none" if stated == "none" else "full", ()
    if source.startswith("MegaScale"):
        return "attention", ()
    return stated or "none", ()
