"""Tables of measured runs: three layouts of CSV, read strictly."""

from __future__ import annotations

from pathlib import Path

from rephaze.errors import SpecError
from rephaze.truth.records import MeasuredRun, ModelShape, RunPlan
from rephaze.truth.run_plan import experts_reason, read_plan
from rephaze.truth.run_row import Row
from rephaze.truth.run_shape import read_shape
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


def _sweep_run(values: dict[str, str], file: str, line: int) -> MeasuredRun:
    row = Row(values, file, line)
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
    row = Row(values, file, line)
    for name in COUNT_COLUMNS:  # also those that this kind of model has no use for
        row.count(name, 1)
    shape, reason = read_shape(row)
    plan, plan_reason = read_plan(row)
    measured_s = row.number("derived_iter_time_s", 0.0) or None
    metric, unit = row.text("measured_metric"), row.text("unit")
    if measured_s is None:
        measured_s = _time_of_rate(row, shape)
    measured_bytes = row.number("memory_bytes", 0.0) or None
    if metric == "peak_memory" and unit == "GiB":
        measured_bytes = row.number("value") * GIB
    if metric.startswith("layer_"):
        reason = reason or "a layer's time, not a batch's"
    reason = reason or plan_reason or experts_reason(plan, shape.experts)
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
        reason=f"{', '.join(row.blanks)} not stated" if row.blanks else reason,
        facts=dict(values),
    )


def _memory_meaning(row: Row) -> str:
    source = row.text("source")
    if source.startswith("torchtitan"):
        return "reserved"
    if source.startswith("BigScience"):
        return "device"
    return "allocated"


def _time_of_rate(row: Row, shape: ModelShape) -> float | None:
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


def _bits(row: Row) -> int:
    precision = row.word("precision", "8", "16").lower()
    if "fp4" in precision:
        return 4
    return 8 if "8" in precision else 16


def _is_fused(row: Row) -> bool:
    stated = row.word("attention")
    if stated:
        return stated != "plain"
    source = row.text("source")
    if source.startswith(("Megatron-LM SC21", "Korthikanti", "vTrain", "PaLM")):
        return False
    return not (source.startswith("MegaScale") and "Megatron-LM" in row.text("notes"))
