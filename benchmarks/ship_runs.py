"""Writes the runs that ship with the package: ``python benchmarks/ship_runs.py FILE.csv...``.

Our own selection of rows of tables of measured runs: scored ones whose time can be modelled, at most a dozen of a
model on a chip in a source, every eighth plan of a sweep. Facts only, each with where it was published; of notes
no more than the words about the code that decide times.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rephaze.truth.records import MeasuredRun, ModelShape, RunPlan
from rephaze.truth.run_file import read_runs

OUT = Path(__file__).resolve().parent.parent / "src" / "rephaze" / "truth" / "data" / "runs.jsonl"
MOST_OF_A_KIND = 12
SWEEP_STEP = 8
SWEEP_CITED = "huggingface.co/spaces/nanotron/ultrascale-playbook and the benchmark tables beside it"
CODE_WORDS = (
    "HybridEP", "DeepEP", "CUDA graphs?", "token drop", r"capacity factor [\d.]+", "EP overlap on", "overlapped",
    "ring of experts", "DeepSpeed", "eager", "(?i:async)", "^MegaScale;", "packed samples off", "fused CE",
)  # fmt: skip
NETWORK_WORDS = (
    "RoCE", "EFA", r"\d+x ?\d+ ?Gb/s", "4 GPUs per node", r"\(\d+ Gb/s nominal", "GbE", "usual",
)  # fmt: skip


def main(paths: list[Path]) -> None:
    """Write the file."""
    lines, seen = [], Counter[tuple[str, str, str]]()
    for run in (run for path in paths for run in read_runs(path)):
        if run.score != "yes" or run.measured_s is None or run.reason:
            continue
        if run.is_sweep and run.line % SWEEP_STEP:
            continue
        kind = (run.source, run.model, run.chip)
        seen[kind] += 1
        if run.is_sweep or seen[kind] <= MOST_OF_A_KIND:
            lines.append(json.dumps(record_of_run(run)))
    OUT.write_text("\n".join(lines) + "\n", "utf-8")


def record_of_run(run: MeasuredRun) -> dict[str, Any]:
    """One line of the file."""
    cited = (run.facts.get("url") or SWEEP_CITED).split(";")[0].strip()
    facts = {
        "network": _words(NETWORK_WORDS, run.facts.get("network") or ""),
        "gpus": run.facts.get("gpus", "") if run.chip.startswith("TPU7x") else "",
        "precision": _precision(run),
        "pp_fixed": run.facts.get("pp_fixed", ""),
    }
    record: dict[str, Any] = {"source": run.source, "cited": cited, "model": run.model, "chip": run.chip}
    record |= {"shape": _stated(run.shape), "plan": _stated(run.plan), "global_batch": run.global_batch}
    record |= {"bits": run.bits, "is_fused": run.is_fused, "measured_s": run.measured_s}
    extra = {"measured_bytes": run.measured_bytes, "group": run.group, "code": _words(CODE_WORDS, run.notes)}
    extra |= {"facts": {name: value for name, value in facts.items() if value}, "is_sweep": run.is_sweep}
    return record | {name: value for name, value in extra.items() if value}


def _precision(run: MeasuredRun) -> str:
    """Where traits look at it."""
    stated = run.facts.get("precision") or ""
    is_asked = run.source.startswith(("BigScience", "MosaicML")) or "DeepSpeed" in run.notes
    return stated if stated == "int8" or is_asked else ""


def _words(patterns: tuple[str, ...], text: str) -> str:
    found = [match.group(0) for match in (re.search(pattern, text) for pattern in patterns) if match]
    return "; ".join(dict.fromkeys(found))


def _stated(record: ModelShape | RunPlan) -> dict[str, Any]:
    """All fields but those that have their defaults."""
    usual = {one.name: one.default for one in fields(record)}
    return {name: value for name, value in asdict(record).items() if value != usual[name]}


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
