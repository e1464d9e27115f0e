"""Answers in other tools' words: launch settings, traces, the chip, tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rephaze.api.full_plans import FullAnswer
from rephaze.api.launching import launch_of_full, launch_of_simple
from rephaze.api.plan_results import EvaluatedPlan, PlacedModel
from rephaze.errors import SpecError
from rephaze.types.checks import check_choice
from rephaze.types.full import FullGraph, FullPrice, FullProblem
from rephaze.types.launch import ExportTarget, LaunchFile, LaunchPlan
from rephaze.types.placement import PlacementModel

if TYPE_CHECKING:
    from rephaze.launch.traces import Slice
    from rephaze.store.tables import FlatTable
    from rephaze.types.chip import Chip
    from rephaze.types.scenario import Scenario
    from rephaze.types.schedule import PassSchedule

MOST_SLICES = 200_000
"""Of a trace of a pipeline; of a longer batch fewer microbatches are replayed."""
_PARTS_A_PASS = 2.5
"""Slices of a pass, about: messages, computing, gradients."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """What is written, and what it does not say."""

    target: ExportTarget
    text: str = ""
    """Of a text file."""
    table: FlatTable | None = None
    """Of a file of rows, to be read once."""
    notes: tuple[str, ...] = ()

    def write(self, out: str | Path) -> None:
        """Write the file, whole or not at all."""
        from rephaze.store.export import FileFormat, write_table, write_text

        if self.table is not None:
            write_table(self.table, Path(out), FileFormat(str(self.target)), {})
        else:
            write_text(self.text, Path(out))


def export_plan(
    answer: PlacedModel | FullAnswer | EvaluatedPlan, to: str, out: str | Path | None = None
) -> Exported:
    """The plan of an answer as settings of a framework, as a trace, a table, or its chip as an architecture file.

    Example:
        >>> import rephaze
        >>> placed = rephaze.place_model("vit-large", "tpuv4", num_devices=8, global_batch=64)
        >>> print(rephaze.export_plan(placed, "torchtitan").text.partition("[parallelism]")[2].splitlines()[2])
        data_parallel_shard_degree = 8

    Args:
        answer: Of ``place_model`` or ``evaluate_plan``.
        to: ``megatron``, ``torchtitan``, ``deepspeed``, ``maxtext`` or ``nemo`` (settings), ``perfetto`` or
            ``chrome-trace``, ``timeloop`` or
            ``accelforge`` (the chip, if a model was placed on one), ``csv``, ``parquet`` (a row a
            stage), ``json``.
        out: File to write; None: only give what would be written.
    """
    check_choice("to", to, [str(one) for one in ExportTarget])
    target = ExportTarget(to)
    if target is ExportTarget.JSON:
        found = Exported(target=target, text=json.dumps(answer.record(), allow_nan=False) + "\n")
    elif answer.plan is None:
        raise SpecError("to", to, "needs a plan, and there is none", "see the answer for what is in the way")
    elif target.is_framework:
        found = launch_export(target, _launch_of(answer))
    elif target.is_trace:
        found = _traced(target, answer)
    elif target.is_chip:
        found = _chip_of(target, answer)
    else:
        found = Exported(target=target, table=_stage_table(answer))
    if out is not None:
        found.write(out)
    elif found.table is not None and target is ExportTarget.CSV:
        found = replace(found, text=_csv_text(found.table), table=None)
    return found


def launch_export(target: ExportTarget, launch: LaunchPlan) -> Exported:
    """Settings of a framework."""
    from rephaze.launch.frameworks import FRAMEWORKS

    return from_file(target, FRAMEWORKS[target].write(launch))


def from_file(target: ExportTarget, file: LaunchFile) -> Exported:
    """A file and what it leaves out."""
    return Exported(target=target, text=file.text, notes=tuple(note.text for note in file.unsaid))


def trace_export(target: ExportTarget, slices: Iterator[Slice], notes: tuple[str, ...]) -> Exported:
    """A trace."""
    from rephaze.launch.traces import trace_text

    text = trace_text(slices, {"made_by": "rephaze", "notes": list(notes)})
    return Exported(target=target, text=text, notes=notes)


def pipeline_slices(
    label: str, problem: FullProblem, graph: FullGraph, price: FullPrice
) -> tuple[Iterator[Slice], tuple[str, ...]]:
    """What every device of a pipeline does when, and what to know of it."""
    from rephaze.place.full.timeline import replay_events

    problem, price, notes = _shortened(problem, graph, price)
    events = replay_events(problem, graph, price)
    return (
        _slice(label, event.device, str(event.kind), event.microbatch, event.chunk, event.start_s, event.end_s)
        for event in events
    ), notes


def schedule_trace(schedules: list[PassSchedule]) -> Iterator[Slice]:
    """The chip's cores during the passes of a layer."""
    from rephaze.launch.chip_trace import schedule_slices

    for one in schedules:
        yield from schedule_slices(one)


def _launch_of(answer: PlacedModel | FullAnswer | EvaluatedPlan) -> LaunchPlan:
    if isinstance(answer, FullAnswer):
        assert answer.graph is not None
        assert answer.plan is not None
        return launch_of_full(answer.label, answer.problem, answer.graph, answer.plan, _seq_len(answer))
    assert answer.plan is not None
    label = answer.label if isinstance(answer, PlacedModel) else "plan"
    return launch_of_simple(label, answer.problem, answer.plan, _seq_len(answer))


def _seq_len(answer: PlacedModel | FullAnswer | EvaluatedPlan) -> int | None:
    source = None if isinstance(answer, EvaluatedPlan) else answer.source
    if source is None:
        return None
    from rephaze.workload.zoo import load_model

    return load_model(source.model).seq_len


def _traced(target: ExportTarget, answer: PlacedModel | FullAnswer | EvaluatedPlan) -> Exported:
    slices: list[Slice] = []
    notes: tuple[str, ...] = ()
    if isinstance(answer, FullAnswer):
        assert answer.graph is not None
        assert answer.price is not None
        found, notes = pipeline_slices(answer.label, answer.problem, answer.graph, answer.price)
        slices += found
    else:
        slices += _simple_slices(answer)
    source = None if isinstance(answer, EvaluatedPlan) else answer.source
    if source is None:
        notes += ("no chip is given: the trace has the pipeline alone",)
    elif isinstance(answer, FullAnswer):
        from rephaze.hardware.derating import chip_at
        from rephaze.measure.plan_schedules import plan_schedules

        assert answer.plan is not None
        schedules = plan_schedules(
            source.model, source.scenario, chip_at(source.chip, source.scenario), answer.plan
        )
        slices += schedule_trace(schedules)
    else:
        notes += (f"no schedule of the chip: needs cost model full, not {answer.problem.cost_model}",)
    return trace_export(target, iter(slices), notes)


def _simple_slices(answer: PlacedModel | EvaluatedPlan) -> Iterator[Slice]:
    from rephaze.place.simulate import replay_plan

    problem, plan = answer.problem, answer.plan
    assert plan is not None
    if problem.cost_model is PlacementModel.PAPER:
        raise SpecError(
            "to", "perfetto", "needs a schedule, which cost model paper has none of", "use 1f1b or full"
        )
    if answer.replay_s is None:
        raise SpecError("to", "perfetto", "the batch is too long to be traced", "give fewer microbatches")
    label = answer.label if isinstance(answer, PlacedModel) else "plan"
    for event in replay_plan(problem, plan).events:
        yield _slice(
            label, event.stage, str(event.activity), event.microbatch, event.stage, event.start_s, event.end_s
        )


def _slice(label: str, device: int, kind: str, microbatch: int, chunk: int, start_s: float, end_s: float) -> Slice:
    from rephaze.launch.traces import Slice

    return Slice(
        process=f"pipeline of {label}",
        track=f"device {device:02d}",
        name=kind if microbatch < 0 else f"{kind} {microbatch}",
        category=kind,
        start_s=start_s,
        end_s=end_s,
        facts={} if microbatch < 0 else {"microbatch": microbatch, "stage": chunk},
    )


def _shortened(
    problem: FullProblem, graph: FullGraph, price: FullPrice
) -> tuple[FullProblem, FullPrice, tuple[str, ...]]:
    """The problem with no more microbatches than a trace can show."""
    from rephaze.place.full.price import price_full_plan

    plan = price.plan
    count = -(-problem.num_microbatches(graph) // plan.dp)
    most = int(MOST_SLICES / _PARTS_A_PASS / (3 * len(plan.stages)))
    # Interleaved devices take turns pp microbatches at a time.
    most = max(2 * plan.pp, most // plan.pp * plan.pp)
    if count <= most:
        return problem, price, ()
    shorter = replace(problem, global_batch=most * plan.dp * plan.microbatch)
    note = f"the trace has {most:,} of the {count:,} microbatches of a replica"
    return shorter, price_full_plan(shorter, graph, plan), (note,)


def chip_export(target: ExportTarget, chip: Chip, scenario: Scenario) -> Exported:
    """A chip for another tool; areas and energies, where it takes them, as the scenario's area model has them."""
    from rephaze.launch import accelforge, timeloop

    if target is ExportTarget.TIMELOOP:
        return from_file(target, timeloop.write_architecture(chip))
    from rephaze.hardware.area import chip_items
    from rephaze.hardware.energy import access_energy
    from rephaze.types.chip import chip_table

    model = scenario.space.area_model
    items, energy = chip_items(chip, model), access_energy(chip_table([chip]), model)
    return from_file(target, accelforge.write_architecture(items, energy))


def _chip_of(target: ExportTarget, answer: PlacedModel | FullAnswer | EvaluatedPlan) -> Exported:
    source = None if isinstance(answer, EvaluatedPlan) else answer.source
    if source is None:
        raise SpecError("to", str(target), "needs a chip", "place a model with --chip")
    return chip_export(target, source.chip, source.scenario)


def _stage_table(answer: PlacedModel | FullAnswer | EvaluatedPlan) -> FlatTable:
    """A row for each stage or chunk."""
    from rephaze.store.tables import Column, FlatTable

    record = answer.record()
    memory_of = record.get("devices")
    pp = len(memory_of) if memory_of else len(record["stages"])
    rows: list[dict[str, Any]] = []
    for at, stage in enumerate(record["stages"]):
        # Answers of format 1 tell a stage's layers with its costs.
        planned = record["plan"]["stages"][at] if "plan" in record else {"layers": stage["layers"]}
        row: dict[str, Any] = {"stage": at, "device": at % pp, "num_layers": len(planned["layers"])}
        row |= (
            {"first_layer": planned["layers"][0], "last_layer": planned["layers"][-1]} if planned["layers"] else {}
        )
        row |= {key: value for key, value in planned.items() if key != "layers"}
        row |= {key: value for key, value in stage.items() if isinstance(value, bool | int | float | str)}
        if memory_of:
            row |= {_with_unit(name): value for name, value in memory_of[at % pp].items()}
        rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = tuple(Column(name=name, kind=_kind([row.get(name) for row in rows])) for name in names)
    return FlatTable(columns=columns, rows=iter([tuple(row.get(name) for name in names) for row in rows]))


def _with_unit(name: str) -> str:
    return name if name.endswith("_bytes") else f"{name}_bytes"


def _kind(values: list[Any]) -> type:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and float in kinds:
        return float
    found = next(iter(kinds), str)
    return str if issubclass(found, str) else found


def _csv_text(table: FlatTable) -> str:
    import csv
    import io

    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(column.name for column in table.columns)
    writer.writerows(table.rows)
    return file.getvalue()
