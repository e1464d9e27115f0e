"""The page on how cost grows: kept cases as Markdown tables, one a kind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from rephaze.types.readable import rounded_amount

Measured = dict[str, Any]
HEAD = """# How cost grows

Written by `python benchmarks/growth.py` from what it measured: CPU seconds of one process (Python {python}),
after compiled kernels are loaded and the model is read. Other machines differ by a factor; the ratios are what to
look at. *Power* is p where cost goes with size to the power of p between a row and the one before it. Times of
whole searches on two cores are in [search.md](search.md).
"""
TOLD = {
    "devices, 1f1b": (
        "Chips in the cluster, cost model `1f1b`",
        "`rephaze place llama2-7b --chip tpuv4` in scenario `coarse`, four samples a chip in a batch. Layers\n"
        "are mapped and scheduled once, whatever the cluster is, and that is most of the cost.",
    ),
    "devices, full": (
        "Chips in the cluster, cost model `full`",
        "The same in scenario `default`, with all its choices.",
    ),
    "layers, 1f1b": (
        "Layers of a model, cost model `1f1b`",
        "Llama 2's blocks, more or fewer of them, on 1,024 chips in scenario `coarse`. Equal blocks are\n"
        "scheduled once.",
    ),
    "layers, full": ("Layers of a model, cost model `full`", "The same in scenario `default`."),
    "chips": (
        "Chips of the space",
        "`rephaze search bert-large` over parts of scenario `coarse`, proven. Bounds are computed for many\n"
        "chips at once and few chips are solved. Spaces of more than 200,000 grid points are searched by boxes\n"
        "([search.md](search.md)), whose cost `benchmarks/fine_steps.py` measures.",
    ),
    "models": (
        "Models that share a chip",
        "One chip for the first k of bert-large, gpt2-xl, llama2-7b, megatron-gpt2-8.3b over a twentieth\n"
        "of scenario `coarse`, proven. Models differ in what they cost; bounds of all must fall below one answer.",
    ),
    "plan options": (
        "Choices of a plan",
        "`rephaze place llama2-7b --chip tpuv4` in scenario `default`, its lists opened one kind after the\n"
        "other: degrees alone, then microbatch sizes and what is kept, sharded state, schedules, context\n"
        "parallelism, all.",
    ),
}


def page(cases: Sequence[Measured]) -> str:
    """The whole page; kinds without cases are left out."""
    parts = [HEAD.format(python=cases[0]["python"] if cases else "-")]
    for kind, (title, text) in TOLD.items():
        here = [case for case in cases if case["kind"] == kind]
        if here:
            parts.append(f"## {title}\n\n{text}\n\n{table(here)}\n")
    return "\n".join(parts)


def table(cases: Sequence[Measured]) -> str:
    sizes = [size_of(case) for case in cases]
    has_sizes = all(size is not None for size in sizes)
    has_designs = "num_designs" in cases[0]
    headings = ["at", *(["chips", "solved"] if has_designs else []), "CPU s", "over the row before"]
    headings += ["power"] * has_sizes + ["answer"]
    rows = []
    for position, case in enumerate(cases):
        row = [f"{int(case['at']):,}" if case["at"].isdecimal() else case["at"]]
        row += [f"{case['num_designs']:,}", f"{case['num_solved']:,}"] if has_designs else []
        row += [f"{case['cpu_s']:.2f}", *grown(cases, sizes if has_sizes else None, position), answer_of(case)]
        rows.append(row)
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def grown(cases: Sequence[Measured], sizes: list[float | None] | None, position: int) -> list[str]:
    """Ratio to the row before and, where sizes are numbers, the power between the two."""
    if position == 0:
        return ["-"] * (2 if sizes else 1)
    ratio = cases[position]["cpu_s"] / cases[position - 1]["cpu_s"]
    if sizes is None:
        return [f"{ratio:.2f}"]
    before, now = list(pairwise(sizes))[position - 1]
    assert before is not None
    assert now is not None
    return [f"{ratio:.2f}", f"{math.log(ratio) / math.log(now / before):.2f}"]


def size_of(case: Measured) -> float | None:
    if "num_designs" in case and case["kind"] == "chips":
        return float(case["num_designs"])
    return float(case["at"]) if case["at"].isdecimal() else None


def answer_of(case: Measured) -> str:
    if "objective" in case:
        return f"{rounded_amount(case['objective'])} samples/s, {case['status']}"
    return f"{case['batch_s']:.4g} s a batch, {case['status']}"
