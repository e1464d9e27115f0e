"""Measured runs that ship with the package: our own selection, every one with its source."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
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


def record_of_run(run: MeasuredRun, cited: str, code: str, facts: dict[str, str]) -> dict[str, Any]:
    """One line of the file: a run, where it is published, and the words about its code that decide times."""
    shape = _stated(run.shape)
    record: dict[str, Any] = {"source": run.source, "cited": cited, "model": run.model, "chip": run.chip}
    record |= {"shape": shape, "plan": _stated(run.plan), "global_batch": run.global_batch, "bits": run.bits}
    record |= {"is_fused": run.is_fused, "measured_s": run.measured_s}
    extra = {"measured_bytes": run.measured_bytes, "group": run.group, "code": code, "facts": facts}
    if run.is_sweep:
        extra["is_sweep"] = True
    return record | {name: value for name, value in extra.items() if value}


def _stated(record: ModelShape | RunPlan) -> dict[str, Any]:
    """All fields but those that have their defaults."""
    usual = {one.name: one.default for one in fields(record)}
    return {name: value for name, value in asdict(record).items() if value != usual[name]}
