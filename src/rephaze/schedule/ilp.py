"""The paper's integer linear program, clean, for any solver OR-Tools MathOpt can call.

Kept from the paper: a start and a mode per operator, and an order variable for each pair that precedence
leaves open. Changed: capacities are flows of units from operators that end to operators that start, so no
core has a name (no symmetric copies), and the starts themselves keep the order acyclic (no cubic rows). See
``docs/scheduling.md``, section 6.

Axis letters: i, j = operators of a part, m = mode (a way to run one), r = resource.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import numpy as np

from rephaze.errors import SpecError
from rephaze.schedule.cpsat import Solved, members
from rephaze.schedule.relaxation import NEVER
from rephaze.schedule.tables import Ints, Task

BACKENDS = {"scip": "GSCIP", "highs": "HIGHS", "cp_sat": "CP_SAT", "gurobi": "GUROBI"}

# Solvers in floating point are trusted to this relative tolerance only: their bound is lowered by it.
_TOLERANCE = 2e-6

# As good as no limit, and still a time that a solver can be told.
_NO_LIMIT_S = 1e8


def solve_by_ilp(task: Task, horizon: int, time_limit_s: float, backend: str) -> Solved:
    """The bound and schedule of the integer program.

    Args:
        task: The part.
        horizon: Makespan of some valid schedule.
        time_limit_s: Wall time.
        backend: ``scip``, ``highs``, ``cp_sat`` or ``gurobi`` (which needs a licence).
    """
    from ortools.math_opt.python import mathopt

    if backend not in BACKENDS:
        raise SpecError("backend", backend, f"must be one of {', '.join(BACKENDS)}")
    model = mathopt.Model(name="layer")
    in_whole_numbers = backend == "cp_sat"
    program = _Program(model, task, horizon, in_whole_numbers)
    parameters = mathopt.SolveParameters(
        time_limit=timedelta(seconds=min(max(time_limit_s, 0.001), _NO_LIMIT_S)),
        relative_gap_tolerance=0.0,
        absolute_gap_tolerance=0.0,
        threads=None if backend == "highs" else 1,  # MathOpt's HiGHS takes no thread count
        random_seed=0,
    )
    try:
        result = mathopt.solve(model, getattr(mathopt.SolverType, BACKENDS[backend]), params=parameters)
    except (ValueError, RuntimeError, AttributeError) as error:  # the last is MathOpt's own, from reporting
        reason = " ".join(str(error).split())[:120]
        raise SpecError("backend", backend, f"cannot be used here ({reason})", "try scip") from None
    dual = result.termination.objective_bounds.dual_bound
    bound = 0
    if math.isfinite(dual):
        bound = math.ceil(dual - 1e-6 if in_whole_numbers else dual * (1.0 - _TOLERANCE) - 1e-6)
    if not result.has_primal_feasible_solution():
        return Solved(bound, None, None)
    return Solved(bound, *program.read(result))


class _Program:
    """Variables and rows of the integer program for one part."""

    def __init__(self, model: Any, task: Task, horizon: int, in_whole_numbers: bool) -> None:
        self.model, self.task, self.in_whole_numbers = model, task, in_whole_numbers
        self.size = size = len(task.dur_im)
        self.modes = [np.flatnonzero(task.dur_im[i] < NEVER).tolist() for i in range(size)]
        self.makespan = model.add_integer_variable(lb=0, ub=horizon, name="T")
        self.start = [model.add_integer_variable(lb=0, ub=horizon, name=f"t{i}") for i in range(size)]
        self.picked = [self._choice(i) for i in range(size)]
        self.length = [sum(int(task.dur_im[i, m]) * self.picked[i][m] for m in self.modes[i]) for i in range(size)]
        ancestors = [set(members(task.ancestors_iw[i], size)) for i in range(size)]
        # ends_before[i, j]: i ends before j starts. 1 where precedence says so, absent where it cannot be.
        self.ends_before: dict[tuple[int, int], Any] = {}
        for j in range(size):
            for i in range(size):
                if i in ancestors[j]:
                    self.ends_before[i, j] = 1
                elif i != j and j not in ancestors[i]:
                    self.ends_before[i, j] = model.add_binary_variable(name=f"x{i}_{j}")
        self._add_times(horizon)
        for r in range(len(task.cap_r)):
            if task.exclusive and r == len(task.cap_r) - 1:
                self._add_exclusivity()
            else:
                self._add_flow(task.need_imr[:, :, r].tolist(), int(task.cap_r[r]))
        model.minimize(self.makespan)

    def _choice(self, i: int) -> dict[int, Any]:
        """A 0/1 expression for each mode of an operator, of which exactly one is 1; one variable for two modes."""
        first, *others = self.modes[i]
        picked: dict[int, Any] = {m: self.model.add_binary_variable(name=f"y{i}_{m}") for m in others}
        if len(others) > 1:
            self.model.add_linear_constraint(sum(picked.values()) <= 1)
        return {first: 1 - sum(picked.values())} | picked

    def _add_times(self, horizon: int) -> None:
        for i in range(self.size):
            self.model.add_linear_constraint(self.start[i] + self.length[i] <= self.makespan)
        for (i, j), ends_before in self.ends_before.items():
            if isinstance(ends_before, int):
                if i in self._preds(j):
                    self.model.add_linear_constraint(self.start[i] + self.length[i] <= self.start[j])
                continue
            self.model.add_linear_constraint(
                self.start[i] + self.length[i] - horizon * (1 - ends_before) <= self.start[j]
            )
            if i < j:
                self.model.add_linear_constraint(ends_before + self.ends_before[j, i] <= 1)

    def _add_exclusivity(self) -> None:
        """An operator on all cores runs beside nothing (rule ``chip``)."""
        for (i, j), ends_before in self.ends_before.items():
            stops_chip = sum(self.picked[i][m] for m in self.modes[i] if self.task.alone_im[i, m])
            if not isinstance(ends_before, int) and not isinstance(stops_chip, int):
                self.model.add_linear_constraint(ends_before + self.ends_before[j, i] >= stops_chip)
            elif not isinstance(ends_before, int) and stops_chip:
                self.model.add_linear_constraint(ends_before + self.ends_before[j, i] >= 1)

    def _add_flow(self, need_im: list[list[int]], cap: int) -> None:
        """Units pass from a common source through operators, each passing on what it took when it ends."""
        # Rule chip: an all-cores operator is kept apart by exclusivity and needs no units.
        alone_im = self.task.alone_im
        need = [
            sum((0 if alone_im[i, m] else need_im[i][m]) * self.picked[i][m] for m in self.modes[i])
            for i in range(self.size)
        ]
        users = [i for i in range(self.size) if any(need_im[i])]
        # In floating point, fine-grained bandwidth units are better counted in parts of the capacity.
        scale = 1 if cap <= 10_000 or self.in_whole_numbers else 1.0 / cap
        inflow: dict[int, list[Any]] = {i: [] for i in users}
        outflow: dict[int, list[Any]] = {i: [] for i in users}
        drawn = []
        for i in users:
            source = self.model.add_variable(lb=0.0, ub=cap * scale, is_integer=self.in_whole_numbers)
            drawn.append(source)
            inflow[i].append(source)
            for j in users:
                ends_before = self.ends_before.get((i, j))
                if ends_before is None:
                    continue
                most = min(max(need_im[i]), max(need_im[j])) * scale
                flow = self.model.add_variable(lb=0.0, ub=most, is_integer=self.in_whole_numbers)
                if not isinstance(ends_before, int):
                    self.model.add_linear_constraint(flow <= most * ends_before)
                outflow[i].append(flow)
                inflow[j].append(flow)
        for i in users:
            self.model.add_linear_constraint(sum(inflow[i]) == scale * need[i])
            if outflow[i]:
                self.model.add_linear_constraint(sum(outflow[i]) <= scale * need[i])
        self.model.add_linear_constraint(sum(drawn) <= cap * scale)

    def _preds(self, j: int) -> list[int]:
        preds: list[int] = self.task.pred_index[self.task.pred_start[j] : self.task.pred_start[j + 1]].tolist()
        return preds

    def read(self, result: Any) -> tuple[Ints, Ints]:
        """Starts and modes: the order and modes of the solution, every operator as early as they allow.

        Starts are not read off the solution, whose tolerance is coarser than a cycle.
        """
        mode_i = np.array([self._mode(result, i) for i in range(self.size)], dtype=np.int64)
        roughly = [result.variable_values(t) for t in self.start]
        after: list[list[int]] = [[] for _ in range(self.size)]
        for (i, j), ends_before in self.ends_before.items():
            if isinstance(ends_before, int) or result.variable_values(ends_before) > 0.5:
                after[j].append(i)
        start_i = np.zeros(self.size, dtype=np.int64)
        for j in sorted(range(self.size), key=lambda j: (roughly[j], j)):
            ends = [start_i[i] + self.task.dur_im[i, mode_i[i]] for i in after[j]]
            start_i[j] = max(ends, default=0)
        return start_i, mode_i

    def _mode(self, result: Any, i: int) -> int:
        first, *others = self.modes[i]
        return next((m for m in others if result.variable_values(self.picked[i][m]) > 0.5), first)
