"""``rephaze sensitivity``: how the best chip moves when an assumption does."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from rephaze.cli.compare import step_progress
from rephaze.cli.output import ExitCode, JsonOption, print_json, stdout
from rephaze.cli.tables import print_table
from rephaze.units import UM2_PER_MM2

if TYPE_CHECKING:
    from rephaze.types.search import SearchResult
    from rephaze.types.sensitivity import Sensitivity

_COLUMNS = (
    "changed",
    "objective",
    "over unchanged",
    "mm²",
    "chip",
    "tp",
    "pp",
    "dp",
    "microbatch",
    "status",
    "gap",
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sensitivity")(sensitivity)


def sensitivity(
    models: Annotated[
        list[str], typer.Argument(help="Zoo names (rephaze models) or graph files.", metavar="MODEL...")
    ],
    scenario: Annotated[str | None, typer.Option(help="default, paper, or a scenario file (.toml).")] = None,
    knob: Annotated[
        list[str] | None,
        typer.Option(help="What to change: hbm, buffer, inner-links, outer-links, area; all unless given."),
    ] = None,
    factor: Annotated[
        list[float] | None, typer.Option(help="What to multiply it by; 0.5 and 2 unless given.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds for each search; then its incumbent.", metavar="S")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes on this machine.", min=1)] = 2,
    html: Annotated[
        Path | None, typer.Option(help="Also write a page with a plot and the table.", metavar="FILE")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Search again with a bandwidth, a link or the area limit changed, one at a time, and show what moves.

    Each line is a whole search, proven like any other: eleven of them unless --knob and --factor say less.

    Example:  rephaze sensitivity gpt2-xl --knob hbm --knob area --html sensitivity.html
    """
    from rephaze.search.settings import resolve_settings
    from rephaze.study.sensitivity import study_sensitivity

    settings = resolve_settings(tuple(models), scenario=scenario)
    with step_progress(quiet=json_output) as on_step:
        found = study_sensitivity(
            settings,
            knobs=tuple(knob or ()),
            factors=tuple(factor or (0.5, 2.0)),
            num_workers=workers,
            time_limit_s=float("inf") if time_limit is None else time_limit,
            on_step=on_step,
        )
    if html is not None:
        from rephaze.report.sensitivity_plot import write_sensitivity_html

        write_sensitivity_html(html, found)
    if json_output:
        print_json(_record(found))
    else:
        _print(found)
        if html is not None:
            stdout.print(f"page written to {html}", highlight=False, markup=False, soft_wrap=True)
    if found.base.chip is None:
        is_unknown = found.base.status == "unknown"
        raise typer.Exit(ExitCode.UNKNOWN if is_unknown else ExitCode.INFEASIBLE)


def _record(found: Sensitivity) -> dict[str, Any]:
    def plain(result: SearchResult) -> dict[str, Any]:
        return {
            "status": result.status,
            "objective": result.objective,
            "bound": result.bound if isfinite(result.bound) else None,
            "gap": result.gap if result.chip else None,
            "reason": result.reason,
            "area_um2": result.area_um2,
            "chip": asdict(result.chip) if result.chip else None,
            "plans": [asdict(plan) | {"stages": len(plan.stages)} for plan in result.plans],
            "search_s": result.search_s,
        }

    return {
        "models": list(found.settings.models),
        "scenario": found.settings.scenario.name,
        "base": plain(found.base),
        "changes": [
            {
                "knob": one.knob,
                "factor": one.scale_factor,
                "gain_factor": one.gain_factor,
                "is_proven": one.is_proven,
            }
            | plain(one.result)
            for one in found.changes
        ],
    }


def _print(found: Sensitivity) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in ("changed", "chip", "status") else "right")
    table.add_row("nothing", *_cells(found.base, "1.000x"))
    for one in found.changes:
        gain = f"{one.gain_factor:.3f}x{'' if one.is_proven else '~'}" if one.gain_factor > 0 else "-"
        table.add_row(f"{one.knob} x {one.scale_factor:g}", *_cells(one.result, gain))
    print_table(table)
    if not all(one.is_proven for one in found.changes):
        stdout.print("~ not proven: one of the two searches has a gap, or found nothing", highlight=False)


def _cells(result: SearchResult, gain: str) -> tuple[str, ...]:
    chip = result.chip
    if chip is None:
        return ("none", "", "", "", "", "", "", "", result.status, "")
    return (
        f"{result.objective:,.5g}",
        gain,
        f"{result.area_um2 / UM2_PER_MM2:,.1f}",
        chip.in_words,
        *(
            ",".join(str(getattr(plan, name)) for plan in result.plans)
            for name in ("tp", "pp", "dp", "microbatch")
        ),
        result.status,
        f"{result.gap:.2%}",
    )
