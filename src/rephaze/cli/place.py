"""``rephaze place``: the optimal plan for placement problems."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rephaze.cli.output import JsonOption, exit_code_of, print_json, stderr, stdout
from rephaze.cli.problems import answer_all

if TYPE_CHECKING:
    from rephaze.measure.model_on_chip import ChipProblem
    from rephaze.types.placement import PlacementProblem, PlanLimits


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("place", short_help="Spread a model's layers over a cluster, optimally.")(place)


def place(
    problems: Annotated[
        list[str],
        typer.Argument(
            help="Problem files (.json, .jsonl with a problem a line); or one model, with --chip.",
            metavar="PROBLEM...|MODEL",
        ),
    ],
    chip: Annotated[
        str | None, typer.Option("--chip", help="Preset or chip file: estimates, schedules and places a model.")
    ] = None,
    devices: Annotated[int | None, typer.Option("--devices", help="Chips in the cluster, with --chip.")] = None,
    global_batch: Annotated[int | None, typer.Option("--global-batch", help="Samples in a batch.")] = None,
    scenario: Annotated[
        str, typer.Option("--scenario", help="Network, training and models of cost, with --chip.")
    ] = "default",
    why: Annotated[
        str,
        typer.Option(
            "--why", help="Compare with the best plan under these choices: tp, pp, dp, microbatch, recompute."
        ),
    ] = "",
    json: JsonOption = False,
) -> None:
    """Find the fastest plan: tensor, data and pipeline degrees, stages, microbatch size, recompute.

    Every answer is proven optimal, or says what is not proven and how far from the optimum it may be. Exit code 3:
    nothing fits; 4: the work limit was reached before a plan was found.

    Examples: [bold]rephaze place gpt3.json --why tp=8,pp=4[/] |
    [bold]rephaze place gpt3-175b --chip tpuv4 --devices 1024 --global-batch 4096[/]
    """
    with nullcontext() if json else stderr.status("preparing the solver (compiled once, then cached)"):
        from rephaze.place.answer import warm_up
        from rephaze.place.why_not import parse_limits

        limits = parse_limits(why) if why else None
        warm_up()
    statuses = []
    if chip is None:
        answers = answer_all([Path(name) for name in problems], lambda data: _answer_file(data, limits))
    else:
        on_chip = _model_problem(problems, chip, devices, global_batch, scenario, limits, quiet=json)
        answers = iter([(f"{problems[0]} on {chip}", _answer_on_chip(on_chip, limits))])
    while True:
        with nullcontext() if json else stderr.status("placing"):
            answered = next(answers, None)
        if answered is None:
            break
        label, answer = answered
        statuses.append(answer["status"])
        shown = answer.pop("_shown", None)
        if json:
            print_json(answer)
        elif shown is None:
            stderr.print(f"[bold red]error:[/] {label}: ", end="")
            stderr.print(answer["message"], markup=False, highlight=False, soft_wrap=True)
        else:
            from rephaze.cli.plan_view import show_placement

            show_placement(stdout, label, *shown)
    raise typer.Exit(exit_code_of(statuses))


def _model_problem(
    models: list[str],
    chip: str,
    devices: int | None,
    global_batch: int | None,
    scenario: str,
    limits: PlanLimits | None,
    *,
    quiet: bool,
) -> ChipProblem:
    from dataclasses import replace

    from rephaze.errors import SpecError
    from rephaze.hardware.chip_file import load_chip
    from rephaze.hardware.scenarios import load_scenario
    from rephaze.measure.model_on_chip import placement_on_chip
    from rephaze.types.checks import check_count
    from rephaze.types.cluster import resized_cluster

    if len(models) != 1:
        raise SpecError("MODEL", models, "must be one model with --chip")
    setting = load_scenario(scenario)
    if devices is not None:
        check_count("devices", devices, at_most=2**24)
        setting = replace(setting, cluster=resized_cluster(setting.cluster, devices))
    if global_batch is not None:
        check_count("global-batch", global_batch, at_most=2**30)
        setting = replace(setting, training=replace(setting.training, global_batch=global_batch))
    with nullcontext() if quiet else stderr.status("mapping and scheduling layers") as status:

        def show(done: int, total: int) -> None:
            if status is not None:
                status.update(f"mapping and scheduling layers: {done} of {total} degrees and microbatch sizes")

        return placement_on_chip(models[0], load_chip(chip), setting, show, limits=limits)


def _answer_on_chip(on_chip: ChipProblem, limits: PlanLimits | None) -> dict[str, Any]:
    from dataclasses import asdict, replace

    from rephaze.types.placement import Placement, SolveStatus

    if not on_chip.problem.graphs:
        reason = "some operator can run on no core of this chip, at any degree and microbatch size"
        nothing = Placement(status=SolveStatus.INFEASIBLE, bound_s=float("inf"), reason=reason)
        answer: dict[str, Any] = {"status": str(nothing.status), "reason": reason}
        return answer | {"_shown": (on_chip.problem, nothing, 0.0, None, None)}
    answer = _answer(on_chip.problem, limits)
    answer["num_layer_passes"] = on_chip.num_passes
    answer["unproven_passes"] = [asdict(one) for one in on_chip.unproven]
    problem, placement, *rest = answer["_shown"]
    if placement.best is not None and placement.status is not SolveStatus.OPTIMAL and on_chip.said:
        placement = replace(placement, reason=f"{placement.reason}: {on_chip.said}")
        answer["reason"] = placement.reason
    return answer | {"_shown": (problem, placement, *rest)}


def _answer_file(data: dict[str, Any], limits: PlanLimits | None) -> dict[str, Any]:
    from rephaze.place.problem_file import parse_problem

    return _answer(parse_problem(data), limits)


def _answer(problem: PlacementProblem, limits: PlanLimits | None) -> dict[str, Any]:
    from time import perf_counter

    from rephaze.place.answer import describe_solution
    from rephaze.place.records import placement_record
    from rephaze.place.simulate import replayed_batch_s
    from rephaze.place.solver import Placer
    from rephaze.place.why_not import explain_alternative

    start = perf_counter()
    placer = Placer(problem)
    solution = placer.solve()
    solve_s = perf_counter() - start
    placement = describe_solution(placer, solution)
    answer = placement_record(problem, placement) | {"solve_s": solve_s}
    replay_s = replayed_batch_s(problem, placement.best.plan) if placement.best is not None else None
    if placement.best is not None:
        answer["replay_s"] = replay_s
    alternative = None
    if limits is not None:
        alternative = explain_alternative(problem, placement, limits)
        answer["why"] = alternative.record()
    answer["_shown"] = (problem, placement, solve_s, replay_s, alternative)
    return answer
