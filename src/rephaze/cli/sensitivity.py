"""``rephaze sensitivity``: how the best chip moves when an assumption does."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rephaze.cli.budget_options import BudgetMm2, BudgetUsd, BudgetWatts, budget_changes
from rephaze.cli.compare import step_progress
from rephaze.cli.output import ExitCode, JsonOption, print_json, seconds, stdout
from rephaze.cli.tables import print_content
from rephaze.types.output_files import HTML_PAGE, check_output

if TYPE_CHECKING:
    from rephaze.types.search import SearchResult
    from rephaze.types.sensitivity import Sensitivity


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sensitivity")(sensitivity)


def sensitivity(
    models: Annotated[
        list[str] | None, typer.Argument(help="Zoo names (rephaze models) or graph files.", metavar="MODEL...")
    ] = None,
    scenario: Annotated[
        str | None, typer.Option(help="default, coarse, paper, or a scenario file (.toml).")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            help="A finished run to take settings and answer from; its report shows the study then.", metavar="RUN"
        ),
    ] = None,
    knob: Annotated[
        list[str] | None,
        typer.Option(
            help="What to change: hbm, buffer, inner-links, outer-links, area, and with a budget power-budget, "
            "usd-budget, silicon-budget; all unless given."
        ),
    ] = None,
    factor: Annotated[
        list[float] | None, typer.Option(help="What to multiply it by; 0.5 and 2 unless given.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Run file (.toml): scenario, changes to it, what to look for.")
    ] = None,
    budget_watts: BudgetWatts = None,
    budget_usd: BudgetUsd = None,
    budget_mm2: BudgetMm2 = None,
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

    Examples:  rephaze sensitivity gpt2-xl --knob hbm --html page.html   |   rephaze sensitivity --run run1
    """
    from rephaze.api import sensitivity as study

    if html is not None:
        check_output(html, HTML_PAGE, (*(models or ()), scenario or ""))
    limit_s = seconds("--time-limit", time_limit)
    with step_progress(quiet=json_output) as on_step:
        found = study(
            *(models or ()),
            scenario=scenario,
            run=run,
            config=config,
            changes=budget_changes(budget_watts, budget_usd, budget_mm2),
            knobs=knob or (),
            factors=factor or (0.5, 2.0),
            num_workers=workers,
            time_limit_s=limit_s,
            on_step=on_step,
        )
    if html is not None:
        found.write_html(html)
    if json_output:
        print_json(_record(found))
    else:
        _print(found)
        if html is not None:
            stdout.print(f"page written to {html}", soft_wrap=True)
    if found.base.chip is None:
        is_unknown = found.base.status == "unknown"
        raise typer.Exit(ExitCode.UNKNOWN if is_unknown else ExitCode.INFEASIBLE)


def _record(found: Sensitivity) -> dict[str, Any]:
    def plain(result: SearchResult) -> dict[str, Any]:
        return {
            "status": result.status,
            "objective": result.objective,
            "bound": result.bound if isfinite(result.bound) else None,
            "gap": result.gap if result.chip and isfinite(result.gap) else None,
            "reason": result.reason,
            "area_um2": result.area_um2,
            "system": None if result.system is None else asdict(result.system),
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
    from rephaze.api.search_views import change_notes, change_table

    print_content(change_table(found))
    for note in change_notes(found):
        stdout.print(note)
