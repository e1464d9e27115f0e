"""A run as flat tables of named, typed columns, for export."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from types import NoneType
from typing import Any, get_args, get_type_hints

from rephaze.store.reader import CHIP_FIELDS, RunReader
from rephaze.types.boxes import ClosedBox, OpenBox
from rephaze.types.grid_order import value_runs
from rephaze.types.run_record import NOT_REMOVED, Incumbent
from rephaze.types.search import Evaluation, ModelPlan, Objective, StagePlan
from rephaze.types.space import FIELDS
from rephaze.types.system import ListedSystem

_OBJECTIVE_UNITS = {
    Objective.THROUGHPUT: "samples_per_s",
    Objective.PER_AREA: "samples_per_s_per_mm2",
    Objective.PER_WATT: "samples_per_j",
    Objective.PER_USD: "samples_per_s_per_usd",
}


class TableName(StrEnum):
    """The tables a run can be exported as."""

    EVALUATIONS = "evaluations"
    """A row for each design that was solved, or dropped while being solved, with its chip."""
    PLANS = "plans"
    """A row for each model of each solved design."""
    STAGES = "stages"
    """A row for each pipeline stage of each plan."""
    BOUNDS = "bounds"
    """A row for each bound: by model (blank: the objective over all) and design."""
    DESIGNS = "designs"
    """A row for each chip of the space; of a search by boxes, for each that was looked at."""
    BOXES = "boxes"
    """A row for each box of a search by boxes: its ranges, what closed it, and at which bound."""
    SYSTEMS = "systems"
    """A row for each system of a search that chooses one."""
    INCUMBENTS = "incumbents"
    """How answer and bound moved during the search."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column: its name, with unit, and what its cells are; any cell may be ``None``."""

    name: str
    kind: type
    """``bool``, ``int``, ``float`` or ``str``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FlatTable:
    """Columns, and rows to be read once."""

    columns: tuple[Column, ...]
    rows: Iterator[tuple[Any, ...]]


def flat_table(run: RunReader, name: TableName) -> FlatTable:
    """One table of the run; rows by design, and so the same for equal runs."""
    return _MAKERS[name](run)


def _evaluations(run: RunReader) -> FlatTable:
    chip_columns, chip_rows = _chips(run)
    design, *others = _scalar_columns(Evaluation)
    unknown = (None,) * len(chip_columns)
    rows = (
        (
            found.design,
            *chip_rows.get(found.design, unknown),
            *_cells(found, others),
        )
        for found in run.evaluations()
    )
    return FlatTable(columns=(design, *chip_columns, *_with_unit(others, run)), rows=rows)


def _plans(run: RunReader) -> FlatTable:
    plan_columns = _scalar_columns(ModelPlan)
    rows = ((found.design, *_cells(plan, plan_columns)) for found in run.evaluations() for plan in found.plans)
    return FlatTable(columns=(Column(name="design", kind=int), *plan_columns), rows=rows)


def _stages(run: RunReader) -> FlatTable:
    stage_columns = _scalar_columns(StagePlan)
    rows = (
        (found.design, plan.model, position, *_cells(stage, stage_columns))
        for found in run.evaluations()
        for plan in found.plans
        for position, stage in enumerate(plan.stages)
    )
    key = (
        Column(name="design", kind=int),
        Column(name="model", kind=str),
        Column(name="stage", kind=int),
    )
    return FlatTable(columns=(*key, *stage_columns), rows=rows)


def _bounds(run: RunReader) -> FlatTable:
    columns = (
        Column(name="model", kind=str),
        Column(name="design", kind=int),
        Column(name=f"bound_{_objective_unit(run)}", kind=float),
        Column(name="removed_by", kind=str),
    )

    def rows() -> Iterator[tuple[Any, ...]]:
        for model in run.bounded_models():
            table = run.bounds(model)
            names = dict(enumerate(table.names)) | {NOT_REMOVED: None}
            removed_by = [names[position] for position in table.removed_by_c.tolist()]
            for row in zip(table.design_c.tolist(), table.bound_c.tolist(), removed_by, strict=True):
                yield (model, *row)

    return FlatTable(columns=columns, rows=rows())


def _designs(run: RunReader) -> FlatTable:
    columns, chip_rows = _chips(run)
    rows = ((design, *row) for design, row in chip_rows.items())
    return FlatTable(columns=(Column(name="design", kind=int), *columns), rows=rows)


def _boxes(run: RunReader) -> FlatTable:
    settings = run.info().settings
    space = settings.scenario.space
    # Lanes that follow from the width of an array have no range of their own.
    fields_from = 1 if settings.has_systems else 0
    varied = [(f, name) for f, name in enumerate(FIELDS, fields_from) if getattr(space, name) is not None]
    values = {name: [value for part in value_runs(space, name) for value in part] for _, name in varied}
    ends = [Column(name=f"{end}_{name}", kind=int) for _, name in varied for end in ("least", "most")]
    columns = (
        *([Column(name="system", kind=int)] if settings.has_systems else []),
        *ends,
        Column(name="num_points", kind=int),
        Column(name=f"bound_{_objective_unit(run)}", kind=float),
        Column(name="closed_by", kind=str),
    )

    def row(box: ClosedBox | OpenBox, bound: float, closed_by: str | None) -> tuple[Any, ...]:
        ranges = (values[name][at] for f, name in varied for at in (box.first[f], box.last[f]))
        return (*box.first[:fields_from], *ranges, box.num_points, bound, closed_by)

    def rows() -> Iterator[tuple[Any, ...]]:
        yield from (row(box, box.bound, box.closed_by) for box in run.closed_boxes())
        yield from (row(box, box.upper, None) for box in run.open_boxes())

    return FlatTable(columns=columns, rows=rows())


def _systems(run: RunReader) -> FlatTable:
    columns = _scalar_columns(ListedSystem)
    rows = ((number, *_cells(one, columns)) for number, one in enumerate(run.systems()))
    return FlatTable(columns=(Column(name="system", kind=int), *columns), rows=rows)


def _incumbents(run: RunReader) -> FlatTable:
    columns = _scalar_columns(Incumbent)
    return FlatTable(columns=_with_unit(columns, run), rows=(_cells(step, columns) for step in run.incumbents()))


_MAKERS: dict[TableName, Callable[[RunReader], FlatTable]] = {
    TableName.EVALUATIONS: _evaluations,
    TableName.PLANS: _plans,
    TableName.STAGES: _stages,
    TableName.BOUNDS: _bounds,
    TableName.DESIGNS: _designs,
    TableName.BOXES: _boxes,
    TableName.SYSTEMS: _systems,
    TableName.INCUMBENTS: _incumbents,
}


def _chips(run: RunReader) -> tuple[tuple[Column, ...], dict[int, tuple[Any, ...]]]:
    """The chips' columns and, by design, their cells; no rows if the space was not recorded."""
    stored = run.designs()
    if stored is None:
        names = [(name, float if name.endswith(("_per_s", "_hz", "_per_cycle")) else int) for name in CHIP_FIELDS]
        return tuple(Column(name=name, kind=kind) for name, kind in (*names, ("area_um2", float))), {}
    chips, area_um2_c = stored
    arrays = {name: getattr(chips, name) for name in CHIP_FIELDS} | {"area_um2": area_um2_c}
    columns = tuple(
        Column(name=name, kind=float if array.dtype.kind == "f" else int) for name, array in arrays.items()
    )
    rows = zip(*(array.tolist() for array in arrays.values()), strict=True)
    return columns, dict(zip(run.design_numbers(), rows, strict=True))


def _objective_unit(run: RunReader) -> str:
    return _OBJECTIVE_UNITS[run.info().settings.objective]


def _with_unit(columns: Sequence[Column], run: RunReader) -> tuple[Column, ...]:
    """The columns, with those measured by the run's objective named by its unit."""
    unit = _objective_unit(run)
    return tuple(
        Column(name=f"{column.name}_{unit}", kind=column.kind) if column.name in ("objective", "bound") else column
        for column in columns
    )


def _scalar_columns(record: type) -> tuple[Column, ...]:
    """The fields of a record that fit one cell each."""
    hints = get_type_hints(record)
    columns = []
    for field in fields(record):
        kinds = [kind for kind in get_args(hints[field.name]) or (hints[field.name],) if kind is not NoneType]
        if kinds[0] in (bool, int, float, str) and len(kinds) == 1:
            columns.append(Column(name=field.name, kind=kinds[0]))
    return tuple(columns)


def _cells(record: Any, columns: Sequence[Column]) -> tuple[Any, ...]:
    return tuple(getattr(record, column.name) for column in columns)
