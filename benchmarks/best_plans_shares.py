"""What a cell of the page of best plans says in numbers: utilisation, parts of the time, memory, rates."""

from __future__ import annotations

from typing import Any

Cell = dict[str, Any]
"""A model on a chip as ``best_plans.py`` keeps it, or a published run."""
GRADIENT_RATIO = 2
"""Bytes of a gradient over those of a weight, in mixed precision."""
MEMORY_PARTS = ("weights", "gradients", "state", "kept", "replay", "working")


def use_of(cell: Cell) -> float:
    """Utilisation: model FLOPs a second over the peak of all chips."""
    return at_peak_s(cell) / float(cell["batch_s"])


def at_peak_s(cell: Cell) -> float:
    """Seconds of a batch if all chips did model FLOPs at peak."""
    return float(cell["sample_flops"] * cell["global_batch"] / cell["num_devices"] / cell["peak_flops_per_s"])


def product_rate(cell: Cell) -> float:
    """FLOPs of products over what the peak allows in their time."""
    busy = cell["busiest"]
    return float(busy["products_flops"] / cell["peak_flops_per_s"] / busy["products_s"])


def shares(cell: Cell) -> dict[str, float]:
    """Parts of the batch time by cause; they add up to one, ``beside`` is negative."""
    busy, causes, peak = cell["busiest"], cell["causes"], cell["peak_flops_per_s"]
    products_s, attention_s = (busy[f"{name}_flops"] / peak for name in ("products", "attention"))
    operators_s = sum(busy[f"{name}_s"] for name in ("products", "attention", "vector", "collectives"))
    parts_s = {
        "use": at_peak_s(cell),
        "uneven": products_s + attention_s - at_peak_s(cell),
        "products": busy["products_s"] - products_s,
        "attention": busy["attention_s"] - attention_s,
        "vector": busy["vector_s"],
        "collectives": busy["collectives_s"],
        "beside": causes["compute_s"] - operators_s,
        "replay": causes["replay_s"],
        "messages": causes["messages_s"],
        "gathers": causes["gathers_s"],
        "bubble": causes["bubble_s"],
        "once": causes["sync_s"] + causes["tied_s"] + causes["step_s"] + causes["regather_s"],
    }
    return {name: part_s / cell["batch_s"] for name, part_s in parts_s.items()}


def tokens_per_s(cell: Cell) -> float:
    """Of one chip."""
    return float(cell["global_batch"] * cell["seq_len"] / cell["batch_s"] / cell["num_devices"])


def total_bytes(memory: Cell) -> float:
    """Of the fullest device."""
    return float(sum(memory[f"{name}_bytes"] for name in MEMORY_PARTS))


def is_divided_early(cell: Cell) -> bool:
    """Whether gradients are held in parts although several microbatches add to them before they are summed."""
    plan = cell["plan"]
    num_microbatches = cell["global_batch"] / (plan["dp"] * plan["microbatch"])
    return bool(plan["sharding"] == "gradients" and num_microbatches > 1)


# Published runs


def has_rate(run: Cell) -> bool:
    """Whether the source has a time or a rate, not only a utilisation."""
    return "step_s" in run or "tokens_per_s_per_chip" in run


def run_tokens_per_s(run: Cell) -> float:
    """Of one chip."""
    if "tokens_per_s_per_chip" in run:
        return float(run["tokens_per_s_per_chip"])
    return float(run["global_batch"] * run["seq_len"] / run["step_s"] / run["num_devices"])


def run_use(run: Cell, cell: Cell) -> float:
    """Utilisation with FLOPs as counted for the cell; of another shape as the source printed it."""
    if "shape" in run or not has_rate(run):
        return float(run["printed_mfu"])
    return float(run_tokens_per_s(run) / cell["seq_len"] * cell["sample_flops"] / cell["peak_flops_per_s"])
