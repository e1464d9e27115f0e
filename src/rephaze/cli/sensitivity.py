"""``rephaze sensitivity``: how the best chip moves when an assumption does."""

from __future__ import annotations

from dataclasses import asdict
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rephaze.cli.compare import step_progress
from rephaze.cli.output import ExitCode, JsonOption, print_json, stdout
from rephaze.cli.tables import bare_table, filled, print_table

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

    Examples:  rephaze sensitivity gpt2-xl --knob hbm --html page.html   |   rephaze sensitivity --run run1
    """
    from rephaze.api import sensitivity as study

    with step_progress(quiet=json_output) as on_step:
        found = study(
            *(models or ()),
            scenario=scenario,
            run=run,
            knobs=knob or (),
            factors=factor or (0.5, 2.0),
            num_workers=workers,
            time_limit_s=inf if time_limit is None else time_limit,
            on_step=on_step,
        )
    if html is not None:
        found.write_html(html)
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
    from rephaze.api.search_views import change_notes, change_table

    print_table(filled(bare_table(), change_table(found)))
    for note in change_notes(found):
        stdout.print(note, highlight=False)
