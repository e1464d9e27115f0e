"""How searches by boxes grow with the number of designs, and what finer steps gain: a table in docs/search.md.

Grids from some ten thousand points to over a billion, each with all designs of the one before. A case runs in a
process of its own, with nothing remembered but compiled kernels; cases are kept, and not measured again::

    python benchmarks/fine_steps.py                       # all cases that are missing, then the table
    python benchmarks/fine_steps.py --grids 1e9 --limit 3600
    python benchmarks/fine_steps.py --page                # the table alone

CPU seconds are those of one process; two workers take little more than half as long by the clock.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import rephaze
from warm_kernels import warm_all

ROOT = Path(__file__).parents[1]
CASES = Path(__file__).parent / "data" / "fine_steps.jsonl"
PAGE = ROOT / "docs" / "search.md"
BEGIN, END = "<!-- benchmarks/fine_steps.py begins -->\n", "<!-- benchmarks/fine_steps.py ends -->\n"
MODELS = ("gpt2-xl", "llama2-7b")
SIDES = [32, 64, 128, 256]
TWOS = [1, 2, 4, 8, 16, 32, 64, 128]
FINE_CORES = [*range(1, 9), *range(10, 25, 2), 28, *range(32, 49, 4), 56, 64, 80, 96, 112, 128]


def by(first: int, last: int, step: int) -> dict[str, int]:
    return {"from": first, "to": last, "step": step}


GRIDS: dict[str, dict[str, Any]] = {
    "1e4": {"num_tensor_cores": TWOS, "num_vector_cores": [1, 2, 4], "vector_lanes": [512, 1024, 2048],
            "global_buffer_mib": [32, 64, 96], "num_hbm_stacks": [2, 4, 6]},
    "1e5": {"num_tensor_cores": TWOS, "num_vector_cores": [1, 2, 4, 8], "vector_lanes": [256, 512, 1024, 2048],
            "global_buffer_mib": [16, 32, 64, 96, 128, 192], "num_hbm_stacks": [1, 2, 3, 4, 5, 6, 8]},
    "1e6": {"num_tensor_cores": [*TWOS, 3, 6, 12, 24, 48, 96], "num_vector_cores": [1, 2, 3, 4, 6, 8],
            "vector_lanes": [256, 512, 768, 1024, 1536, 2048], "global_buffer_mib": by(16, 192, 16),
            "num_hbm_stacks": by(1, 8, 1)},
    "1e7": {"num_tensor_cores": FINE_CORES, "num_vector_cores": by(1, 8, 1),
            "vector_lanes": [256, 512, 768, 1024, 1280, 1536, 1792, 2048], "global_buffer_mib": by(8, 192, 4),
            "num_hbm_stacks": by(1, 8, 1)},
    "1e8": {"num_tensor_cores": by(1, 128, 1), "num_vector_cores": by(1, 8, 1), "vector_lanes": by(128, 2048, 128),
            "global_buffer_mib": by(8, 192, 4), "num_hbm_stacks": by(1, 8, 1)},
    "1e9": {"num_tensor_cores": by(1, 128, 1), "num_vector_cores": by(1, 8, 1), "vector_lanes": by(128, 2048, 128),
            "global_buffer_mib": by(8, 192, 1), "num_hbm_stacks": by(1, 8, 1),
            "tensor_width": [16, 32, 48, 64, 96, 128, 256], "tensor_depth": [16, 32, 48, 64, 96, 128, 256]},
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grids", nargs="+", choices=list(GRIDS), default=list(GRIDS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--limit", type=float, default=600.0, help="seconds by the clock for one search")
    parser.add_argument("--anew", action="store_true", help="measure also what is kept")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    parser.add_argument("--measure", nargs=3, metavar=("MODEL", "GRID", "LIMIT"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(measured(asked.measure[0], asked.measure[1], float(asked.measure[2]))))
        return
    if not asked.page:
        kept = {(case["model"], case["grid"]) for case in read_cases()}
        for grid in asked.grids:
            for model in asked.models:
                if asked.anew or (model, grid) not in kept:
                    case = [model, grid, str(asked.limit)]
                    command = [sys.executable, __file__, "--measure", *case]
                    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                    print(done.stdout.strip(), flush=True)
                    with CASES.open("a") as file:
                        file.write(done.stdout)
    write_table()


def measured(model: str, grid: str, limit_s: float) -> dict[str, Any]:
    """One search, in this process."""
    warm_all()
    space = {"tensor_width": SIDES, "tensor_depth": SIDES} | GRIDS[grid]
    changes = {"space": space, "search": {"method": "boxes"}}
    began_s = time.process_time()
    found = rephaze.explore(model, changes=changes, time_limit_s=limit_s)
    used = resource.getrusage(resource.RUSAGE_SELF)
    chip = found.chip
    return {
        "model": model,
        "grid": grid,
        "num_points": found.certificate.num_designs,
        "num_boxes": sum((found.certificate.num_boxes or {}).values()),
        "status": str(found.status),
        "samples_per_s": found.objective,
        "gap": found.gap,
        "cpu_s": round(time.process_time() - began_s, 1),
        "peak_bytes": used.ru_maxrss * 1024,
        "chip": ""
        if chip is None
        else f"{chip.num_tensor_cores} of {chip.tensor_width}x{chip.tensor_depth}, "
        f"{chip.num_vector_cores} x {chip.vector_lanes} lanes, {chip.global_buffer_bytes >> 20} MiB, "
        f"{chip.hbm_bytes >> 30} GiB",
    }


def read_cases() -> list[dict[str, Any]]:
    lines = CASES.read_text().splitlines() if CASES.exists() else []
    return [json.loads(line) for line in lines]


def write_table() -> None:
    """Put the table where docs/search.md has a place for it; of cases measured twice the last counts."""
    cases = {(case["model"], case["grid"]): case for case in read_cases()}
    heads = ("model", "grid points", "samples/s", "gap", "CPU s", "boxes", "MB", "best chip")
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for model in MODELS:
        for grid in GRIDS:
            if case := cases.get((model, grid)):
                gap = "proven" if case["status"] == "optimal" else f"{case['gap']:.1%}"
                told = (f"{case['num_points']:,}", f"{case['samples_per_s']:,.1f}", gap, f"{case['cpu_s']:,.0f}")
                told += (f"{case['num_boxes']:,}", f"{case['peak_bytes'] / 1e6:,.0f}", case["chip"])
                rows.append(f"| {' | '.join((model, *told))} |")
    told = [growth([cases[model, grid] for grid in GRIDS if (model, grid) in cases]) for model in MODELS]
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(before + BEGIN + "\n".join([*rows, "", "\n\n".join(told)]) + "\n" + END + after)


def growth(cases: list[dict[str, Any]]) -> str:
    """From the coarsest grid that was measured to the finest."""
    if not cases:
        return ""
    first, last = cases[0], cases[-1]
    points, cpu, boxes, gain = (
        last[name] / first[name] for name in ("num_points", "cpu_s", "num_boxes", "samples_per_s")
    )
    return (
        f"{first['model']}: {points:,.0f} times the grid points take {cpu:,.0f} times the CPU seconds and "
        f"{boxes:,.0f} times the boxes, and gain {gain - 1:.1%}."
    )


if __name__ == "__main__":
    main()
