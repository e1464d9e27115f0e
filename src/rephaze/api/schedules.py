"""Schedules of layers, through the door: of a model on a chip, or of problem files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rephaze.api.chips import as_chip
from rephaze.api.models import MAX_COUNT
from rephaze.api.present import Block, Shown
from rephaze.api.problem_files import BadProblem, answer_all
from rephaze.api.spaces import as_scenario
from rephaze.errors import SpecError
from rephaze.types.checks import check_choice, check_count
from rephaze.types.chip import Chip
from rephaze.types.scenario import Scenario
from rephaze.types.schedule import Schedule, ScheduleProblem, ScheduleStatus, ScheduleUsage

OnStep = Callable[[str], None]
"""Told what is being done."""

SOLVERS = ("auto", "search", "cpsat", "ilp")
BACKENDS = ("scip", "highs", "cp_sat", "gurobi")
DEFAULT_TIME_LIMIT_S = 10.0


def ignore_step(_step: str) -> None:
    """Tells nobody."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ScheduledPass(Shown):
    """One pass of one layer: the problem and its schedule, with what is proven about it."""

    label: str
    problem: ScheduleProblem
    schedule: Schedule
    clock_hz: float | None = None
    """Of the chip it is for; None: a problem in cycles, of no chip."""

    @property
    def status(self) -> str:
        """``optimal``, ``feasible`` or ``infeasible``."""
        return self.schedule.status.value

    @property
    def usage(self) -> ScheduleUsage:
        """How the schedule uses the chip."""
        from rephaze.schedule.usage import usage_of

        return usage_of(self.problem, self.schedule)

    @property
    def gap(self) -> float:
        """The part of the makespan that a shorter schedule might save; 0 when optimal."""
        found = self.schedule
        return 1 - found.bound_cycles / found.makespan_cycles if found.makespan_cycles else 0.0

    def record(self) -> dict[str, Any]:
        """As plain data."""
        from rephaze.schedule.problem_file import answer_of

        return answer_of(self.schedule)

    def blocks(self) -> Sequence[Block]:
        """Headline, use of the cores, and when each operator runs."""
        from rephaze.api.views import schedule_blocks

        return schedule_blocks(self)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ScheduledModel(Shown):
    """A layer of a model on a chip, forward and backward."""

    passes: tuple[ScheduledPass, ...]

    @property
    def is_optimal(self) -> bool:
        """Every pass is proven shortest."""
        return all(one.schedule.status is ScheduleStatus.OPTIMAL for one in self.passes)

    def write_gantt(self, path: str | Path) -> Path:
        """Write the Gantt charts as a page that opens without a network, and return its path."""
        return write_gantt(path, self.passes)

    def blocks(self) -> Sequence[Block]:
        """The blocks of each pass."""
        return [block for one in self.passes for block in one.blocks()]


def schedule_model(
    model: str | Path,
    chip: str | Path | Chip,
    *,
    layer: int | None = None,
    microbatch: int = 1,
    tp: int = 1,
    scenario: str | Path | Scenario = "default",
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    solver: str = "auto",
    backend: str = "scip",
    on_step: OnStep = ignore_step,
) -> ScheduledModel:
    """The shortest schedules of a layer's operators on the cores of a chip, with a proof or a bound.

    Example:
        >>> import rephaze
        >>> block = rephaze.schedule_model("gpt2-xl", "tpuv4", microbatch=2)
        >>> [one.status for one in block.passes]
        ['optimal', 'optimal']

    Args:
        model: A name of ``list_models``, or a graph file.
        chip: A name of ``list_chips``, a chip file, or a chip.
        layer: Position of the layer; None: one of the kind that repeats most.
        microbatch: Samples at once.
        tp: Tensor-parallel degree.
        scenario: Cost model, rules and network.
        time_limit_s: For each pass; a valid schedule comes back in any case.
        solver: ``auto`` (``search`` and ``cpsat`` in turns), either of them, or ``ilp``, the paper's program.
        backend: What solves the ``ilp``: ``scip``, ``highs``, ``cp_sat`` or ``gurobi``.
        on_step: Told what is being done.
    """
    solve = _solver(time_limit_s, solver, backend, on_step)
    from rephaze.measure.model_on_chip import layer_problems

    check_count("microbatch", microbatch, at_most=MAX_COUNT)
    check_count("tp", tp, at_most=MAX_COUNT)
    on_step("mapping operators")
    from rephaze.hardware.derating import chip_at

    given = as_scenario(scenario)
    setting = chip_at(as_chip(chip), given), given
    found = layer_problems(str(model), *setting, tp=tp, microbatch=microbatch, layer=layer)
    clock_hz = setting[0].clock_hz
    return ScheduledModel(passes=tuple(replace(solve(*one), clock_hz=clock_hz) for one in found))


def schedule_problems(
    paths: Sequence[str | Path],
    *,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    solver: str = "auto",
    backend: str = "scip",
    on_step: OnStep = ignore_step,
) -> Iterator[tuple[str, ScheduledPass | BadProblem]]:
    """The schedule of every problem in problem files (``rephaze.schedule-problem/1``), each with its label.

    Args:
        paths: ``.json`` files, or ``.jsonl`` with a problem a line.
        time_limit_s: For each problem.
        solver: As in ``schedule_model``.
        backend: As in ``schedule_model``.
        on_step: Told what is being done.
    """
    solve = _solver(time_limit_s, solver, backend, on_step)
    from rephaze.schedule.problem_file import problem_from

    return answer_all(paths, lambda label, data: solve(label, problem_from(data)))


def write_gantt(path: str | Path, passes: Sequence[ScheduledPass]) -> Path:
    """Write the charts of all passes that have a schedule as one page, and return its path."""
    from rephaze.report.gantt import write_gantt_html

    charts = [(one.label, one.problem, one.schedule) for one in passes if one.schedule.starts]
    write_gantt_html(Path(path), charts)
    return Path(path)


def _solver(
    time_limit_s: float, solver: str, backend: str, on_step: OnStep
) -> Callable[[str, ScheduleProblem], ScheduledPass]:
    """What solves one problem after the other, remembering those it has seen."""
    if not time_limit_s >= 0:
        raise SpecError("--time-limit", time_limit_s, "must be at least 0", "give seconds, for example 10")
    check_choice("solver", solver, SOLVERS)
    check_choice("backend", backend, BACKENDS)
    on_step("loading the compiled search")
    from rephaze.schedule.parts import Solver
    from rephaze.schedule.solve import ScheduleMemo, solve_problem
    from rephaze.schedule.warmup import compile_kernels

    compile_kernels()
    memo = ScheduleMemo()

    def solve(label: str, problem: ScheduleProblem) -> ScheduledPass:
        on_step("scheduling")
        found = solve_problem(
            problem, time_limit_s=time_limit_s, solver=Solver(solver), backend=backend, memo=memo
        )
        return ScheduledPass(label=label, problem=problem, schedule=found)

    return solve
