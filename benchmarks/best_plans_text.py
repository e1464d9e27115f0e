"""The page of best plans: cells and published runs as Markdown tables, one set a chip."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from best_plans_shares import (
    GRADIENT_RATIO,
    MEMORY_PARTS,
    Cell,
    at_peak_s,
    has_rate,
    is_divided_early,
    product_rate,
    run_tokens_per_s,
    run_use,
    shares,
    tokens_per_s,
    total_bytes,
    use_of,
)
from rephaze.hardware.presets import find_preset
from rephaze.units import GIB, S_PER_MS

Cells = dict[tuple[str, str, str], Cell]
"""By model, chip and variant."""
LOW, HIGH = 0.20, 0.75
"""Utilisations outside are explained."""
FULL = 0.95
"""Of a device's memory: what uses more may not start, since what drivers and allocators take is not counted."""
NOTHING = "-"
PAGE = Path(__file__).parent / "data" / "best_plans_page.md"
CHIP = """## {title} (`{chip}`)

Plans:

{plans}

Time, per cent:

{times}

Memory, GiB:

{memory}

{why}

Whole gradients, and own links:

{variants}

Published:

{published}
"""


def page(cells: Sequence[Cell], runs: Sequence[Cell], models: Iterable[str] = ()) -> str:
    """The whole page; chips and models in the order of the cells; it names those of the models that lack one."""
    here = [cell for cell in cells if cell["variant"] == "scenario"]
    found = [cell for cell in here if "batch_s" in cell]
    others = {(cell["model"], cell["chip"], cell["variant"]): cell for cell in cells}
    chips = [chip_part(chip, here, others, runs) for chip in dict.fromkeys(cell["chip"] for cell in here)]
    return PAGE.read_text().format(
        num_devices=here[0]["num_devices"],
        global_batch=here[0]["global_batch"],
        calibration=calibration(found, runs),
        chips="\n".join(chips).rstrip(),
        num_cells=len(found),
        num_divided=sum(map(is_divided_early, found)),
        num_full=sum(total_bytes(cell["memory"]) > FULL * cell["memory"]["device_bytes"] for cell in found),
        full=FULL,
        missing=missing_words(here, models),
    )


def missing_words(cells: Sequence[Cell], models: Iterable[str]) -> str:
    """Which models have no cell on which chips."""
    chips = list(dict.fromkeys(cell["chip"] for cell in cells))
    have = {(cell["model"], cell["chip"]) for cell in cells}
    lacking = {model: [chip for chip in chips if (model, chip) not in have] for model in models}
    told = [f"{model} on {' and '.join(without)}" for model, without in lacking.items() if without]
    return f"Not computed yet: {'; '.join(told)}." if told else "No model is missing."


def chip_part(chip: str, cells: Sequence[Cell], others: Cells, runs: Sequence[Cell]) -> str:
    """The tables of one chip."""
    mine = [cell for cell in cells if cell["chip"] == chip]
    found = [cell for cell in mine if "batch_s" in cell]
    return CHIP.format(
        title=find_preset(chip).title,
        chip=chip,
        plans=plan_table(mine),
        times=time_table(found),
        memory=memory_table(found),
        why=why_table(found),
        variants=variant_table(found, others),
        published=published_table(found, [run for run in runs if run["chip"] == chip]),
    )


def table(headings: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """In Markdown."""
    headings = list(headings)
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


# Plans


def plan_table(cells: Sequence[Cell]) -> str:
    headings = (
        "model",
        "tp",
        "cp",
        "ep x etp",
        "pp",
        "dp",
        "microbatch",
        "sharding",
        "schedule",
        "recompute",
        "proof",
    )
    rows = []
    for cell in cells:
        if "plan" not in cell:
            rows.append((cell["model"], *([""] * 9), f"{cell['status']}: {cell['reason']}"))
            continue
        plan = cell["plan"]
        rows.append((
            cell["model"],
            f"{plan['tp']}{' + sp' if plan['sp'] else ''}",
            f"{plan['cp']}",
            f"{plan['ep']} x {plan['etp']}" if plan["ep"] * plan["etp"] > 1 else "1",
            stage_words(plan),
            f"{plan['dp']}",
            f"{plan['microbatch']}",
            sharding_words(plan),
            schedule_words(plan),
            recompute_words(plan),
            proof_words(cell),
        ))  # fmt: skip
    return table(headings, rows)


def stage_words(plan: Cell) -> str:
    """How many stages, and how many layers they have."""
    if plan["pp"] == 1:
        return "1"
    least, most = min(plan["stage_layers"]), max(plan["stage_layers"])
    layers = f"{least}" if least == most else f"{least} to {most}"
    return f"{plan['pp']} ({layers} layers a {'chunk' if plan['chunks'] > 1 else 'stage'})"


def sharding_words(plan: Cell) -> str:
    """What is cut over the replicas of a weight, as ZeRO counts it."""
    if plan["sharding"] == "none":
        return "none"
    stage = {"optimizer": 1, "gradients": 2, "weights": 3}[plan["sharding"]]
    over = f" over {plan['shard_group']}" if "shard_group" in plan else ""
    gathers = ""
    if stage == 3 and "reshard" in plan:
        gathers = ", gathered every pass" if plan["reshard"] else ", gathered once"
    return f"ZeRO {stage}{over}{gathers}"


def schedule_words(plan: Cell) -> str:
    """The order of passes; nothing without a pipeline, where zero-bubble is never better than 1F1B."""
    if plan.get("chunks", 1) > 1:
        return f"interleaved x{plan['chunks']}"
    return NOTHING if plan["pp"] == 1 else str(plan["schedule"])


def recompute_words(plan: Cell) -> str:
    """What is kept and replayed."""
    if plan["replay_share"] == 0:
        return "none"
    return f"keeps {plan['kept_share']:.0%}, replays {plan['replay_share']:.1%}"


def proof_words(cell: Cell) -> str:
    """Optimal, or the gap."""
    if cell["status"] == "optimal":
        return "optimal"
    return f"within {max(0.01, 100 * (cell['batch_s'] / cell['bound_s'] - 1)):.2f} %"


def plan_words(plan: Cell) -> str:
    """A plan of ours or of others in a line."""
    parts = [f"{key} {plan[key]}" for key in ("tp", "cp", "ep", "pp", "dp") if plan.get(key, 1) > 1]
    if plan.get("sp"):
        parts.insert(1, "sp")
    if "microbatch" in plan:
        parts.append(f"microbatch {plan['microbatch']}")
    if plan["pp"] > 1 and (plan.get("chunks", 1) > 1 or "schedule" in plan):
        parts.append(schedule_words(plan))
    if "sharding" in plan:
        parts.append(sharding_words(plan))
    if "recompute" in plan:
        parts.append("no recompute" if plan["recompute"] == "none" else f"{plan['recompute']} recompute")
    elif plan.get("replay_share", 0):
        parts.append(recompute_words(plan))
    return ", ".join(parts)


# Times and memory


def time_table(cells: Sequence[Cell]) -> str:
    rows = []
    for cell in cells:
        parts = [f"{100 * part:.1f}" if abs(part) >= 0.0005 else "0" for part in shares(cell).values()]
        rows.append((cell["model"], f"{cell['batch_s']:.4g}", f"{tokens_per_s(cell):,.0f}", *parts))
    return table(("model", "batch s", "tokens/s/chip", *shares(cells[0])), rows)


def memory_table(cells: Sequence[Cell]) -> str:
    rows = []
    for cell in cells:
        parts = [cell["memory"][f"{name}_bytes"] for name in MEMORY_PARTS]
        sizes = (*parts, total_bytes(cell["memory"]), cell["memory"]["device_bytes"])
        rows.append((cell["model"], *(f"{size / GIB:.1f}" for size in sizes)))
    return table(("model", *MEMORY_PARTS, "all GiB", "of"), rows)


def why_table(cells: Sequence[Cell]) -> str:
    """Utilisations out of the usual, each with its causes in numbers."""
    odd = [cell for cell in cells if not LOW <= use_of(cell) <= HIGH]
    if not odd:
        return f"All utilisations are between {LOW:.0%} and {HIGH:.0%}."
    headings = ("model", "use %", "work of a device at peak, ms", "products at % of peak", "why")
    rows = [
        (
            cell["model"],
            f"{100 * use_of(cell):.1f}",
            f"{at_peak_s(cell) / S_PER_MS:,.1f}",
            f"{100 * product_rate(cell):.1f}",
            why_words(cell),
        )
        for cell in odd
    ]
    return f"Utilisations above {HIGH:.0%} or below {LOW:.0%}, and why:\n\n{table(headings, rows)}"


def why_words(cell: Cell) -> str:
    """The largest losses; where little is lost, also what of them is hidden."""
    parts = shares(cell)
    losses = {name: part for name, part in parts.items() if name not in ("use", "beside")}
    largest = sorted(losses, key=lambda name: -losses[name])[:3]
    told = ", ".join(f"{name} {100 * losses[name]:.1f} %" for name in largest if losses[name] >= 0.0005)
    if parts["use"] < LOW:
        return f"lost to {told}"
    hidden = -parts["beside"] / (parts["vector"] + parts["collectives"])
    return f"largest losses {told}; {hidden:.0%} of vector operators and collectives run beside products"


def variant_table(cells: Sequence[Cell], others: Cells) -> str:
    """Times under the two variants, beside those above."""
    rows = []
    for cell in cells:
        whole, own = (others.get((cell["model"], cell["chip"], name)) for name in ("whole-gradients", "own-links"))
        if whole is None and own is None:
            continue
        memory = cell["memory"]
        needed = total_bytes(memory) - memory["gradients_bytes"] + GRADIENT_RATIO * memory["weights_bytes"]
        rows.append((
            cell["model"],
            NOTHING if whole is None else f"{needed / GIB:.1f}",
            NOTHING if whole is None else plan_words(whole["plan"]) if "plan" in whole else whole["status"],
            _against(whole, cell),
            _against(own, cell),
        ))  # fmt: skip
    if not rows:
        return "No plan would change."
    headings = (
        "model",
        "GiB with whole gradients",
        "best plan that holds them",
        "its time %",
        "own links, time %",
    )
    return table(headings, rows)


def _against(other: Cell | None, cell: Cell) -> str:
    return (
        NOTHING if other is None or "batch_s" not in other else f"{100 * other['batch_s'] / cell['batch_s']:.1f}"
    )


# Published


def published_table(cells: Sequence[Cell], runs: Sequence[Cell]) -> str:
    """Runs of these models on this chip, beside ours."""
    ours = {cell["model"]: cell for cell in cells}
    rows, notes = [], []
    for run in (run for model in ours for run in runs if run["model"] == model):
        cell = ours[run["model"]]
        marks = [run[key] for key in ("shape", "machine", "note") if key in run]
        if marks:
            notes.append(f"{len(notes) + 1}. {'; '.join(marks)}.")
        rows.append((
            run["model"] + (f" ({len(notes)})" if marks else ""),
            f"{run['num_devices']:,}",
            f"{run['global_batch']:,}" if "global_batch" in run else "",
            plan_words(run),
            run["precision"],
            f"{run_tokens_per_s(run):,.0f}" if has_rate(run) else "",
            "" if "shape" in run else f"{tokens_per_s(cell):,.0f}",
            f"{100 * run_use(run, cell):.0f}",
            f"{100 * use_of(cell):.0f}",
            f"{run['source']}: {run['url']}",
        ))  # fmt: skip
    if not rows:
        return "Nothing found for these models on this chip."
    headings = (
        "published", "devices", "batch", "plan", "precision", "tokens/s/chip", "ours", "use %", "ours", "source",
    )  # fmt: skip
    return "\n".join([table(headings, rows), "", *notes]).rstrip()


def calibration(cells: Sequence[Cell], runs: Sequence[Cell]) -> str:
    """How far above published runs in 16 bits the utilisations are."""
    ours = {(cell["model"], cell["chip"]): cell for cell in cells}
    ratios = [
        use_of(ours[key]) / run_use(run, ours[key])
        for run in runs
        if (key := (run["model"], run["chip"])) in ours and run["precision"] == "bf16"
    ]
    if not ratios:
        return ""
    return (
        f"Utilisations are {min(ratios):.1f} to {max(ratios):.1f} times those of the {len(ratios)} published runs "
        f"in 16 bits, {statistics.median(ratios):.1f} in the median; these had other plans and numbers of chips."
    )
