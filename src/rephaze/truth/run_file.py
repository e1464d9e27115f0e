"""Tables of measured runs: three layouts of CSV, read strictly."""

from __future__ import annotations

import re
from pathlib import Path

from rephaze.errors import SpecError
from rephaze.truth.records import Experts, LatentAttention, MeasuredRun, ModelShape, RunPlan
from rephaze.types.checks import check_count, whole_number
from rephaze.types.csv_table import read_csv_table
from rephaze.units import GIB

# fmt: off
RUN_COLUMNS = (
    "source", "model", "hidden", "layers", "heads", "kv_heads", "ffn", "vocab", "seq", "global_batch",
    "microbatch", "gpus", "tp", "pp", "dp", "interleave", "recompute", "seq_parallel", "chip",
    "measured_metric", "value", "unit", "cp", "ep", "zero", "precision", "head_dim", "experts", "topk",
    "moe_ffn", "derived_iter_time_s", "notes", "score",
)
SWEEP_COLUMNS = (
    "model", "hidden", "layers", "heads", "kv_heads", "ffn", "vocab", "tied", "seq", "gpus", "dp", "tp", "pp",
    "microbatch", "global_batch", "zero", "status", "step_s", "memory_reserved_gb", "score",
)
COUNT_COLUMNS = (
    "hidden", "layers", "heads", "ffn", "vocab", "seq", "global_batch", "microbatch", "gpus", "tp", "pp", "dp",
    "cp", "ep", "experts", "topk", "moe_ffn",
)
# fmt: on
MOST = 1e24
"""Of any number; times and bytes of it stay finite."""
LEAST_S = 1e-9
LEAST_RATE = 1e-6
_LEAST = {"derived_iter_time_s": LEAST_S, "step_s": LEAST_S}
MAY_BE_ZERO = ("zero", "tp", "pp", "dp", "cp", "ep", "ffn")
"""Counts that tables leave at 0 for what is not used."""
MOST_BLOCKS = 4096
MOST_COUNT = 2**30
_NO_NUMBERS = ("nan", "inf", "-inf", "+inf", "infinity", "-infinity")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?|[+-]?\.[0-9]+", re.ASCII)


def read_runs(path: Path) -> list[MeasuredRun]:
    """All rows of a table; ``SpecError`` names file, line and column of what cannot be read."""
    header, lines = read_csv_table(path)
    rows = [dict(zip(header, line, strict=True)) for line in lines]
    for known, read in ((RUN_COLUMNS, _run), (SWEEP_COLUMNS, _sweep_run)):
        if set(header).issuperset(known):
            return [read(row, path.name, number) for number, row in enumerate(rows, 2)]
    missing = sorted(set(RUN_COLUMNS) - set(header))
    raise SpecError(
        path.name, ",".join(missing[:4]), "columns of a table of runs are missing", "docs/validation.md lists them"
    )


def _is_numeric(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text)) or text.lower() in _NO_NUMBERS


def _most(column: str) -> int:
    return MOST_BLOCKS if column == "layers" else MOST_COUNT


class _Row:
    """One line, with errors that say where."""

    def __init__(self, values: dict[str, str], file: str, line: int) -> None:
        self.values, self.file, self.line = values, file, line
        self.blanks: list[str] = []
        """Of what a run needs: it cannot be modelled."""

    def text(self, name: str) -> str:
        return (self.values.get(name) or "").strip()

    def number(self, name: str, default: float | None = None) -> float:
        text = self.text(name)
        if not text:
            if default is None:
                self.blanks.append(name)
                return 1.0
            return default
        if not _NUMBER.fullmatch(text):
            raise SpecError(f"{self.file}:{self.line} {name}", text, "is not a number")
        found = float(text)
        least = _LEAST.get(name, 0.0)
        if found and not least <= found <= MOST:
            rule = f"must be 0, or from {least:g} to {MOST:g}" if least else f"must be from 0 to {MOST:g}"
            raise SpecError(f"{self.file}:{self.line} {name}", text, rule)
        return found

    def count(self, name: str, default: int | None = None) -> int:
        field, found = f"{self.file}:{self.line} {name}", self.number(name, default)
        if found != int(found):
            raise SpecError(field, self.text(name), "must be a whole number")
        if self.text(name):
            check_count(field, int(found), at_least=0 if name in MAY_BE_ZERO else 1, at_most=_most(name))
        return int(found)

    def degree(self, name: str) -> int:
        """A count of which 0 says that it is not used."""
        return max(1, self.count(name))

    def rate(self, name: str) -> float:
        """A number that something is divided by."""
        found = self.number(name)
        if not found >= LEAST_RATE:
            rule = f"must be {LEAST_RATE:g} or more: a rate"
            raise SpecError(f"{self.file}:{self.line} {name}", self.text(name), rule)
        return found

    def note(self, pattern: str) -> str:
        found = re.search(pattern, self.text("notes") + "; " + self.text("remark"))
        return found.group(1) if found else ""

    def noted(self, pattern: str, default: int, *, at_least: int = 0) -> int:
        """A number that the notes state."""
        text = self.note(pattern)
        return self.stated("notes", text, at_least=at_least) if text else default

    def stated(self, name: str, text: str, *, at_least: int = 0) -> int:
        """A number within the text of a column."""
        field, found = f"{self.file}:{self.line} {name}", whole_number(text)
        if found is None:
            raise SpecError(field, text, "must be a whole number")
        check_count(field, found, at_least=at_least, at_most=MOST_COUNT)
        return found

    def word(self, name: str, *numbers: str) -> str:
        """Text of a column for words, in which these numbers alone mean something."""
        text = self.text(name)
        if text not in numbers and _is_numeric(text):
            raise SpecError(f"{self.file}:{self.line} {name}", text, " or ".join(("must be a word", *numbers)))
        return text


def _sweep_run(values: dict[str, str], file: str, line: int) -> MeasuredRun:
    row = _Row(values, file, line)
    heads, hidden = row.count("heads"), row.count("hidden")
    zero, dp = row.count("zero"), row.degree("dp")
    score = {"yes": "yes", "memory only": "memory", "fit only": "fit", "no": "no"}.get(row.text("score"))
    if score is None:
        raise SpecError(f"{file}:{line} score", row.text("score"), "must be yes, memory only, fit only or no")
    shape = ModelShape(
        hidden=hidden,
        num_blocks=row.count("layers"),
        heads=heads,
        kv_heads=row.count("kv_heads"),
        head_dim=hidden // heads,
        ffn=row.count("ffn"),
        vocab=row.count("vocab"),
        seq=row.count("seq"),
        is_gated=True,
        is_tied=row.word("tied", "0", "1") == "1",
    )
    plan = RunPlan(
        num_devices=row.count("gpus"),
        tp=row.degree("tp"),
        pp=row.degree("pp"),
        dp=dp,
        cp=1,
        ep=1,
        etp=1,
        sp=row.count("tp") > 1,
        chunks=1,
        microbatch=row.count("microbatch"),
        sharding="optimizer" if zero and dp > 1 else "none",
        shard_group=dp if zero and dp > 1 else 1,
        schedule="1f1b",
        recompute="none",
    )
    reserved = row.number("memory_reserved_gb", 0.0)
    return MeasuredRun(
        source="H100 sweep (nanotron)",
        model=row.text("model"),
        chip="H100-80GB-SXM",
        shape=shape,
        plan=plan,
        global_batch=row.count("global_batch"),
        bits=16,
        is_fused=True,
        measured_s=row.number("step_s", 0.0) or None,
        measured_bytes=reserved * GIB or None,
        memory_meaning="reserved",
        group=f"sweep {row.text('model')} on {row.count('gpus')}",
        score=score,
        status="oom" if row.word("status").lower() in ("oom", "out of memory") else "ok",
        notes=row.text("remark"),
        line=line,
        file=file,
        is_sweep=True,
        facts=dict(values),
    )


def _run(values: dict[str, str], file: str, line: int) -> MeasuredRun:
    row = _Row(values, file, line)
    for name in COUNT_COLUMNS:  # also those that this kind of model has no use for
        row.count(name, 1)
    shape, reason = _shape(row)
    plan, plan_reason = _plan(row)
    measured_s = row.number("derived_iter_time_s", 0.0) or None
    metric, unit = row.text("measured_metric"), row.text("unit")
    if measured_s is None:
        measured_s = _time_of_rate(row, shape)
    measured_bytes = row.number("memory_bytes", 0.0) or None
    if metric == "peak_memory" and unit == "GiB":
        measured_bytes = row.number("value") * GIB
    if metric.startswith("layer_"):
        reason = reason or "a layer's time, not a batch's"
    score = {"yes": "yes", "no": "no", "memory only": "memory"}.get(row.text("score"))
    if score is None:
        raise SpecError(f"{file}:{line} score", row.text("score"), "must be yes, no or memory only")
    return MeasuredRun(
        source=row.text("source"),
        model=row.text("model"),
        chip=row.text("chip"),
        shape=shape,
        plan=plan,
        global_batch=row.count("global_batch"),
        bits=_bits(row),
        is_fused=_is_fused(row),
        measured_s=measured_s,
        measured_bytes=measured_bytes,
        memory_meaning=_memory_meaning(row),
        group=row.text("group"),
        score=score,
        status="ok",
        notes=row.text("notes"),
        line=line,
        file=file,
        reason=f"{', '.join(row.blanks)} not stated" if row.blanks else reason or plan_reason,
        facts=dict(values),
    )


def _memory_meaning(row: _Row) -> str:
    source = row.text("source")
    if source.startswith("torchtitan"):
        return "reserved"
    if source.startswith("BigScience"):
        return "device"
    return "allocated"


def _time_of_rate(row: _Row, shape: ModelShape) -> float | None:
    """From model FLOP/s or utilisation, where that is what is printed: 6 a parameter and token, and the square."""
    metric = row.text("measured_metric")
    batch, seq = row.count("global_batch"), shape.seq
    flops = 72.0 * batch * seq * shape.num_blocks * shape.hidden**2
    flops *= 1 + seq / (6 * shape.hidden) + shape.vocab / (12 * shape.num_blocks * shape.hidden)
    if metric == "model_TFLOPs_per_gpu":
        if shape.is_gated:
            weights = _block_weights(shape) * shape.num_blocks + shape.vocab * shape.hidden
            flops = batch * seq * (6.0 * weights + 6.0 * shape.num_blocks * shape.heads * shape.head_dim * seq)
        return flops / (row.rate("value") * 1e12 * row.count("gpus"))
    if metric == "MFU" and "A100" in row.text("chip"):
        return flops / (row.rate("value") / 100 * 312e12 * row.count("gpus"))
    return None


def _block_weights(shape: ModelShape) -> float:
    attention = shape.hidden * shape.head_dim * (2 * shape.heads + 2 * shape.kv_heads)
    return attention + (3 if shape.is_gated else 2) * shape.hidden * shape.ffn


def _bits(row: _Row) -> int:
    precision = row.word("precision", "8", "16").lower()
    if "fp4" in precision:
        return 4
    return 8 if "8" in precision else 16


def _is_fused(row: _Row) -> bool:
    stated = row.word("attention")
    if stated:
        return stated != "plain"
    source = row.text("source")
    if source.startswith(("Megatron-LM SC21", "Korthikanti", "vTrain", "PaLM")):
        return False
    return not (source.startswith("MegaScale") and "Megatron-LM" in row.text("notes"))


def _shape(row: _Row) -> tuple[ModelShape, str]:
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
    if _is_numeric(stated_window):
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
        is_parallel=kind == "palm" or "parallel block" in row.text("notes"),
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


def _experts(row: _Row, blocks: int) -> Experts:
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


def _plan(row: _Row) -> tuple[RunPlan, str]:
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
    if _is_numeric(stated_chunks):
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


def _is_sequence_parallel(row: _Row) -> bool:
    """Blank beside a blank ``zero``: taken to be what Megatron-Core does by default."""
    stated = row.word("seq_parallel", "0", "1")
    return stated in ("1", "True", "true") or (not stated and not row.text("zero"))


def _sharding(row: _Row, replicas: int) -> tuple[str, int]:
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


def _recompute(row: _Row) -> tuple[str, tuple[str, ...]]:
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
            return "policy", ("qkv", "attention", "attention_out", "ffn_out")
        return "policy", POLICY_KEEPS["minimal"]
    if stated in ("full", "block", "uniform", "none"):
        return "none" if stated == "none" else "full", ()
    if source.startswith("MegaScale"):
        return "attention", ()
    return stated or "none", ()
