"""How a search would spread over more workers than there are here: its tasks, replayed on paper.

A search with the processes of this machine is recorded: what was given out together, and how long each task took.
Waves and tasks are the same for any number of workers. They are dealt out in order, each task to the first worker
that is free; the next wave begins when all are back. The table goes to docs/search.md::

    python benchmarks/scale_out.py gpt2-xl                 # record and replay one search
    python benchmarks/scale_out.py --nine --limit 900
    python benchmarks/scale_out.py --page                  # the table alone
"""

from __future__ import annotations

import argparse
import heapq
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import rephaze
from bench_search import NINE
from rephaze.search.workers import local

ROOT = Path(__file__).parents[1]
CASES = Path(__file__).parent / "data" / "scale_out.jsonl"
PAGE = ROOT / "docs" / "search.md"
BEGIN, END = "<!-- benchmarks/scale_out.py begins -->\n", "<!-- benchmarks/scale_out.py ends -->\n"
WHOLE_WAVE_S = 60.0
"""Waves with at least this much work are those a cluster is for."""
CLUSTERS = (8, 64, 512)
"""Workers that tasks are dealt out to."""


@dataclass(frozen=True, slots=True)
class Wave:
    """Tasks that were given out together."""

    kind: str
    task_s: tuple[float, ...]


class Recorder:
    """Times of the tasks of a pool, as its processes took them up one after the other."""

    def __init__(self, num_workers: int) -> None:
        self.num_workers = num_workers
        self._waves: list[tuple[str, float, list[float]]] = []

    def watch(self) -> None:
        """Note what every pool is given from now on."""
        submit: Callable[..., list[Future[Any]]] = local.LocalProcesses._submit

        def noted(pool: local.LocalProcesses, task: Callable[..., Any], calls: Sequence[Any]) -> list[Future[Any]]:
            began_s, done_s = time.perf_counter(), [0.0] * len(calls)
            asked = submit(pool, task, calls)
            for at, one in enumerate(asked):
                one.add_done_callback(lambda _one, at=at: done_s.__setitem__(at, time.perf_counter()))
            self._waves.append((task.__name__.strip("_"), began_s, done_s))
            return asked

        local.LocalProcesses._submit = noted  # type: ignore[method-assign]

    def waves(self) -> list[Wave]:
        """Who is free first takes the next task: so each task began when the one before it there was done."""
        found = []
        for kind, began_s, done_s in self._waves:
            free, task_s = [began_s] * self.num_workers, []
            for end_s in done_s:
                # A worker is free when an earlier task is done; tasks begin in order.
                start_s = heapq.heappop(free)
                task_s.append(max(end_s - start_s, 0.0))
                heapq.heappush(free, end_s)
            found.append(Wave(kind, tuple(round(one, 4) for one in task_s if one > 0)))
        return found


def makespan_s(task_s: Sequence[float], num_workers: int) -> float:
    """Of tasks in order, each to the first worker that is free."""
    free = [0.0] * min(num_workers, len(task_s))
    for one in task_s:
        heapq.heappush(free, heapq.heappop(free) + one)
    return max(free, default=0.0)


def replayed(waves: Sequence[Wave], num_workers: int) -> tuple[float, float]:
    """Seconds of all waves one after another, and the part of the workers' time that is work."""
    wall_s = sum(makespan_s(wave.task_s, num_workers) for wave in waves)
    work_s = sum(sum(wave.task_s) for wave in waves)
    return wall_s, work_s / (wall_s * num_workers) if wall_s else 0.0


def recorded(models: Sequence[str], num_workers: int, limit_s: float) -> dict[str, Any]:
    recorder = Recorder(num_workers)
    recorder.watch()
    found = rephaze.explore(*models, num_workers=num_workers, time_limit_s=limit_s)
    return {
        "models": list(models),
        "status": str(found.status),
        "objective": found.objective,
        "gap": found.gap,
        "search_s": round(found.search_s, 1),
        "num_boxes": sum((found.certificate.num_boxes or {}).values()),
        "waves": [asdict(wave) for wave in recorder.waves()],
    }


def write_table() -> None:
    cases = [json.loads(line) for line in CASES.read_text().splitlines()] if CASES.exists() else []
    newest = {tuple(case["models"]): case for case in cases}
    heads = ("search", "gap at the end", "waves", "tasks", "work s", *(f"busy of {n}" for n in CLUSTERS))
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for models, case in sorted(newest.items()):
        name = "the paper's nine" if len(models) == len(NINE) else ", ".join(models)
        every = [Wave(one["kind"], tuple(one["task_s"])) for one in case["waves"]]
        large = [wave for wave in every if wave.kind == "expand" and sum(wave.task_s) >= WHOLE_WAVE_S]
        gap = "proven" if case["status"] == "optimal" else f"{case['gap']:.1%}"
        longest = max(large, key=lambda wave: sum(wave.task_s), default=None)
        for told, waves in (
            (name, every),
            (f"{name}, waves of boxes over {WHOLE_WAVE_S:.0f} s of work", large),
            (f"{name}, the longest of them", [] if longest is None else [longest]),
        ):
            if waves:
                work_s, num_tasks = sum(sum(wave.task_s) for wave in waves), sum(len(w.task_s) for w in waves)
                cells = (told, gap, f"{len(waves):,}", f"{num_tasks:,}", f"{work_s:,.0f}")
                busy = (f"{part:.0%} ({wall_s:,.1f} s)" for wall_s, part in (replayed(waves, n) for n in CLUSTERS))
                rows.append(f"| {' | '.join((*cells, *busy))} |")
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(before + BEGIN + "\n".join(rows) + "\n" + END + after)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--nine", action="store_true", help="the paper's nine models, one chip for all")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds by the clock")
    parser.add_argument("--page", action="store_true", help="record nothing")
    asked = parser.parse_args()
    models = NINE if asked.nine else asked.models
    if models and not asked.page:
        case = recorded(models, asked.workers, asked.limit)
        with CASES.open("a") as file:
            file.write(json.dumps(case) + "\n")
        print({name: value for name, value in case.items() if name != "waves"})
    write_table()


if __name__ == "__main__":
    main()
