"""Models nobody tuned rephaze for: are they placed and searched with a proof, and where does the time go?

``benchmarks/families/*.json`` are Hugging Face configs of many kinds of model, facts only, written by hand. This
script extracts them, then runs ``rephaze place`` and ``rephaze search`` on each, one fresh process at a time::

    python benchmarks/families.py                                  # all of them: an hour or so
    python benchmarks/families.py bart-large qwen3-8b --no-search --json found.json --markdown found.md

Every number is of a process whose kernels are compiled. Seconds by room are processor seconds, found by sampling:
neighbours on a shared machine change the wall times, not those.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

CONFIGS = Path(__file__).with_suffix("")
SEQ_LEN = {
    "bart-large": 1024,
    "bloom-7b1": 2048,
    "falcon-7b": 2048,
    "gpt-j-6b": 2048,
    "gpt-neox-20b": 2048,
    "mt5-large": 1024,
    "pegasus-large": 512,
    "roberta-large": 512,
}
"""Where it is not ``USUAL_SEQ_LEN``: the length of pre-training, or the longest the model takes."""
USUAL_SEQ_LEN = 4096
IMAGE_MODELS = ("dinov2-giant", "vit-huge")
ZOO = ("t5-large", "mixtral-8x7b")
CHIPS = ("h100", "tpuv4")
ROOMS = ("schedule", "estimate", "place", "workload", "search")
SAMPLE_S = 0.002
FOUND = "families: "
"""Before the line a measured process says its numbers in."""

Numbers = dict[str, Any]


def main() -> None:
    names = [*sorted(path.stem for path in CONFIGS.glob("*.json")), *ZOO]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("model", nargs="*", help=f"of {', '.join(names)}; default: all")
    parser.add_argument("--graphs", type=Path, help="folder to keep extracted graphs in; default: a temporary one")
    parser.add_argument("--time-limit", type=float, default=40.0, metavar="S", help="of a search (default 40)")
    parser.add_argument("--timeout", type=float, default=900.0, metavar="S", help="of any process (default 900)")
    parser.add_argument("--no-search", action="store_true", help="place only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers here, after every model")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table here, after every model")
    parser.add_argument("--measured", choices=("shape", "place", "search"), help=argparse.SUPPRESS)
    parser.add_argument("--chip", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measured:
        measured(asked.measured, asked.model[0], asked.chip, asked.time_limit)
        return
    if unknown := set(asked.model) - set(names):
        parser.error(f"{', '.join(sorted(unknown))}: not one of {', '.join(names)}")
    with TemporaryDirectory() as temporary:
        folder = asked.graphs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        compile_kernels()
        rows: list[Numbers] = []
        for name in asked.model or names:
            rows.append(row_of(name, folder, None if asked.no_search else asked.time_limit, asked.timeout))
            if asked.json:
                asked.json.write_text(json.dumps(rows, indent=1) + "\n")
            if asked.markdown:
                asked.markdown.write_text(table_of(rows))
            print(table_of(rows).splitlines()[-1], flush=True)
    print(f"\n{table_of(rows)}")


def compile_kernels() -> None:
    subprocess.run([sys.executable, str(Path(__file__).with_name("warm_kernels.py"))], check=True)


def row_of(name: str, folder: Path, time_limit_s: float | None, timeout_s: float) -> Numbers:
    """Everything measured of one model; each command in a process of its own."""
    row: Numbers = {"model": name, "extract_s": None}
    graph = name
    if name not in ZOO:
        graph = str(folder / f"{name}.json.gz")
        began = time.perf_counter()
        length = [] if name in IMAGE_MODELS else ["--seq-len", str(SEQ_LEN.get(name, USUAL_SEQ_LEN))]
        command = ["extract", str(CONFIGS / f"{name}.json"), *length, "--out", graph, "--json"]
        subprocess.run([str(Path(sys.executable).with_name("rephaze")), *command], check=True, capture_output=True)
        row["extract_s"] = time.perf_counter() - began
    row["shape"] = run_measured("shape", graph, timeout_s)
    for chip in CHIPS:
        row[chip] = run_measured("place", graph, timeout_s, "--chip", chip)
    if time_limit_s is not None:
        row["search"] = run_measured("search", graph, timeout_s, "--time-limit", str(time_limit_s))
    return row


def run_measured(what: str, graph: str, timeout_s: float, *options: str) -> Numbers:
    began = time.perf_counter()
    command = [sys.executable, __file__, graph, "--measured", what, *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return {"status": "stopped", "wall_s": time.perf_counter() - began}
    wall_s = time.perf_counter() - began
    lines = [line for line in done.stdout.splitlines() if line.startswith(FOUND)]
    if not lines:
        return {"status": "error", "message": done.stderr.strip()[-500:], "wall_s": wall_s}
    return {**json.loads(lines[0].removeprefix(FOUND)), "wall_s": wall_s}


def measured(what: str, graph: str, chip: str | None, time_limit_s: float) -> None:
    """What a measured process does: run the command itself under a watch, and say what was seen."""
    if what == "shape":
        print(FOUND + json.dumps(shape_of(graph)), flush=True)
        return
    rooms = watch_rooms()
    passes = watch_passes()
    from rephaze.cli.main import app

    options = {
        "place": ["--chip", str(chip)],
        "search": ["--workers", "1", "--time-limit", str(time_limit_s), "--scenario", "coarse"],
    }[what]
    with suppress(SystemExit):
        app([what, graph, *options, "--json"])
    signal.setitimer(signal.ITIMER_REAL, 0)
    answer = _printed[-1]
    unproven = [one for one in passes if one["bound_cycles"] < one["cycles"]]
    found = {
        "status": answer["status"],
        "gap": answer.get("gap", 0.0),
        "num_passes": len(passes),
        "num_unproven": len(unproven),
        "largest_gap": max((one["gap"] for one in unproven), default=0.0),
        "unproven_cpu_s": sum(one["cpu_s"] for one in unproven),
        "unproven": sorted(unproven, key=lambda one: -one["gap"])[:20],
        "cpu_s": time.process_time(),
        "room_cpu_s": rooms,
    }
    print(FOUND + json.dumps(found), flush=True)


_printed: list[Numbers] = []
"""What the command would have printed as JSON."""


def shape_of(graph: str) -> Numbers:
    """Layer types, and the operators of the largest series part of each pass, over all degrees."""
    from rephaze.hardware.scenarios import load_scenario
    from rephaze.measure.model_work import ModelWork
    from rephaze.schedule.structure import series_parts

    began = time.process_time()
    work = ModelWork(graph, load_scenario("coarse"))
    passes = [work.passes(cut) for cut in work.cuts]
    prepare_s = time.process_time() - began
    whole = work.graph(work.cuts[0])
    kinds = whole.layer_types
    largest: list[Numbers] = []
    for kind, layer_type in enumerate(kinds):
        sizes = [
            max(
                max((len(part.ops) for part in series_parts(one.structure, one.structure.takes_time)), default=0)
                for one in (of_cut[kind][direction] for of_cut in passes)
            )
            for direction in (0, 1)
        ]
        largest.append({"layer": layer_type.name, "forward_ops": sizes[0], "backward_ops": sizes[1]})
    return {
        "num_parameters": whole.num_parameters,
        "num_layers": len(work.layer_type_of),
        "num_layer_types": len(kinds),
        "largest_parts": largest,
        "prepare_cpu_s": prepare_s,
    }


def watch_rooms() -> dict[str, float]:
    """Processor seconds by room of the package, filled while the process runs.

    A timer's signal is handled as soon as a call into compiled code returns, in the frame that made it: time since
    the last one belongs to the innermost room on the stack.
    """
    rooms = dict.fromkeys((*ROOMS, "rest"), 0.0)
    seen_s = time.process_time()

    def take(_number: int, frame: Any) -> None:
        nonlocal seen_s
        now_s = time.process_time()
        room = "rest"
        while frame is not None and room == "rest":
            room = room_of(frame.f_code.co_filename)
            frame = frame.f_back
        rooms[room] += now_s - seen_s
        seen_s = now_s

    signal.signal(signal.SIGALRM, take)
    signal.setitimer(signal.ITIMER_REAL, SAMPLE_S, SAMPLE_S)
    return rooms


@cache
def room_of(file: str) -> str:
    parts = Path(file).parts
    return parts[-2] if parts[-3:-2] == ("rephaze",) and parts[-2] in ROOMS else "rest"


def watch_passes() -> list[Numbers]:
    """Every pass of a layer type that is scheduled: its proof and processor seconds, filled as it happens."""
    from rephaze.cli import output, place, search
    from rephaze.measure.chip_solver import ChipSolver

    passes: list[Numbers] = []
    seen: set[tuple[Any, ...]] = set()
    alive: list[Any] = []  # so that no other solver gets the id of one that was seen
    real = ChipSolver.pass_times

    def pass_times(
        self: Any, work: Any, cut: Any, microbatch: int, kind: int, direction: int, *, hurried: bool = False
    ) -> Any:
        key = (id(self), work.name, cut, microbatch, kind, direction)
        if key in seen or hurried:
            return real(self, work, cut, microbatch, kind, direction, hurried=hurried)
        self.pass_table(work, cut, microbatch, kind, direction)  # kept by the solver: not part of what follows
        began_s = time.process_time()
        found = real(self, work, cut, microbatch, kind, direction)
        seen.add(key)
        alive.append(self)
        passes.append(
            {
                "layer": work.graph(cut).layer_types[kind].name,
                "direction": ("forward", "backward")[direction],
                "tp": cut.tp,
                "microbatch": microbatch,
                "cycles": found.cycles,
                "bound_cycles": found.bound_cycles,
                "gap": 1 - found.bound_cycles / found.cycles if found.cycles else 0.0,
                "cpu_s": time.process_time() - began_s,
            }
        )
        return found

    ChipSolver.pass_times = pass_times  # type: ignore[method-assign]
    for module in (output, place, search):
        module.print_json = _printed.append  # type: ignore[attr-defined]
    return passes


def table_of(rows: list[Numbers]) -> str:
    """The numbers as a Markdown table."""
    head = ["model", "parameters", "layer types", "largest part", "extract"]
    for chip in CHIPS:
        head += [f"place, {chip}", "unproven passes", "largest gap", "schedule / estimate / place / rest"]
    head += ["search", "gap", "time"]
    lines = [" | ".join(head), " | ".join("-" * 3 for _ in head)]
    for row in rows:
        shape = row["shape"]
        cells = [row["model"]]
        if "largest_parts" in shape:
            most = max(max(one["forward_ops"], one["backward_ops"]) for one in shape["largest_parts"])
            cells += [f"{shape['num_parameters'] / 1e9:.2f}e9", str(shape["num_layer_types"]), f"{most} ops"]
        else:
            cells += ["error", "", ""]
        cells.append("" if row["extract_s"] is None else f"{row['extract_s']:.1f} s")
        for chip in CHIPS:
            cells += _place_cells(row[chip])
        cells += _search_cells(row.get("search"))
        lines.append(" | ".join(cells))
    return "".join(f"| {line} |\n" for line in lines)


def _search_cells(found: Numbers | None) -> list[str]:
    if found is None:
        return ["", "", ""]
    # A search stopped before its first design is solved knows no gap.
    gap = "" if found.get("gap") is None else f"{100 * found['gap']:.2g} %"
    return [found["status"], gap, _seconds(found)]


def _seconds(found: Numbers) -> str:
    cpu = f" ({found['cpu_s']:.1f} s processor)" if "cpu_s" in found else ""
    return f"{found['wall_s']:.1f} s{cpu}"


def _place_cells(found: Numbers) -> list[str]:
    if "num_passes" not in found:
        return [f"{found['status']}, {_seconds(found)}", "", "", ""]
    rooms = found["room_cpu_s"]
    rest = sum(rooms.values()) - rooms["schedule"] - rooms["estimate"] - rooms["place"]
    times = [rooms["schedule"], rooms["estimate"], rooms["place"], rest]
    return [
        f"{found['status']}, {_seconds(found)}",
        f"{found['num_unproven']} of {found['num_passes']}",
        f"{100 * found['largest_gap']:.2g} %",
        " / ".join(f"{one:.1f}" for one in times) + " s",
    ]


if __name__ == "__main__":
    main()
