"""Predicts every row of tables of measured runs, and says how far off it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, median

from rephaze.place.full.causes import causes_of
from rephaze.truth.op_table import OpTable
from rephaze.truth.physics import Constants, segment_times
from rephaze.truth.placed_run import placed
from rephaze.truth.predict import Prediction, best_prediction
from rephaze.truth.ranking import fit_table, rank_groups
from rephaze.truth.records import MeasuredRun
from rephaze.truth.run_file import read_runs
from rephaze.truth.variants import Variant, write_variants
from rephaze.types.truth import ErrorSummary, ValidatedRow, Validation


def validate_files(paths: Sequence[Path], constants: Constants, name: str) -> Validation:
    """All rows of all tables under these constants."""
    return validate_runs([run for path in paths for run in read_runs(path)], constants, name)


def validate_runs(runs: Sequence[MeasuredRun], constants: Constants, name: str) -> Validation:
    """All of these runs under these constants."""
    table = OpTable()
    prepared = [_prepare(run, table) for run in runs]
    seconds = segment_times(table.columns(), constants)
    rows = []
    for run, found in zip(runs, prepared, strict=True):
        if isinstance(found, str):
            rows.append(_row(run, None, found, {}, constants))
        else:
            prediction = best_prediction(found, seconds, constants)
            problem, graph, _ = placed(prediction.variant, seconds, constants)
            causes = asdict(causes_of(problem, graph, prediction.price))
            rows.append(_row(run, prediction, "", causes, constants))
    return _summed(tuple(rows), name)


def _prepare(run: MeasuredRun, table: OpTable) -> list[Variant] | str:
    if run.reason:
        return run.reason
    try:
        return write_variants(run, table)
    except LookupError as error:
        return str(error.args[0])


def _row(
    run: MeasuredRun, found: Prediction | None, reason: str, causes: dict[str, float], constants: Constants
) -> ValidatedRow:
    fits = None
    if found is not None:
        fits = found.device_bytes <= constants["usable_share"] * found.variant.machine.memory_bytes
    return ValidatedRow(
        file=run.file,
        position=run.line,
        source=run.source,
        model=run.model,
        chip=run.chip,
        machine=found.variant.machine.name if found else "",
        group=run.group,
        is_scored=run.score == "yes" and run.measured_s is not None,
        is_mixture=run.shape.experts is not None,
        measured_s=run.measured_s,
        predicted_s=found.batch_s if found else None,
        measured_bytes=run.measured_bytes,
        predicted_bytes=(found.first_device_bytes if run.is_sweep else found.device_bytes) if found else None,
        fullest_bytes=found.device_bytes if found else None,
        fits=fits,
        status=run.status,
        reason=reason,
        causes=causes,
        plan=_plan_text(found) if found else "",
    )


def _plan_text(found: Prediction) -> str:
    plan = found.variant.plan
    parts = [f"{name} {getattr(plan, name)}" for name in ("dp", "tp", "pp", "cp", "ep") if getattr(plan, name) > 1]
    if found.variant.chunks > 1:
        parts.append(f"chunks {found.variant.chunks}")
    parts += [f"microbatch {plan.microbatch}", f"recompute {plan.recompute}", f"sharding {plan.sharding}"]
    if plan.schedule.startswith("zb"):
        parts.append(plan.schedule)
    return ", ".join(parts)


def _summed(rows: tuple[ValidatedRow, ...], name: str) -> Validation:
    by_source = _grouped(rows, lambda row: row.source)
    errors = [one.mean_absolute_error for one in by_source.values() if one.mean_absolute_error is not None]
    memory: dict[str, list[float]] = {}
    for row in rows:
        if row.memory_error is not None:
            memory.setdefault(row.source, []).append(abs(row.memory_error))
    return Validation(
        constants=name,
        rows=rows,
        overall=_summary(rows),
        by_source=by_source,
        by_chip=_grouped(rows, lambda row: row.machine or row.chip),
        by_kind=_grouped(rows, lambda row: "mixtures" if row.is_mixture else "dense"),
        mean_over_sources=fmean(errors) if errors else None,
        memory_median={source: median(values) for source, values in sorted(memory.items())},
        fit_table=fit_table(rows),
        ranking=rank_groups(rows),
    )


def _grouped(rows: Sequence[ValidatedRow], key: Callable[[ValidatedRow], str]) -> dict[str, ErrorSummary]:
    groups: dict[str, list[ValidatedRow]] = {}
    for row in rows:
        if row.is_scored:
            groups.setdefault(key(row), []).append(row)
    return {name: _summary(groups[name]) for name in sorted(groups)}


def _summary(rows: Sequence[ValidatedRow]) -> ErrorSummary:
    scored = [row for row in rows if row.is_scored]
    errors = [row.error for row in scored if row.error is not None]
    return ErrorSummary(
        num_rows=len(scored),
        num_modelled=len(errors),
        mean_absolute_error=fmean(map(abs, errors)) if errors else None,
        median_absolute_error=median(map(abs, errors)) if errors else None,
        signed_error=fmean(errors) if errors else None,
    )
