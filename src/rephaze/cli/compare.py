"""``rephaze compare``: the co-search beside every baseline, in one table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rephaze.api.exploring import DEFAULT_BUDGET
from rephaze.cli.output import (
    ExitCode,
    JsonOption,
    MisuseError,
    print_json,
    refuse_given,
    seconds,
    stdout,
    step_status,
    styled,
)
from rephaze.cli.tables import print_content
from rephaze.types.output_files import HTML_PAGE, check_output
from rephaze.types.readable import amount
from rephaze.units import gap_text

if TYPE_CHECKING:
    from rephaze.api.exploring import OnStep, SearchProgress
    from rephaze.types.comparison import Baseline, Comparison, GainSplit


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare")(compare)


def compare(
    ctx: typer.Context,
    models: Annotated[
        list[str] | None, typer.Argument(help="Zoo names (rephaze models) or graph files.", metavar="MODEL...")
    ] = None,
    scenario: Annotated[
        str | None, typer.Option(help="default, coarse, paper, or a scenario file (.toml).")
    ] = None,
    budget: Annotated[
        int, typer.Option(help="Chips each searching baseline may look at.", min=1, max=1_000_000)
    ] = DEFAULT_BUDGET,
    run: Annotated[
        list[Path] | None,
        typer.Option(
            help="A finished run to take the co-search's answer from; give it again for runs of single models.",
            metavar="RUN",
        ),
    ] = None,
    own_best: Annotated[
        bool, typer.Option("--own-best", help="Of several models: search each one's own best chip as well.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Of the random and Bayesian baselines.", min=0)] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds for each co-search; then its incumbent.", metavar="S")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes of the co-search on this machine.", min=1)] = 2,
    html: Annotated[
        Path | None, typer.Option(help="Also write a page with a plot and the table.", metavar="FILE")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Set the co-search beside TPUv4, Spotlight-style, random search and the paper's heuristic.

    All share one cost model. The gain over TPUv4 with the expert plan is split by cause; with several models,
    --own-best (a search each) or their runs also show what sharing one chip costs each.

    Examples:  rephaze compare gpt2-xl --scenario paper   |   rephaze compare --run run1 --html compare.html
    """
    from rephaze.api import compare as compare_models

    if html is not None:
        check_output(html, HTML_PAGE, (*(models or ()), scenario or ""))
    if run:
        refuse_given(ctx, ["scenario", "models"], "comes from the run", "leave it or --run out")
        if not own_best:
            refuse_given(ctx, ["time_limit", "workers"], "is for a search, and the run has been one")
    elif not models:
        raise MisuseError("MODEL", [], "name at least one model, or --run", "rephaze models lists them")
    elif own_best and len(models) < 2:
        raise MisuseError("--own-best", True, "is for several models")
    limit_s = seconds("--time-limit", time_limit)
    with step_progress(quiet=json_output) as on_step:
        found = compare_models(
            *(models or ()),
            scenario=scenario,
            runs=run or (),
            budget=budget,
            own_best=own_best,
            seed=seed,
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
    if not any(one.objective > 0 for one in found.baselines):
        raise typer.Exit(ExitCode.UNKNOWN if found.status == "unknown" else ExitCode.INFEASIBLE)


@contextmanager
def step_progress(quiet: bool) -> Iterator[OnStep]:
    """A line on the terminal that says which search runs and how far it is."""
    if quiet:
        yield lambda _step, _progress: None
        return
    with step_status("preparing models and design space", quiet=False) as on_step:

        def show(step: str, progress: SearchProgress | None) -> None:
            if progress is None:
                on_step(step)
                return
            found = (
                f"best {amount(progress.objective)}, gap {gap_text(progress.gap)}, " if progress.objective else ""
            )
            on_step(f"{step}: {found}{progress.num_solved:,} looked at, {progress.elapsed_s:.0f} s")

        yield show


def _record(found: Comparison) -> dict[str, Any]:
    expert, searched = (one.objective for one in found.references)
    return {
        "status": found.status,
        "models": list(found.settings.models),
        "scenario": found.settings.scenario.name,
        "objective": str(found.settings.objective),
        "baselines": [_baseline_record(one, expert, searched) for one in found.baselines],
        "gains": _gains_record(found.gains) if found.gains else None,
        "sharing": [asdict(one) for one in found.sharing],
    }


def _baseline_record(one: Baseline, expert: float, searched: float) -> dict[str, Any]:
    answer = one.answer
    return {
        "name": one.name,
        "objective": one.objective,
        "bound": one.bound,
        "is_proven": one.is_proven,
        "ratio_to_tpuv4_expert": one.objective / expert if expert > 0 else None,
        "ratio_to_tpuv4_searched": one.objective / searched if searched > 0 else None,
        "samples_per_s": [plan.samples_per_s if plan else None for plan in answer.plans] if answer else [],
        "chip": asdict(answer.chip) if answer else None,
        "area_um2": answer.area_um2 if answer else None,
        "plans": [asdict(plan) if plan else None for plan in answer.plans] if answer else [],
        "num_evaluations": one.num_evaluations,
        "search_s": one.search_s,
        "note": one.note,
    }


def _gains_record(gains: GainSplit) -> dict[str, Any]:
    return {
        "start": gains.start,
        "total_gain_factor": gains.total_gain_factor,
        "is_proven": gains.is_proven,
        "note": gains.note,
        "steps": [
            {
                "cause": step.cause,
                "gain_factor": step.gain_factor,
                "is_proven": step.is_proven,
                "objective": step.answer.objective,
                "bound": step.answer.bound,
                "area_um2": step.answer.area_um2,
                "exceeds_area_limit": step.exceeds_area_limit,
                "chip": asdict(step.answer.chip),
            }
            for step in gains.steps
        ],
    }


def _print(found: Comparison) -> None:
    from rephaze.api.comparison_views import LEGEND, baseline_notes, baseline_table, sharing_table

    named = ", ".join(found.settings.models)
    stdout.print(styled((named, "bold"), f", scenario {found.settings.scenario.name}"))
    print_content(baseline_table(found))
    stdout.print(f"  {LEGEND}")
    for note in baseline_notes(found):
        stdout.print(f"  {note}")
    if found.gains is not None:
        _print_gains(found.gains)
    if found.sharing:
        print_content(sharing_table(found.sharing))


def _print_gains(gains: GainSplit) -> None:
    from rephaze.api.comparison_views import gain_notes, gain_product

    stdout.print(styled((f"gain over {gains.start}", "bold"), f"  {gain_product(gains)}"))
    for note in gain_notes(gains):
        stdout.print(f"  {note}")
