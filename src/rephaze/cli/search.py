"""``rephaze search``: the best chip and the best plans, with their certificate."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rephaze.cli.budget_options import BudgetMm2, BudgetUsd, BudgetWatts, budget_changes
from rephaze.cli.nearest import show_near_designs
from rephaze.cli.output import (
    ExitCode,
    JsonOption,
    MisuseError,
    print_json,
    refuse_given,
    seconds,
    stderr,
    stdout,
    step_status,
    styled,
)
from rephaze.cli.physics_option import PhysicsOption
from rephaze.cli.tables import print_content
from rephaze.errors import RephazeError
from rephaze.types.readable import amount, fields_in_words
from rephaze.types.stopping import UNSTOPPED, StopSignal
from rephaze.units import UM2_PER_MM2, gap_text

if TYPE_CHECKING:
    from rephaze.api.exploring import SearchProgress
    from rephaze.api.search_results import Exploration
    from rephaze.types.search import SearchResult

KNOWN_CHIPS_S = 3.0
KNOWN_CHIPS_SHARE = 0.1
"""Time for known chips when a search ends: so many seconds, or if that is more this part of what the search took
from its first answer on; before it, the first search on a machine mostly compiles.
"""

REPORT_S = 2.0
"""Time for schedules and known chips in the report of a search with a time limit."""

_NARROW = {"batch ms": "batch\nms", "micro batch": "micro\nbatch", "J a sample": "J a\nsample"}
"""Headings on two lines, to have the plans side by side in a narrow terminal."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("search")(search)


def search(
    ctx: typer.Context,
    models: Annotated[
        list[str] | None, typer.Argument(help="Zoo names (rephaze models) or graph files.", metavar="MODEL...")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Run file (.toml): scenario, changes to it, what to look for.")
    ] = None,
    scenario: Annotated[
        str | None, typer.Option(help="default, coarse, paper, or a scenario file (.toml).")
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            help="Plans that can be launched: any, exact, megatron, torchtitan, maxtext; not with scenario coarse "
            "or paper."
        ),
    ] = None,
    physics: PhysicsOption = None,
    out: Annotated[Path | None, typer.Option(help="Folder to record the run in.", metavar="RUN")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out; its settings need not be given again.")
    ] = False,
    objective: Annotated[str | None, typer.Option(help="throughput, per-area, per-watt or per-usd.")] = None,
    aggregate: Annotated[str | None, typer.Option(help="Of several models: geomean, mean or worst.")] = None,
    devices: Annotated[
        int | None, typer.Option(help="Chips in the cluster (one flat network level is kept).")
    ] = None,
    global_batch: Annotated[int | None, typer.Option(help="Samples in a batch.")] = None,
    area_limit_mm2: Annotated[float | None, typer.Option(help="Largest chip, in mm².")] = None,
    budget_watts: BudgetWatts = None,
    budget_usd: BudgetUsd = None,
    budget_mm2: BudgetMm2 = None,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds; then the incumbent and its gap.", metavar="S")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes on this machine.", min=1, max=1024)] = 2,
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
    method: Annotated[
        str | None,
        typer.Option(help="How the space is gone through: auto, boxes or list.", metavar="auto|boxes|list"),
    ] = None,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Solve every design: for small spaces.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Find the chip and the plan of each model that give the highest throughput, and prove it.

    With a budget the number of chips is chosen too, unless --devices or the run file says it; a run file's
    [system] lists clocks, HBM, links, nodes and numbers of chips to choose from.

    Ctrl-C ends the search with the best found so far and an honest gap; a run recorded with --out goes on with
    --resume, also after a crash. Exit code 3: proven that nothing fits; 4: stopped before a plan was found.

    Examples:  rephaze search gpt2-xl   |   rephaze search gpt2-xl bert-large --scenario paper --out run1   |
    rephaze search llama3-70b --budget-watts 2e6
    """
    from rephaze.api.exploring import explore

    if resume and out is None:
        raise MisuseError("--resume", True, "needs --out with the run's folder")
    if dask is not None:
        refuse_given(ctx, ["workers"], "is for work on this machine", "leave it or --dask out")
    limit_s = seconds("--time-limit", time_limit)
    answered_s: list[float] = []
    with _interruptible() as is_interrupted:
        with _progress(quiet=json_output) as show:

            def on_progress(state: SearchProgress) -> None:
                if state.objective and not answered_s:
                    answered_s.append(state.elapsed_s)
                show(state)

            result = explore(
                *(models or ()),
                scenario=scenario,
                config=config,
                changes=({} if physics is None else {"physics": physics})
                | _changes(objective, aggregate, devices, global_batch, area_limit_mm2, exhaustive, family, method)
                | budget_changes(budget_watts, budget_usd, budget_mm2),
                store=out,
                resume=resume,
                num_workers=workers,
                dask=dask,
                time_limit_s=limit_s,
                count_within=count_within / 100,
                on_progress=on_progress,
                should_stop=is_interrupted,
            )
        # A time limit is for all there is to wait for.
        stop = UNSTOPPED if time_limit is None else StopSignal(perf_counter() + REPORT_S)
        known_chips_s = max(KNOWN_CHIPS_S, KNOWN_CHIPS_SHARE * (result.search_s - sum(answered_s)))
        # Still under Ctrl-C's handler: pressed a moment too late it must not cost the answer.
        if json_output:
            report = _write_report(out, quiet=True, stop=stop, known_chips_s=known_chips_s)
            print_json(
                _record(result) | _judged(result, out) | {"report": None if report is None else str(report)}
            )
        else:
            _print(result, out)
            if time_limit is None:
                show_near_designs(stdout, result, out)
            report = _write_report(out, quiet=False, stop=stop, known_chips_s=known_chips_s)
            if report is not None:
                stdout.print(f"report in {report}", soft_wrap=True)
    if result.chip is None:
        raise typer.Exit(ExitCode.UNKNOWN if result.status == "unknown" else ExitCode.INFEASIBLE)


def _changes(
    objective: str | None,
    aggregate: str | None,
    devices: int | None,
    global_batch: int | None,
    area_limit_mm2: float | None,
    exhaustive: bool,
    family: str | None = None,
    method: str | None = None,
) -> dict[str, dict[str, Any]]:
    asked: dict[str, Any] = {"exhaustive": True} if exhaustive else {}
    named = (("objective", objective), ("aggregate", aggregate), ("method", method))
    asked |= {name: value for name, value in named if value is not None}
    return {
        "search": asked,
        "training": {} if global_batch is None else {"global_batch": global_batch},
        "cluster": {} if devices is None else {"num_devices": devices},
        "space": {} if area_limit_mm2 is None else {"area_limit_um2": area_limit_mm2 * UM2_PER_MM2},
        **({} if family is None else {"plans": {"family": family}}),
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
    with step_status("preparing models and design space", quiet=False) as on_step:

        def show(state: SearchProgress) -> None:
            if not state.objective:
                on_step(f"{state.phase}: {state.num_designs:,} designs, {state.elapsed_s:.0f} s")
                return
            bound = f"bound {amount(state.bound)}" if isfinite(state.bound) else "no bound yet"
            on_step(
                f"{state.phase}: best {amount(state.objective)}, {bound} (gap {gap_text(state.gap)}), "
                f"{state.num_open:,} {state.counted} open, {state.num_solved:,} looked at, {state.elapsed_s:.0f} s"
            )

        yield show


def _write_report(
    out: Path | None, *, quiet: bool, stop: StopSignal = UNSTOPPED, known_chips_s: float = KNOWN_CHIPS_S
) -> Path | None:
    """Write the run's page; what keeps it from being written must not take the answer away."""
    if out is None:
        return None
    from rephaze.api import open_run

    try:
        if not (quiet or stderr.is_terminal):
            # The answer is out already: who reads a log must know what the command is still at.
            stderr.print("writing the report; known chips and baselines are measured for it", soft_wrap=True)
        with step_status("report: reading the run", quiet=quiet) as on_step:
            return open_run(out).report(known_chips_s=known_chips_s, stop=stop, on_step=on_step)
    except RephazeError as error:
        stderr.print(f"no report: {error}", soft_wrap=True)
        return None


def _record(result: Exploration) -> dict[str, Any]:
    from rephaze.api.plan_rates import OBJECTIVE_UNITS, plan_rates, rates_record

    scenario = result.settings.scenario
    plans = [
        asdict(plan) | (rates_record(plan_rates(plan, result.chip, scenario)) if result.chip else {})
        for plan in result.plans
    ]
    certificate = asdict(result.certificate)
    return {
        "status": str(result.status),
        "objective": result.objective,
        "objective_unit": OBJECTIVE_UNITS[result.settings.objective],
        "bound": result.bound if isfinite(result.bound) else None,
        "gap": result.gap if result.chip and isfinite(result.gap) else None,
        "chip": asdict(result.chip) if result.chip else None,
        "area_um2": result.area_um2,
        "system": None if result.system is None else asdict(result.system),
        "plans": plans,
        "num_designs": certificate["num_designs"],
        "num_solved_exactly": certificate["num_solved_exactly"],
        "certificate": certificate,
        "reason": result.reason,
        "search_s": result.search_s,
    }


def _judged(result: Exploration, out: Path | None) -> dict[str, Any]:
    """What measured runs say of the prices, and how stable the choice of the chip is under their error."""
    from rephaze.api.expected_errors import NOTHING_NEAR, expected_of_search, stability_of_search
    from rephaze.api.search_views import physics_sentence
    from rephaze.types.placement import PlacementModel

    scenario = result.settings.scenario
    found: dict[str, Any] = {"physics": str(scenario.physics)}
    if physics_sentence(result):
        found["rates"] = physics_sentence(result)
    if result.chip is None or scenario.placement_model is not PlacementModel.FULL:
        return found
    expected = expected_of_search(result.plans, scenario)
    found["expected_error"] = {
        model: NOTHING_NEAR if near is None else asdict(near) for model, near in expected.items()
    }
    stable = None if out is None else stability_of_search(result, out)
    return found if stable is None else found | {"stability": asdict(stable)}


def _print(result: Exploration, out: Path | None) -> None:
    from rephaze.api.expected_errors import expected_of_search, expected_sentence, stability_of_search
    from rephaze.api.search_views import (
        answer_sentence,
        certificate_sentence,
        chip_sentence,
        physics_sentence,
        plan_table,
        rates_sentences,
        unknown_sentence,
    )
    from rephaze.types.placement import PlacementModel

    if result.chip is None:
        stdout.print(styled((str(result.status), "yellow"), f": {result.reason}"))
        if result.status == "unknown":
            stdout.print(unknown_sentence(result))
        _print_scope(result)
        return
    colour = "green" if result.status == "optimal" else "yellow"
    stdout.print(styled((str(result.status), f"bold {colour}"), f" {answer_sentence(result)}"))
    if result.reason:
        stdout.print(styled(("not proven:", "yellow"), f" {result.reason}"))
    stdout.print(styled(("chip", "bold"), f"  {chip_sentence(result.chip, result.area_um2)}"))
    if physics_sentence(result):
        stdout.print(styled(("rates", "bold"), f"  {physics_sentence(result)}"))
    if result.system is not None:
        stdout.print(styled(("system", "bold"), f"  {result.system.in_words}"))
        stdout.print(styled(("takes", "bold"), f"  {result.system.bill_in_words}"))
    print_content(plan_table(result.plans), shown=_NARROW)
    for said in rates_sentences(result):
        stdout.print(said)
    stdout.print(styled(("certificate", "bold"), f"  {certificate_sentence(result.certificate)}"))
    _print_scope(result)
    stdout.print(styled(("held back by", "bold"), f"  {fields_in_words(result.certificate.binding)}"))
    if result.settings.scenario.placement_model is PlacementModel.FULL:
        for model, near in expected_of_search(result.plans, result.settings.scenario).items():
            stdout.print(styled((f"expected, {model}", "bold"), f"  {expected_sentence(near)}"))
        stable = None if out is None else stability_of_search(result, out)
        if stable is not None:
            stdout.print(styled(("stable", "bold"), f"  {stable.sentence()}"))
    if out is not None:
        stdout.print(f"run recorded in {out}")


def _print_scope(result: SearchResult) -> None:
    """Over what the proof ranges."""
    from rephaze.api.search_views import scope_sentences

    for heading, text in scope_sentences(result):
        stdout.print(styled((heading, "bold"), f"  {text}"))
