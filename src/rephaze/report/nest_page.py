"""The page on NEST's scenarios: what its artifact prints beside plans of ours, one table a setup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from statistics import geometric_mean
from typing import Any

from rephaze.report.markdown import markdown_table
from rephaze.types.readable import rounded_amount
from rephaze.types.reproduction import NestCell, PlacedCell

NOTHING = "-"


def nest_page(cells: Sequence[NestCell], data: Mapping[str, Any]) -> str:
    """The whole page, as Markdown.

    Args:
        cells: In the order of the page.
        data: NEST's scenarios: titles and notes.
    """
    template = files("rephaze.report").joinpath("data", "nest_page.md").read_text("utf-8")
    setups = list(dict.fromkeys(cell.figure.setup for cell in cells))
    parts = [_section(setup, data, [cell for cell in cells if cell.figure.setup == setup]) for setup in setups]
    return template.format(
        source=data["source"],
        setups="\n".join(parts),
        summary=_summary(cells),
        notes="\n".join(f"* {name}: {model['note']}." for name, model in data["models"].items() if model["note"]),
    )


def _section(setup: str, data: Mapping[str, Any], cells: Sequence[NestCell]) -> str:
    told = data["setups"][setup]
    levels = " / ".join(f"{rate / 2**30:g}" for rate in told["level_bytes_per_s"])
    head = f"## {told['title']}\n\n{levels} GiB/s a level ({told['note']}), {told['hbm_gib']} GiB a chip."
    ordered = sorted(cells, key=lambda cell: cell.figure.num_devices)
    scaling = [_scaling(ordered)] if told["has_common_base"] else []
    return "\n\n".join((head, _rates(cells), *scaling, _times(cells))) + "\n"


def _rates(cells: Sequence[NestCell]) -> str:
    rows = []
    for cell in cells:
        degrees = cell.its_degrees
        rows.append(
            (
                cell.figure.model,
                f"{cell.figure.num_devices:,}",
                _rate(degrees),
                degrees.plan if degrees else "not known",
                _rate(cell.its_choices),
                cell.its_choices.plan,
                _rate(cell.all_choices),
                cell.all_choices.plan,
                _ratio(cell.its_choices, degrees),
                _ratio(cell.all_choices, degrees or cell.its_choices),
            )
        )
    headings = ("model", "chips", "NEST's degrees, samples/s", "plan", "NEST's choices, samples/s", "plan")
    more = ("all our choices, samples/s", "plan", "choices / degrees", "all / degrees (or choices)")
    return markdown_table((*headings, *more), rows)


def _rate(cell: PlacedCell | None) -> str:
    if cell is None:
        return NOTHING
    at_most = "" if _is_proven(cell) else f" (at most {rounded_amount(cell.bound_samples_per_s)})"
    return rounded_amount(cell.samples_per_s) + at_most


def _is_proven(cell: PlacedCell) -> bool:
    return cell.bound_samples_per_s <= cell.samples_per_s * (1 + 1e-9)


def _ratio(cell: PlacedCell, other: PlacedCell | None) -> str:
    if other is None or other.samples_per_s <= 0:
        return NOTHING
    return f"{cell.samples_per_s / other.samples_per_s:.2f}"


def _scaling(cells: Sequence[NestCell]) -> str:
    """Throughput over that of the smallest cluster of the same model that has a plan."""
    rows = []
    for model in dict.fromkeys(cell.figure.model for cell in cells):
        here = [cell for cell in cells if cell.figure.model == model and cell.its_choices.samples_per_s > 0]
        if len(here) < 2:
            continue
        first = here[0]
        for cell in here[1:]:
            published = cell.figure.nest_factor / first.figure.nest_factor
            rows.append(
                (
                    model,
                    f"{first.figure.num_devices:,} to {cell.figure.num_devices:,}",
                    f"{cell.figure.num_devices / first.figure.num_devices:g}",
                    f"{published:.2f}",
                    f"{cell.its_choices.samples_per_s / first.its_choices.samples_per_s:.2f}",
                    f"{cell.all_choices.samples_per_s / first.all_choices.samples_per_s:.2f}",
                )
            )
    if not rows:
        return "No model has two sizes here."
    headings = ("model", "chips", "ideal", "NEST, published", "ours, its choices", "ours, all choices")
    return "Throughput against the smallest cluster:\n\n" + markdown_table(headings, rows)


def _times(cells: Sequence[NestCell]) -> str:
    rows = []
    for cell in cells:
        figure = cell.figure
        factors = (
            figure.nest_factor,
            figure.phaze_factor,
            figure.manual_factor,
            figure.mcmc_factor,
            figure.alpa_factor,
        )
        rows.append(
            (
                figure.model,
                f"{figure.num_devices:,}",
                *(NOTHING if factor is None else f"{factor:.2f}" for factor in factors),
                NOTHING if figure.run_s is None else f"{figure.run_s:,.0f}",
                NOTHING if figure.cpu_s is None else f"{figure.cpu_s:,.1f}",
                NOTHING if figure.peak_mb is None else f"{figure.peak_mb:,.0f}",
                f"{cell.its_choices.cpu_s:,.1f}",
                f"{cell.all_choices.cpu_s:,.1f}",
            )
        )
    headings = ("model", "chips", "NEST", "Phaze", "manual", "MCMC", "Alpa-E")
    more = ("its run, s", "its solver again, CPU s", "MB", "ours, its choices, CPU s", "ours, all choices, CPU s")
    return (
        "What its artifact prints (throughput over its manual baseline), and what planning takes:\n\n"
        + markdown_table((*headings, *more), rows)
    )


def _summary(cells: Sequence[NestCell]) -> str:
    known = [cell for cell in cells if cell.its_degrees is not None and cell.its_degrees.samples_per_s > 0]
    lines = []
    if known:
        choices = [_over(cell.its_choices, cell.its_degrees) for cell in known]
        free = [_over(cell.all_choices, cell.its_degrees) for cell in known]
        lines.append(
            f"Over its own degrees ({len(known)} cells, geometric mean): {geometric_mean(choices):.2f} "
            f"with its own choices, {geometric_mean(free):.2f} with all of ours."
        )
    unfit = [cell for cell in cells if cell.its_degrees is not None and cell.its_degrees.samples_per_s <= 0]
    if unfit:
        named = ", ".join(f"{cell.figure.model} on {cell.figure.num_devices:,}" for cell in unfit)
        lines.append(f"Its degrees have no plan in our model: {named}.")
    timed = [cell for cell in cells if cell.figure.run_s is not None]
    published = sum(cell.figure.run_s or 0.0 for cell in timed)
    ours = sum(cell.its_choices.cpu_s for cell in timed)
    lines.append(
        f"The {len(timed)} runs it times took {published:,.0f} s in all, tracing and network simulation included; "
        f"the same questions, its choices, take us {ours:,.0f} s of one core, from the graphs on; "
        f"{sum(map(_is_proven, (cell.its_choices for cell in cells)))} of {len(cells)} answers are proven."
    )
    return " ".join(lines)


def _over(cell: PlacedCell, other: PlacedCell | None) -> float:
    assert other is not None
    return max(cell.samples_per_s, 1e-300) / other.samples_per_s
