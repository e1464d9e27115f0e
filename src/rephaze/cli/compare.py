"""``rephaze compare``: the co-search beside every baseline, in one table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from rephaze.cli.output import ExitCode, JsonOption, print_json, stderr, stdout
from rephaze.cli.tables import print_table
from rephaze.errors import SpecError

if TYPE_CHECKING:
    from rephaze.search.cosearch import SearchProgress
    from rephaze.study.comparison import OnStep, RecordedRun
    from rephaze.types.comparison import Baseline, Comparison, GainSplit, Sharing
    from rephaze.types.search import SearchSettings

DEFAULT_BUDGET = 64


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare")(compare)


def compare(
    models: Annotated[
        list[str] | None, typer.Argument(help="Zoo names (rephaze models) or graph files.", metavar="MODEL...")
    ] = None,
    scenario: Annotated[str | None, typer.Option(help="default, paper, or a scenario file (.toml).")] = None,
    budget: Annotated[int, typer.Option(help="Chips each searching baseline may look at.")] = DEFAULT_BUDGET,
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
    from rephaze.study.comparison import compare_baselines

    runs = _recorded(run or [])
    settings = _settings(tuple(models or ()), scenario, seed, runs)
    with step_progress(quiet=json_output) as on_step:
        found = compare_baselines(
            settings,
            budget=budget,
            runs=runs,
            own_best=own_best,
            num_workers=workers,
            time_limit_s=float("inf") if time_limit is None else time_limit,
            on_step=on_step,
        )
    if html is not None:
        from rephaze.report.compare_plot import write_comparison_html

        write_comparison_html(html, found)
    if json_output:
        print_json(_record(found))
    else:
        _print(found)
        if html is not None:
            stdout.print(f"page written to {html}", highlight=False, markup=False, soft_wrap=True)
    if not any(one.objective > 0 for one in found.baselines):
        raise typer.Exit(ExitCode.UNKNOWN if found.status == "unknown" else ExitCode.INFEASIBLE)


def _recorded(folders: list[Path]) -> list[RecordedRun]:
    from rephaze.study.comparison import read_run

    return [read_run(folder) for folder in folders]


def _settings(
    models: tuple[str, ...], scenario: str | None, seed: int | None, runs: list[RecordedRun]
) -> SearchSettings:
    from dataclasses import replace

    from rephaze.search.settings import resolve_settings
    from rephaze.study.comparison import common_run

    if not runs:
        changes = {} if seed is None else {"search": {"seed": seed}}
        return resolve_settings(models, scenario=scenario, changes=changes)
    if scenario is not None:
        raise SpecError("scenario", scenario, "comes from the run", "leave --scenario or --run away")
    settings = common_run(runs).settings
    if models and models != settings.models:
        raise SpecError("models", list(models), f"the run is of {', '.join(settings.models)}", "leave them away")
    return settings if seed is None else replace(settings, seed=seed)


@contextmanager
def step_progress(quiet: bool) -> Iterator[OnStep]:
    """A line on the terminal that says which search runs and how far it is."""
    if quiet:
        yield lambda _step, _progress: None
        return
    with stderr.status("preparing models and design space") as status:

        def show(step: str, progress: SearchProgress | None) -> None:
            if progress is None or not progress.objective:
                status.update(escape(step))
                return
            gap = (progress.bound - progress.objective) / progress.objective
            status.update(
                f"{escape(step)}: best {progress.objective:,.4g}, gap {gap:.2%}, {progress.elapsed_s:.0f} s"
            )

        yield show


def _record(found: Comparison) -> dict[str, Any]:
    expert, searched = found.baselines[0].objective, found.baselines[1].objective
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
    models = found.settings.models
    unit = "samples/s" if found.settings.objective == "throughput" else str(found.settings.objective)
    title = unit if len(models) == 1 else f"{found.settings.aggregate} {unit}"
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    table.add_column("baseline", no_wrap=True)
    for name in (title, "gap", "vs expert", "vs searched", "chips", "s"):
        table.add_column(name, justify="right")
    expert, searched = found.baselines[0].objective, found.baselines[1].objective
    for one in found.baselines:
        table.add_row(
            escape(one.name),
            _value(one.objective) if one.objective > 0 else "none",
            _gap(one),
            *(
                f"{one.objective / base:.3f}x" if base > 0 and one.objective > 0 else "-"
                for base in (expert, searched)
            ),
            f"{one.num_evaluations:,}",
            f"{one.search_s:.1f}",
        )
    stdout.print(f"[bold]{escape(', '.join(models))}[/], scenario {found.settings.scenario.name}", highlight=False)
    print_table(table)
    stdout.print(
        "  gap: how much more schedules that are not proven might give; vs: over tpuv4 with the expert and the "
        "searched plan; chips: looked at",
        highlight=False,
    )
    for one in found.baselines:
        if one.note:
            stdout.print(f"  {one.name}: {one.note}", highlight=False, markup=False)
    if found.gains is not None:
        _print_gains(found.gains)
    if found.sharing:
        _print_sharing(found.sharing)


def _gap(one: Baseline) -> str:
    if one.answer is None:
        return "-"
    if one.is_proven:
        return "proven" if one.objective > 0 else "-"
    return f"{one.answer.gap:.2%}" if one.objective > 0 else "not proven"


def _value(objective: float) -> str:
    """Samples a second with one digit; per area, watt or dollar with the digits it has."""
    return f"{objective:,.1f}" if objective >= 10 else f"{objective:.4g}"


def _print_gains(gains: GainSplit) -> None:
    factors = " x ".join(
        f"{step.cause} {step.gain_factor:.3f}"
        f"{'*' if step.exceeds_area_limit else ''}{'' if step.is_proven else '~'}"
        for step in gains.steps
    )
    total = f"{gains.total_gain_factor:.3f}{'' if gains.is_proven else '~'}"
    stdout.print(f"[bold]gain over {gains.start}[/]  {total} = {factors}", highlight=False)
    if any(step.exceeds_area_limit for step in gains.steps):
        stdout.print("  * a chip on the way that is over the area limit: counted, not offered", highlight=False)
    if not (gains.is_proven and all(step.is_proven for step in gains.steps)):
        stdout.print(
            "  ~ rests on an objective that is not proven: its gap is in the table or --json", highlight=False
        )
    if gains.note:
        stdout.print(f"  {gains.note}", highlight=False, markup=False)


def _print_sharing(sharing: tuple[Sharing, ...]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("model", "common chip samples/s", "own best samples/s", "lost by sharing", "own chip"):
        table.add_column(name, justify="left" if name in ("model", "own chip") else "right")
    for one in sharing:
        chip = one.own_chip
        table.add_row(
            escape(one.model),
            f"{one.common_samples_per_s:,.1f}",
            f"{one.own_samples_per_s:,.1f}",
            f"{one.lost_fraction:.1%}" + ("" if one.is_proven else " (not proven)"),
            f"{chip.num_tensor_cores} x {chip.tensor_width}x{chip.tensor_depth}, {chip.num_lanes} lanes",
        )
    print_table(table)
