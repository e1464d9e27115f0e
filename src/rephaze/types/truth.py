"""What a validation found: rows, errors by source, rankings of plans, fits or not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidatedRow:
    """One measured run beside its prediction, or the reason there is none."""

    file: str
    position: int
    """Its line in the file."""
    source: str
    model: str
    chip: str
    """As the table calls it."""
    machine: str
    """As we do; empty where there is none."""
    group: str
    is_scored: bool
    """Its time counts."""
    is_mixture: bool
    measured_s: float | None
    predicted_s: float | None
    measured_bytes: float | None
    predicted_bytes: float | None
    """Of the device the table measured where it says which, else of the fullest one."""
    fullest_bytes: float | None
    fits: bool | None
    """The fullest device keeps the margin below its memory."""
    status: str
    """What happened: ok or oom."""
    reason: str
    causes: dict[str, float]
    """Predicted seconds by cause."""
    plan: str

    @property
    def error(self) -> float | None:
        """Predicted over measured, less one."""
        if self.measured_s is None or self.predicted_s is None:
            return None
        return self.predicted_s / self.measured_s - 1

    @property
    def memory_error(self) -> float | None:
        """Predicted over measured memory, less one."""
        if self.measured_bytes is None or self.predicted_bytes is None:
            return None
        return self.predicted_bytes / self.measured_bytes - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorSummary:
    """Of the scored rows of a source, a chip or all: shares, not percent."""

    num_rows: int
    num_modelled: int
    mean_absolute_error: float | None
    median_absolute_error: float | None
    signed_error: float | None
    """Mean; above zero: predicted too slow."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupRanking:
    """Plans of one model on one cluster, ranked by us and as measured."""

    group: str
    num_plans: int
    tau: float
    """Kendall's, over pairs that differ by more than the noise of measuring."""
    regret_share: float
    """How much slower the plan we pick is than the best measured one."""
    regret_of_three_share: float
    """The best of the three we would try first."""
    pick: str
    best: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FitTable:
    """Fits or not: predicted against what happened."""

    num_fit_and_ran: int
    num_fit_but_out_of_memory: int
    num_refused_but_ran: int
    num_refused_and_out_of_memory: int

    @property
    def share_right(self) -> float | None:
        """Of all plans."""
        right = self.num_fit_and_ran + self.num_refused_and_out_of_memory
        total = right + self.num_fit_but_out_of_memory + self.num_refused_but_ran
        return right / total if total else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Validation:
    """Everything one run of ``rephaze validate`` found."""

    constants: str
    """Which were used: calibrated or ideal."""
    rows: tuple[ValidatedRow, ...]
    overall: ErrorSummary
    by_source: dict[str, ErrorSummary]
    by_chip: dict[str, ErrorSummary]
    by_kind: dict[str, ErrorSummary]
    mean_over_sources: float | None
    memory_median: dict[str, float]
    """Median absolute error of memory by source."""
    fit_table: FitTable
    ranking: tuple[GroupRanking, ...]

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "format": "rephaze.validation/1",
            "constants": self.constants,
            "rows": [_row_record(row) for row in self.rows],
            "mape": {
                "overall": _percent(self.overall.mean_absolute_error),
                "mean_over_sources": _percent(self.mean_over_sources),
                "by_source": {name: _percent(one.mean_absolute_error) for name, one in self.by_source.items()},
                "by_chip": {name: _percent(one.mean_absolute_error) for name, one in self.by_chip.items()},
                "by_kind": {name: _percent(one.mean_absolute_error) for name, one in self.by_kind.items()},
            },
            "errors": {
                "overall": asdict(self.overall),
                "by_source": {name: asdict(one) for name, one in self.by_source.items()},
                "by_chip": {name: asdict(one) for name, one in self.by_chip.items()},
            },
            "memory_median": self.memory_median,
            "fits": asdict(self.fit_table) | {"share_right": self.fit_table.share_right},
            "ranking": [_ranking_record(one) for one in self.ranking],
        }


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _ranking_record(one: GroupRanking) -> dict[str, Any]:
    return {name.removesuffix("_share"): value for name, value in asdict(one).items()}


def _row_record(row: ValidatedRow) -> dict[str, Any]:
    record = {name: value for name, value in asdict(row).items() if name not in ("reason", "predicted_s")}
    record["error"] = row.error
    if row.predicted_s is None:
        return record | {"reason": row.reason}
    return record | {"predicted_s": row.predicted_s}


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOutRow:
    """A measured run beside what constants predict that were fitted without the runs of its model."""

    source: str
    model: str
    machine: str
    is_mixture: bool
    error_share: float
    """Predicted over measured time, less one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedError:
    """What measured runs near a plan say about its price."""

    num_rows: int
    family: str
    """Of chips; a searched chip has its template's."""
    sources: tuple[str, ...]
    measured_over_ideal_low_ratio: float
    """Measured time over the price at data-sheet rates: the tenth part of the rows from below."""
    measured_over_ideal_ratio: float
    """The median."""
    measured_over_ideal_high_ratio: float
    """The tenth part from above."""
    measured_over_calibrated_low_ratio: float
    """The same over the price that the calibrated physics of ``rephaze validate`` gives."""
    measured_over_calibrated_ratio: float
    measured_over_calibrated_high_ratio: float
    calibrated_error_share: float
    """Mean absolute error of the calibrated physics on these rows, a share."""
    is_calibrated: bool = False
    """The price beside it is at calibrated rates."""

    def sentence(self) -> str:
        """For a reader."""
        kind, gives = ("ideal", "data-sheet rates give")
        if self.is_calibrated:
            kind, gives = ("calibrated", "calibrated physics gives")
        low, middle, high = (getattr(self, f"measured_over_{kind}{part}_ratio") for part in ("_low", "", "_high"))
        return (
            f"measured runs near this ({self.num_rows}, chips of family {self.family}) took "
            f"{middle:.2f} times what {gives} ({low:.2f} to {high:.2f}); "
            f"calibrated physics is off by {100 * self.calibrated_error_share:.0f} % on them"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Stability:
    """Whether a choice of plan, or of a chip, would stay under the error that predictions have."""

    num_plans: int
    """The chosen one and the best under other choices."""
    num_draws: int
    near_best_share: float
    """Of draws in which the chosen plan is within 2 % of the best."""
    spread_factor: float
    """Standard deviation of the error between plans of one group of measured runs, or between chips, as a natural
    logarithm."""
    chosen: str = "plan"
    """What was chosen: plan or chip."""

    def sentence(self) -> str:
        """For a reader."""
        between = "plans of measured groups" if self.chosen == "plan" else "measured chips"
        return (
            f"under the error between {between} ({100 * self.spread_factor:.0f} %) this {self.chosen} stays "
            f"within 2 % of the best of {self.num_plans} in {100 * self.near_best_share:.0f} % of draws"
        )
