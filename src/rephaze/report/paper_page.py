"""The page on the paper's claims: each beside what the searches of every setting find."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.resources import files
from statistics import fmean

from rephaze.report.markdown import markdown_table
from rephaze.types.chip import Chip
from rephaze.types.readable import rounded_amount
from rephaze.types.reproduction import ClaimCheck, PaperReproduction, SettingFindings
from rephaze.types.search import SearchResult, SearchStatus
from rephaze.units import GIB, MIB, UM2_PER_MM2

NO_BOUND = "no bound in the time it had"

VERDICTS = {True: "holds", False: "does not hold", None: "-"}
NOTHING = "-"


def paper_page(found: PaperReproduction) -> str:
    """The whole page, as Markdown."""
    template = files("rephaze.report").joinpath("data", "paper_page.md").read_text("utf-8")
    return template.format(
        source=found.claims.source,
        claims=_claims_table(found),
        settings="\n".join(_section(one) for one in found.settings),
        left_out=_left_out(found.left_out),
        minutes=f"{found.search_s / 60.0:.0f}",
        workers=found.num_workers,
    )


def _left_out(names: Sequence[str]) -> str:
    if not names:
        return ""
    named = ", ".join(f"`{name}`" for name in names)
    return f"\nNot on this page, since the command was not asked for it: {named}.\n"


def _claims_table(found: PaperReproduction) -> str:
    names = [one.name for one in found.settings]
    order: dict[str, ClaimCheck] = {}
    for name in names:
        for check in found.checks[name]:
            order.setdefault(check.claim, check)
    rows = []
    for claim, first in order.items():
        here = [{check.claim: check for check in found.checks[name]}.get(claim) for name in names]
        cells = [NOTHING if check is None else _claim_cell(check) for check in here]
        rows.append((claim, first.published, *cells))
    return markdown_table(("claim", "published", *names), rows)


def _claim_cell(check: ClaimCheck) -> str:
    return check.found if check.holds is None else f"{check.found}: {VERDICTS[check.holds]}"


def _section(found: SettingFindings) -> str:
    scenario = found.comparison.settings.scenario
    parts = [
        f"## Setting `{found.name}`: {scenario.title}\n",
        _headline(found.common, scenario.space.area_limit_um2),
    ]
    parts += ["", _models_table(found)]
    if found.own:
        parts += ["", "Each model's own chip:", "", _own_table(found)]
    if found.comparison.gains is not None:
        steps = ", ".join(f"{step.cause} {step.gain_factor:.2f}" for step in found.comparison.gains.steps)
        total = found.comparison.gains.total_gain_factor
        parts += [
            "",
            f"The gain over {found.comparison.gains.start} ({total:.2f}, of geometric means) by cause: {steps}.",
        ]
    rows = [_baseline_row(found, name) for name in (one.name for one in found.comparison.baselines)]
    parts += [
        "",
        markdown_table(("way", "geometric mean, samples/s", "over TPUv4, expert", "over TPUv4, searched"), rows),
    ]
    notes = [f"{one.name}: {one.note}" for one in found.comparison.baselines if one.note]
    parts += ["", *(f"* {note}" for note in notes)] if notes else []
    return "\n".join(parts) + "\n"


def _headline(common: SearchResult, limit_um2: float) -> str:
    if common.chip is None:
        return f"No chip runs all models: {common.reason}."
    return (
        f"One chip for all: {_chip(common.chip)}, {common.area_um2 / UM2_PER_MM2:.1f} mm² "
        f"({common.area_um2 / limit_um2:.1%} of the limit); {_proof(common)}."
    )


def _proof(result: SearchResult) -> str:
    if result.status is SearchStatus.OPTIMAL:
        counted = "grid points" if result.certificate.num_boxes is not None else "chips"
        return f"proven over {result.certificate.num_designs:,} {counted}"
    if math.isinf(result.gap):
        return f"{result.status}: {NO_BOUND}, better ones may be left"
    return f"{result.status}: nothing is more than {result.gap:.1%} better"


def _chip(chip: Chip) -> str:
    return (
        f"{chip.num_tensor_cores} tensor cores of {chip.tensor_width}x{chip.tensor_depth}, "
        f"{chip.num_vector_cores} vector cores of {chip.vector_lanes} lanes, "
        f"{chip.global_buffer_bytes / MIB:g} MiB, {chip.hbm_bytes / GIB:g} GiB"
    )


def _models_table(found: SettingFindings) -> str:
    expert, searched = (one.answer for one in found.comparison.references)
    rows = []
    for position, plan in enumerate(found.common.plans):
        before = [answer.plans[position] if answer else None for answer in (expert, searched)]
        rates = [rounded_amount(old.samples_per_s) if old else NOTHING for old in before]
        ratios = [f"{plan.samples_per_s / old.samples_per_s:.2f}" if old else NOTHING for old in before]
        degrees = f"{plan.tp} / {plan.dp} / {plan.pp}"
        loads_s = [stage.load_s for stage in before[0].stages] if before[0] else []
        uneven = f"{max(loads_s) / fmean(loads_s):.2f}" if loads_s else NOTHING
        rows.append(
            (
                plan.model,
                *rates,
                rounded_amount(plan.samples_per_s),
                *ratios,
                uneven,
                degrees,
                f"{plan.hbm_bytes / GIB:g}",
            )
        )
    headings = (
        "model",
        "TPUv4, expert",
        "TPUv4, searched",
        "common chip, samples/s",
        "over expert",
        "over searched",
        "expert's longest stage over its mean",
    )
    return markdown_table((*headings, "tp / dp / pp", "GiB"), rows)


def _own_table(found: SettingFindings) -> str:
    limit_um2 = found.comparison.settings.scenario.space.area_limit_um2
    common = {plan.model: plan.samples_per_s for plan in found.common.plans}
    rows = []
    for model, result in found.own.items():
        if result.chip is None:
            rows.append((model, result.reason, *(NOTHING,) * 7))
            continue
        if not found.is_worth_showing(model):
            rows.append((model, "none better than the common chip found in its time", *(NOTHING,) * 7))
            continue
        chip, rate = result.chip, result.plans[0].samples_per_s
        lost = f"{1.0 - common[model] / rate:.1%}" if model in common else NOTHING
        is_proven = result.status is SearchStatus.OPTIMAL
        rows.append(
            (
                model,
                f"{chip.num_tensor_cores} x {chip.tensor_width}x{chip.tensor_depth}",
                f"{chip.num_vector_cores} x {chip.vector_lanes}",
                f"{chip.global_buffer_bytes / MIB:g}",
                f"{result.plans[0].hbm_bytes / GIB:g}",
                f"{result.area_um2 / limit_um2:.1%}",
                rounded_amount(rate),
                lost,
                "proven" if is_proven else NO_BOUND if math.isinf(result.gap) else f"gap {result.gap:.1%}",
            )
        )
    headings = (
        "model",
        "arrays",
        "lanes",
        "buffer MiB",
        "GiB",
        "of the area",
        "samples/s",
        "lost on the common chip",
        "",
    )
    return markdown_table(headings, rows)


def _baseline_row(found: SettingFindings, name: str) -> tuple[str, str, str, str]:
    one = next(baseline for baseline in found.comparison.baselines if baseline.name == name)
    ratios = [
        f"{one.objective / reference.objective:.2f}" if reference.objective > 0 else NOTHING
        for reference in found.comparison.references
    ]
    return name, rounded_amount(one.objective), ratios[0], ratios[1]
