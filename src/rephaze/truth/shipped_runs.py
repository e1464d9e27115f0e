"""Measured runs that ship with the package: our own selection, every one with its source."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from rephaze.truth.records import Experts, LatentAttention, MeasuredRun, ModelShape, RunPlan

FILE = "runs.jsonl"


@cache
def shipped_runs() -> tuple[MeasuredRun, ...]:
    """All of them, in the file's order."""
    text = files("rephaze.truth").joinpath("data", FILE).read_text("utf-8")
    return tuple(run_of_record(json.loads(line), number) for number, line in enumerate(text.splitlines(), 1))


def run_of_record(record: dict[str, Any], line: int) -> MeasuredRun:
    """From one line of the file; fields left out have their defaults."""
    shape = dict(record["shape"])
    if "experts" in shape:
        shape["experts"] = Experts(**shape["experts"])
    if "latent" in shape:
        shape["latent"] = LatentAttention(**shape["latent"])
    plan = dict(record["plan"])
    plan["kept"] = tuple(plan.get("kept", ()))
    return MeasuredRun(
        source=record["source"],
        model=record["model"],
        chip=record["chip"],
        shape=ModelShape(**shape),
        plan=RunPlan(**plan),
        global_batch=record["global_batch"],
        bits=record["bits"],
        is_fused=record["is_fused"],
        measured_s=record["measured_s"],
        measured_bytes=record.get("measured_bytes"),
        memory_meaning="",
        group=record.get("group", ""),
        score="yes",
        status="ok",
        notes=record.get("code", ""),
        line=line,
        file=FILE,
        is_sweep=record.get("is_sweep", False),
        facts=record.get("facts", {}),
    )
