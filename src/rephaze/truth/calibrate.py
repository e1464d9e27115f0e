"""Fits the constants to measured runs: few, bounded, leaning to where they started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.calibration import Constant
from rephaze.truth.op_table import OpColumns, OpTable
from rephaze.truth.physics import Constants, segment_times
from rephaze.truth.predict import best_prediction, predict_time, predict_variant
from rephaze.truth.records import MeasuredRun
from rephaze.truth.variants import Variant, write_variants
from rephaze.types.truth import LeftOutRow

Vector = NDArray[np.float64]

MEMORY_CONSTANTS = ("eager_kept", "usable_share", "held_bytes")
"""Decide about memory alone: not fitted to times."""
STEP = 0.02
"""Of a logarithm, for derivatives."""
ROBUST = 0.15
"""Errors beyond this count in proportion, not squared: single runs collapse."""
LEAN = 0.003
"""How strongly constants lean to where they start; stronger and weaker were both worse on rows left out."""
LONGEST_STEP = 0.3
"""Of a logarithm, before times are predicted anew."""
SMALL_STEP = 0.03
"""Steps of logarithms below this need no new prediction of the other rows: their derivatives suffice."""
NUM_REFITS = 3
"""Steps of a fit without some rows, at most."""
SWEEP_SHARE = 4
"""Of a sweep every so manieth plan is fitted; all are judged."""


@dataclass(slots=True)
class Fit:
    """Values found, and what is needed to ask what they would be without some rows."""

    values: dict[str, float]
    runs: list[MeasuredRun]
    predicted_s: Vector
    jacobian: Vector
    """Of the logarithms of times by the logarithms of constants, at the values."""
    names: list[str]
    problem: FitProblem

    def left_out(self, key: Callable[[MeasuredRun], str]) -> Vector:
        """Logarithms of the times of every run, from constants fitted without the runs of its key."""
        keys = np.array([key(run) for run in self.runs])
        found = self.predicted_s.copy()
        for name in sorted(set(keys.tolist())):
            out = keys == name
            values = self.without(out)
            found[out] = self.problem.times(values, np.flatnonzero(out))
        return found

    def without(self, out: NDArray[np.bool_]) -> dict[str, float]:
        """The constants of a fit that never sees these rows: damped steps from the common values till they rest.

        Derivatives stay those at the common values; after a step that is not small other rows are predicted anew.
        """
        problem, counts = self.problem, ~out
        values, predicted = dict(self.values), self.predicted_s.copy()
        for _ in range(NUM_REFITS):
            stepped = problem.stepped(values, predicted, self.jacobian, counts)
            moved = max(abs(float(np.log(stepped[name] / values[name]))) for name in self.names)
            values = stepped
            if moved < SMALL_STEP:
                break
            predicted[counts] = problem.times(values, np.flatnonzero(counts))
        return values


class FitProblem:
    """Runs that count, written once."""

    def __init__(self, runs: Sequence[MeasuredRun], constants: dict[str, Constant]) -> None:
        table = OpTable()
        self.runs: list[MeasuredRun] = []
        written: list[list[Variant]] = []
        for run in runs:
            if run.score != "yes" or run.measured_s is None or run.reason:
                continue
            try:
                written.append(write_variants(run, table))
            except LookupError:
                continue
            self.runs.append(run)
        self.ops: OpColumns = table.columns()
        self.constants = {name: one for name, one in constants.items() if name not in MEMORY_CONSTANTS}
        self.start = {name: one.start for name, one in constants.items()}
        # What a run does not state is decided once, by the constants the fit starts from.
        seconds = segment_times(self.ops, self.start)
        self.variants = [
            best_prediction(found, seconds, self.start).variant if len(found) > 1 else found[0]
            for found in written
        ]
        self.measured = np.log([run.measured_s or 1.0 for run in self.runs])
        sizes = Counter(run.source for run in self.runs)
        # A source counts with the root of its rows. Each counting alike, as in the mean that is judged, was worse
        # on rows left out: single rows then decide constants.
        self.weights = np.array([sizes[run.source] ** -0.5 for run in self.runs])

    def times(self, values: Constants, which: NDArray[np.intp]) -> Vector:
        """Logarithms of the predicted times of some rows."""
        seconds = segment_times(self.ops, values)
        return np.log([predict_time(self.variants[at], seconds, values) for at in which])

    def fit(self, num_steps: int, values: Constants) -> Fit:
        """Gauss-Newton on the logarithms of times, with bounds, from these values on."""
        values, everything = dict(values), np.arange(len(self.runs))
        predicted = self.times(values, everything)
        for _ in range(num_steps):
            jacobian = self.jacobian(values, predicted)
            values = self.stepped(values, predicted, jacobian, np.ones(len(self.runs), dtype=bool))
            predicted = self.times(values, everything)
        jacobian = self.jacobian(values, predicted)
        return Fit(
            values=values,
            runs=self.runs,
            predicted_s=predicted,
            jacobian=jacobian,
            names=list(self.constants),
            problem=self,
        )

    def jacobian(self, values: dict[str, float], predicted: Vector) -> Vector:
        """By differences; rows whose operators a constant cannot touch are skipped."""
        found = np.zeros((len(self.runs), len(self.constants)))
        plain = segment_times(self.ops, values)
        for column, name in enumerate(self.constants):
            moved = values | {name: values[name] * float(np.exp(STEP))}
            seconds = segment_times(self.ops, moved)
            for at, variant in enumerate(self.variants):
                segments = variant.segments
                if name not in BATCH_CONSTANTS and np.array_equal(seconds[segments], plain[segments]):
                    continue
                found[at, column] = (np.log(predict_time(variant, seconds, moved)) - predicted[at]) / STEP
        return found

    def stepped(
        self, values: dict[str, float], predicted: Vector, jacobian: Vector, counts: NDArray[np.bool_]
    ) -> dict[str, float]:
        """One step from these values, over the rows that count."""
        names = list(self.constants)
        at = np.log([values[name] for name in names])
        start = np.log([self.constants[name].start for name in names])
        lean = LEAN / np.array([self.constants[name].leaning for name in names]) ** 2
        low = np.log([self.constants[name].low for name in names])
        high = np.log([self.constants[name].high for name in names])
        error = (predicted - self.measured)[counts]
        rows, weights = jacobian[counts], self.weights[counts]
        step = np.zeros(len(names))
        for _ in range(40):
            left = np.abs(error + rows @ step)
            trust = weights * np.where(left < ROBUST, 1.0, ROBUST / np.maximum(left, 1e-9))
            # Constants that would leave their bounds stay there; the others are solved for without them.
            free = np.ones(len(names), dtype=bool)
            step = np.zeros(len(names))
            for _ in range(len(names)):
                matrix = (rows[:, free] * trust[:, None]).T @ rows[:, free] + np.diag(lean[free])
                pull = (rows[:, free] * trust[:, None]).T @ (error + rows[:, ~free] @ step[~free])
                step[free] = np.linalg.solve(matrix, -pull - lean[free] * (at - start)[free])
                lowest, highest = np.maximum(low - at, -LONGEST_STEP), np.minimum(high - at, LONGEST_STEP)
                beyond = free & ((step < lowest) | (step > highest))
                step = np.clip(step, lowest, highest)
                if not beyond.any():
                    break
                free &= ~beyond
        return values | {name: float(np.exp(x)) for name, x in zip(names, at + step, strict=True)}


BATCH_CONSTANTS = (
    "link_rate",
    "network_rate",
    "memory_rate",
    "interference",
    "message_s",
    "batch_s",
    "exposed_share",
)
"""Enter a batch's price beside the layers' times."""


def fitted_rows(runs: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    """The rows a fit uses: of sweeps only some, so that one code base does not outvote others."""
    return [run for run in runs if not run.is_sweep or run.line % SWEEP_SHARE == 0]


def source_errors(fit: Fit, predicted: Vector) -> dict[str, float]:
    """Mean absolute error by source, and over the sources, of predicted logarithms of times."""
    errors: dict[str, list[float]] = {}
    for run, error in zip(fit.runs, np.abs(np.expm1(predicted - fit.problem.measured)), strict=True):
        errors.setdefault(run.source, []).append(float(error))
    means = {source: float(np.mean(found)) for source, found in sorted(errors.items())}
    return means | {"mean over sources": float(np.mean(list(means.values())))}


def left_out_rows(fit: Fit, predicted: Vector) -> tuple[LeftOutRow, ...]:
    """Each fitted row with its error under these predicted logarithms of times."""
    errors = np.expm1(predicted - fit.problem.measured).tolist()
    return tuple(
        LeftOutRow(
            source=run.source,
            model=run.model,
            machine=variant.machine.name,
            is_mixture=run.shape.experts is not None,
            error_share=error,
        )
        for run, variant, error in zip(fit.runs, fit.problem.variants, errors, strict=True)
    )


def fit_memory(runs: Sequence[MeasuredRun], values: Constants) -> dict[str, float]:
    """What an eager code base keeps, and how full a device may be: from sweeps that list failures."""
    table, sweep = OpTable(), [run for run in runs if run.is_sweep and not run.reason]
    found = []
    for run in sweep:
        try:
            found.append((run, write_variants(run, table)[0]))
        except LookupError:
            continue
    if not any(run.status == "oom" for run, _ in found) or not any(run.measured_bytes for run, _ in found):
        return {}
    seconds = segment_times(table.columns(), values)
    kept = {}
    for factor in (1.0, 2.0):
        predicted = [
            predict_variant(variant, seconds, dict(values) | {"eager_kept": factor}) for _, variant in found
        ]
        first = np.array([one.first_device_bytes for one in predicted])
        kept[factor] = first, np.array([one.device_bytes for one in predicted])
    measured = np.array([run.measured_bytes or np.nan for run, _ in found])
    failed = np.array([run.status == "oom" for run, _ in found])
    size = np.array([variant.machine.memory_bytes for _, variant in found])
    best: tuple[float, dict[str, float]] = (np.inf, {})
    for factor in np.arange(1.1, 1.61, 0.01):
        first, fullest = ((2 - factor) * kept[1.0][at] + (factor - 1) * kept[2.0][at] for at in (0, 1))
        error = float(np.nanmedian(np.abs(first / measured - 1)))
        for share in np.arange(0.8, 0.96, 0.005):
            wrong = float(np.mean((fullest > share * size) != failed))
            # A plan wrongly judged weighs as much as an error of twice its share.
            if error + 2 * wrong < best[0]:
                best = error + 2 * wrong, {"eager_kept": float(factor), "usable_share": float(share)}
    return best[1]
