"""Writes docs/validation.md from tables of measured runs: ``python benchmarks/validation_docs.py FILE.csv...``.

Refits the constants in use with each model and each source left out, and validates those in use. Every number on
the page comes from here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from rephaze.api.calibrating import Calibration, calibrate
from rephaze.api.validating import validate
from rephaze.hardware.calibration import Constant, load_constants
from rephaze.types.readable import rounded_amount
from rephaze.types.truth import ErrorSummary, GroupRanking, LeftOutRow, ValidatedRow, Validation

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "validation.md"
TEXT = Path(__file__).parent / "data" / "validation_page.md"
SWEEP = "H100 sweep"
MEMORY_ASKED = 0.1


@dataclass(frozen=True, kw_only=True)
class Target:
    """Rows that are judged together."""

    name: str
    most_percent: float
    sources: tuple[str, ...] = ("",)
    """How their sources begin."""
    machines: tuple[str, ...] = ("",)
    only_mixtures: bool = False
    is_median: bool = False

    def has(self, row: ValidatedRow | LeftOutRow) -> bool:
        """Whether a row is one of them."""
        return (
            row.source.startswith(self.sources)
            and row.machine.startswith(self.machines)
            and (row.is_mixture or not self.only_mixtures)
        )


TARGETS = (
    Target(
        name="Megatron-type A100",
        most_percent=6,
        sources=("Megatron-LM SC21", "Korthikanti", "MegaScale"),
        machines=("a100",),
    ),
    Target(name="vTrain multi-node", most_percent=10, sources=("vTrain",)),
    Target(name="MosaicML A100", most_percent=6, sources=("MosaicML",), machines=("a100",)),
    Target(name="MosaicML H100", most_percent=10, sources=("MosaicML",), machines=("h100",)),
    Target(
        name="Megatron-Core, NeMo, DGX Cloud, MLPerf on H100",
        most_percent=10,
        sources=("Megatron-Core", "NeMo", "DGX Cloud", "NVIDIA dgxc", "MLPerf Training"),
        machines=("h100",),
    ),
    Target(name="Blackwell", most_percent=12, machines=("b200", "b300", "gb200", "gb300")),
    Target(name="TPU", most_percent=10, machines=("tpu",)),
    Target(name="mixtures of experts", most_percent=15, only_mixtures=True),
    Target(name="the sweep (median)", most_percent=10, sources=(SWEEP,), is_median=True),
)


def main(paths: Sequence[Path]) -> None:
    """Write the page."""
    found, bare = validate(paths), validate(paths, physics="ideal")
    fit = calibrate(paths, num_steps=0)
    text = TEXT.read_text("utf-8")
    for name, part in {
        "summary": _summary(found, bare, fit),
        "targets": _targets(found, fit),
        "sources": _sources(found, bare, fit),
        "chips": _chips(found),
        "ranking": _ranking(found),
        "memory": _memory(found),
        "worst": _worst(found),
        "unmodelled": _unmodelled(found),
        "constants": _constants(),
    }.items():
        text = text.replace("{" + name + "}", part)
    PAGE.write_text(text, "utf-8")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _summary(found: Validation, bare: Validation, fit: Calibration) -> str:
    one = found.overall
    return (
        f"{one.num_rows} scored rows, {one.num_modelled} modelled. Mean absolute error of the step time: "
        f"{_percent(one.mean_absolute_error)} % over rows, {_percent(one.median_absolute_error)} % in the median, "
        f"{_percent(found.mean_over_sources)} % over sources; with each row's model left out of the fit "
        f"{_percent(fit.model_left_out['mean over sources'])} % over sources, with its source left out "
        f"{_percent(fit.source_left_out['mean over sources'])} %. Machines that reach their data sheets would be "
        f"{_percent(bare.overall.mean_absolute_error)} % off. Mixtures: "
        f"{_percent(found.by_kind['mixtures'].mean_absolute_error)} %."
    )


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _targets(found: Validation, fit: Calibration) -> str:
    heads = ("rows", "number", "asked at most %", "in use %", "model left out %", "the same, mean of sources %")
    lines = [_row(*heads), _row(*["---"] * len(heads))]
    for target in TARGETS:
        own = [row for row in found.rows if row.is_scored and row.error is not None and target.has(row)]
        left = [row for row in fit.rows if target.has(row)]
        middle = median if target.is_median else fmean
        by_source: dict[str, list[float]] = {}
        for row in left:
            by_source.setdefault(row.source, []).append(abs(row.error_share))
        figures = (
            middle(abs(row.error or 0.0) for row in own),
            middle(abs(row.error_share) for row in left),
            fmean(middle(errors) for errors in by_source.values()),
        )
        lines.append(_row(target.name, str(len(own)), f"{target.most_percent:.0f}", *map(_percent, figures)))
    means = (fit.in_sample, fit.model_left_out)
    cells = [_percent(one["mean over sources"]) for one in means]
    lines.append(_row("all, mean over sources", str(found.overall.num_modelled), "9", *cells, cells[-1]))
    return "\n".join(lines)


def _sources(found: Validation, bare: Validation, fit: Calibration) -> str:
    heads = (
        "source",
        "rows",
        "modelled",
        "mean",
        "median",
        "signed",
        "model left out",
        "source left out",
        "data sheet",
    )
    lines = [_row(*heads), _row(*["---"] * len(heads))]
    for source, one in found.by_source.items():
        left = (fit.model_left_out.get(source), fit.source_left_out.get(source))
        ideal = bare.by_source[source].mean_absolute_error
        lines.append(_row(source, *_cells(one), *map(_percent, left), _percent(ideal)))
    return "\n".join(lines)


def _cells(one: ErrorSummary) -> list[str]:
    shares = (one.mean_absolute_error, one.median_absolute_error, one.signed_error)
    return [str(one.num_rows), str(one.num_modelled), *map(_percent, shares)]


def _chips(found: Validation) -> str:
    lines = [_row("chip", "rows", "modelled", "mean", "median", "signed"), _row(*["---"] * 6)]
    lines += [_row(chip, *_cells(one)) for chip, one in found.by_chip.items() if one.num_modelled]
    return "\n".join(lines)


def _ranking(found: Validation) -> str:
    sweep = [one for one in found.ranking if one.group.startswith("sweep")]
    others = [one for one in found.ranking if not one.group.startswith("sweep")]
    lines = []
    for name, groups in (("The sweep", sweep), ("Other groups", others)):
        if groups:
            lines.append(_ranking_line(name, groups) + "\n")
    lines += [_row("group", "plans", "tau", "regret %", "best of three %"), _row(*["---"] * 5)]
    for one in found.ranking:
        lines.append(
            _row(
                one.group,
                str(one.num_plans),
                f"{one.tau:.2f}",
                _percent(one.regret_share),
                _percent(one.regret_of_three_share),
            )
        )
    return "\n".join(lines)


def _ranking_line(name: str, groups: list[GroupRanking]) -> str:
    regrets = [one.regret_share for one in groups]
    three = [one.regret_of_three_share for one in groups]
    return (
        f"{name}, {len(groups)} groups: tau {median(one.tau for one in groups):.2f} in the median; the plan we "
        f"would pick is {_percent(median(regrets))} % slower than the best measured one in the median, "
        f"{_percent(fmean(regrets))} % in the mean; the best of our first three {_percent(fmean(three))} % in the "
        "mean."
    )


def _memory(found: Validation) -> str:
    table = found.fit_table
    lines = [
        f"Fits or not: {_percent(table.share_right)} % right of all plans of tables that list failures. Of those "
        f"that we thought to fit {table.num_fit_and_ran} ran and {table.num_fit_but_out_of_memory} ran out of "
        f"memory; of those we refused {table.num_refused_but_ran} ran and {table.num_refused_and_out_of_memory} "
        "failed.\n",
        _row("source", "rows", "median error of memory %", "within 10 %", "signed %"),
        _row(*["---"] * 5),
    ]
    for source, error in found.memory_median.items():
        errors = [row.memory_error for row in found.rows if row.source == source and row.memory_error is not None]
        within = sum(abs(one) <= MEMORY_ASKED for one in errors)
        lines.append(_row(source, str(len(errors)), _percent(error), str(within), _percent(fmean(errors))))
    return "\n".join(lines)


def _worst(found: Validation) -> str:
    rows = [
        row for row in found.rows if row.is_scored and row.error is not None and not row.source.startswith(SWEEP)
    ]
    lines = [_row("error %", "measured s", "source", "model", "chip", "plan"), _row(*["---"] * 6)]
    lines += [_worst_line(row) for row in sorted(rows, key=lambda row: -abs(row.error or 0.0))[:25]]
    return "\n".join(lines)


def _worst_line(row: ValidatedRow) -> str:
    return _row(_percent(row.error), f"{row.measured_s:.3g}", row.source, row.model, row.machine, row.plan)


def _unmodelled(found: Validation) -> str:
    reasons: dict[tuple[str, str], int] = {}
    for row in found.rows:
        if row.reason:
            reasons[row.source, row.reason] = reasons.get((row.source, row.reason), 0) + 1
    return "\n".join(f"- {source}, {count} rows: {reason}" for (source, reason), count in sorted(reasons.items()))


def _constants() -> str:
    lines = [_row("constant", "value", "bounds", "unit", "meaning"), _row(*["---"] * 5)]
    lines += [_constant_line(one) for one in load_constants().values()]
    return "\n".join(lines)


def _constant_line(one: Constant) -> str:
    bounds = f"{rounded_amount(one.low, 3)} to {rounded_amount(one.high, 3)}"
    return _row(f"`{one.name}`", rounded_amount(one.value, 3), bounds, one.unit, one.meaning)


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
