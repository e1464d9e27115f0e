"""``rephaze search``: the best chip and the best plans, with their certificate."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from math import inf, isfinite
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from rephaze.cli.output import ExitCode, JsonOption, print_json, stderr, stdout
from rephaze.errors import RephazeError
from rephaze.types.stopping import UNSTOPPED, StopSignal
from rephaze.units import GB, GIB, MIB, S_PER_MS, UM2_PER_MM2

if TYPE_CHECKING:
    from rephaze.search.cosearch import SearchProgress
    from rephaze.types.search import SearchResult, SearchSettings

KNOWN_CHIPS_S = 2.0
"""Time for known chips in the report: a search should not wait for more of them; rephaze report has all."""

REPORT_S = 2.0
"""Time for schedules and known chips in the report of a search with a time limit."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("search")(search)


def search(
    models: Annotated[
        list[str] | None, typer.Argument(help="Zoo names (rephaze models) or graph files.", metavar="MODEL...")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Run file (.toml): scenario, changes to it, what to look for.")
    ] = None,
    scenario: Annotated[str | None, typer.Option(help="default, paper, or a scenario file (.toml).")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to record the run in.", metavar="RUN")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    objective: Annotated[str | None, typer.Option(help="throughput, per-area, per-watt or per-usd.")] = None,
    aggregate: Annotated[str | None, typer.Option(help="Of several models: geomean, mean or worst.")] = None,
    devices: Annotated[
        int | None, typer.Option(help="Chips in the cluster (one flat network level is kept).")
    ] = None,
    global_batch: Annotated[int | None, typer.Option(help="Samples in a batch.")] = None,
    area_limit_mm2: Annotated[float | None, typer.Option(help="Largest chip, in mm².")] = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds; then the incumbent and its gap.", metavar="S")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes on this machine.")] = 2,
    dask: Annotated[
        str | None,
        typer.Option(help="Work on the cluster of this Dask scheduler instead.", metavar="tcp://HOST:PORT"),
    ] = None,
    count_within: Annotated[
        float,
        typer.Option(
            help="After the proof also settle which designs lie within so many percent of the best.",
            metavar="PERCENT",
            min=0.0,
            max=50.0,
        ),
    ] = 0.0,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Solve every design: for small spaces.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Find the chip and the plan of each model that give the highest throughput, and prove it.

    Ctrl-C ends the search with the best found so far and an honest gap; a run recorded with --out goes on with
    --resume, also after a crash. Exit code 3: proven that nothing fits; 4: stopped before a plan was found.

    Examples:  rephaze search gpt2-xl   |   rephaze search gpt2-xl bert-large --scenario paper --out run1
    """
    began = perf_counter()
    from rephaze.search.cosearch import run_search
    from rephaze.search.settings import resolve_settings

    if resume and out is None:
        raise typer.BadParameter("--resume needs --out with the run's folder")
    changes = _changes(objective, aggregate, devices, global_batch, area_limit_mm2, exhaustive)
    settings = resolve_settings(tuple(models or ()), config=config, scenario=scenario, changes=changes)
    with _interruptible() as is_interrupted:
        with _progress(quiet=json_output) as show:
            result = run_search(
                settings,
                folder=out,
                resume=resume,
                num_workers=workers,
                dask=dask,
                # What was loaded and read so far counts too.
                time_limit_s=inf if time_limit is None else max(time_limit - (perf_counter() - began), 0.0),
                count_within=count_within / 100,
                on_progress=show,
                should_stop=is_interrupted,
            )
        # A time limit is for all there is to wait for.
        stop = UNSTOPPED if time_limit is None else StopSignal(perf_counter() + REPORT_S)
        # Still under Ctrl-C's handler: pressed a moment too late it must not cost the answer.
        if json_output:
            report = _write_report(out, quiet=True, stop=stop)
            print_json(_record(result) | {"report": None if report is None else str(report)})
        else:
            _print(settings, result, out)
            report = _write_report(out, quiet=False, stop=stop)
            if report is not None:
                stdout.print(f"report in {report}", highlight=False, markup=False, soft_wrap=True)
    if result.chip is None:
        raise typer.Exit(ExitCode.UNKNOWN if result.status == "unknown" else ExitCode.INFEASIBLE)


def _changes(
    objective: str | None,
    aggregate: str | None,
    devices: int | None,
    global_batch: int | None,
    area_limit_mm2: float | None,
    exhaustive: bool,
) -> dict[str, dict[str, Any]]:
    asked: dict[str, Any] = {"exhaustive": True} if exhaustive else {}
    asked |= {name: value for name, value in (("objective", objective), ("aggregate", aggregate)) if value}
    return {
        "search": asked,
        "training": {} if global_batch is None else {"global_batch": global_batch},
        "cluster": {} if devices is None else {"num_devices": devices},
        "space": {} if area_limit_mm2 is None else {"area_limit_um2": area_limit_mm2 * UM2_PER_MM2},
    }


@contextmanager
def _interruptible() -> Iterator[Any]:
    """Ctrl-C once: stop with what is known. Twice: at once."""
    asked = False

    def handle(_signal: int, _frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _progress(quiet: bool) -> Iterator[Any]:
    if quiet:
        yield lambda _state: None
        return
    with stderr.status("preparing models and design space") as status:

        def show(state: SearchProgress) -> None:
            if not state.objective:
                status.update(f"{state.phase}: {state.num_designs:,} designs, {state.elapsed_s:.0f} s")
                return
            gap = (state.bound - state.objective) / state.objective
            status.update(
                f"{state.phase}: best {state.objective:,.4g}, bound {state.bound:,.4g} (gap {gap:.2%}), "
                f"{state.num_open:,} designs open, {state.num_solved:,} looked at, {state.elapsed_s:.0f} s"
            )

        yield show


def _write_report(out: Path | None, *, quiet: bool, stop: StopSignal = UNSTOPPED) -> Path | None:
    """Write the run's page; what keeps it from being written must not take the answer away."""
    if out is None:
        return None
    from rephaze.cli.report import write_report

    try:
        with nullcontext() if quiet else stderr.status("writing the report"):
            return write_report(out, known_chips_s=KNOWN_CHIPS_S, stop=stop)
    except RephazeError as error:
        stderr.print(f"no report: {error}", highlight=False, markup=False, soft_wrap=True)
        return None


def _record(result: SearchResult) -> dict[str, Any]:
    certificate = asdict(result.certificate)
    return {
        "status": str(result.status),
        "objective": result.objective,
        "bound": result.bound if isfinite(result.bound) else None,
        "gap": result.gap if result.chip else None,
        "chip": asdict(result.chip) if result.chip else None,
        "area_um2": result.area_um2,
        "plans": [asdict(plan) for plan in result.plans],
        "num_designs": certificate["num_designs"],
        "num_solved_exactly": certificate["num_solved_exactly"],
        "certificate": certificate,
        "reason": result.reason,
        "search_s": result.search_s,
    }


def _print(settings: SearchSettings, result: SearchResult, out: Path | None) -> None:
    certificate = result.certificate
    if result.chip is None:
        stdout.print(f"[yellow]{result.status}[/]: {result.reason}", highlight=False)
        if result.status == "unknown":
            _, most = next(iter(certificate.num_within.values()))
            stdout.print(
                f"any of {most:,} designs may have a plan, of {settings.objective} "
                + (f"at most {result.bound:,.5g}" if isfinite(result.bound) else "not bounded yet"),
                highlight=False,
            )
        _print_scope(result)
        return
    chip = result.chip
    colour = "green" if result.status == "optimal" else "yellow"
    stdout.print(
        f"[bold {colour}]{result.status}[/] in {result.search_s:.1f} s: "
        f"{settings.objective} {result.objective:,.5g} (bound {result.bound:,.5g}, "
        f"gap {result.gap:.3%}); scenario {settings.scenario.name}",
        highlight=False,
    )
    if result.reason:
        stdout.print(f"[yellow]not proven:[/] {result.reason}", highlight=False)
    stdout.print(
        f"[bold]chip[/]  {chip.num_tensor_cores} tensor cores of {chip.tensor_width}x{chip.tensor_depth}, "
        f"{chip.num_vector_cores} vector cores of {chip.vector_lanes} lanes, "
        f"{chip.global_buffer_bytes / MIB:g} MiB buffer, {chip.num_hbm_stacks} HBM stacks "
        f"({chip.hbm_bytes / GIB:g} GiB, {chip.hbm_bytes_per_s / GB:,.0f} GB/s), "
        f"{result.area_um2 / UM2_PER_MM2:,.1f} mm²",
        highlight=False,
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    headings = (
        "model",
        "samples/s",
        "batch\nms",
        "tp",
        "dp",
        "pp",
        "micro\nbatch",
        "replay",
        "GiB used",
        "J a\nsample",
    )
    for name in headings:
        table.add_column(name, justify="left" if name == "model" else "right", no_wrap=True)
    for plan in result.plans:
        table.add_row(
            plan.model,
            f"{plan.samples_per_s:,.1f}",
            f"{plan.batch_s / S_PER_MS:,.1f}",
            *(str(degree) for degree in (plan.tp, plan.dp, plan.pp, plan.microbatch)),
            plan.recompute,
            f"{max(stage.memory_bytes for stage in plan.stages) / GIB:.1f} / {plan.hbm_bytes / GIB:g}",
            f"{plan.energy_per_sample_j:,.3g}",
        )
    stdout.print(table)
    removed = ", ".join(
        f"{count:,} by {name}" for name, count in certificate.num_dropped_by_bound.items() if count
    )
    left_open = f", {certificate.num_open:,} left open" if certificate.num_open else ""
    within = ", ".join(
        f"{name}: {least:,}" + ("" if least == most else f" to {most:,}")
        for name, (least, most) in certificate.num_within.items()
    )
    stdout.print(
        f"[bold]certificate[/]  {certificate.num_designs:,} designs: "
        f"{certificate.num_solved_exactly:,} solved exactly, "
        f"{certificate.num_infeasible:,} infeasible, dropped {removed or 'none'}{left_open}; within {within}",
        highlight=False,
    )
    _print_scope(result)
    stdout.print(f"[bold]held back by[/]  {certificate.binding}", highlight=False)
    if out is not None:
        stdout.print(f"run recorded in {out}", highlight=False)


def _print_scope(result: SearchResult) -> None:
    """Over what the proof ranges."""
    certificate = result.certificate
    plans = certificate.plans_scope
    if certificate.num_unproven:
        plans += f"; schedules not proven on {certificate.num_unproven:,} designs that might do better"
    elif result.chip is not None:
        plans += "; every schedule that matters " + ("proven" if result.status == "optimal" else "so far proven")
    for heading, text in (
        ("over", f"{certificate.num_designs:,} designs: {certificate.designs_scope}"),
        ("and plans", plans),
    ):
        stdout.print(f"[bold]{heading}[/]  ", end="")
        stdout.print(text, highlight=False, markup=False)
