"""Scenarios and design spaces from data files: the two that ship, or a user's TOML of the same form."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from rephaze.errors import SpecError
from rephaze.hardware.area import chip_area
from rephaze.hardware.constraints import parse_constraint
from rephaze.hardware.derating import calibrated_scenario
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.ranges import Range, Strict, Values
from rephaze.hardware.sourced_data import data_file
from rephaze.hardware.template import build_chips, load_template
from rephaze.types.checks import check_choice, check_count, under
from rephaze.types.chip import ChipTable, chip_table
from rephaze.types.cluster import Cluster, NetworkLevel
from rephaze.types.files import read_mapping, validate
from rephaze.types.full import DeviceOrder, PipelineSchedule, PlanFamily, PlanOptions, ShardGroups, Sharding
from rephaze.types.graph import AttentionKind
from rephaze.types.placement import Optimizer, PlacementModel, PrecisionName, Recompute
from rephaze.types.scenario import EstimateModelName, PhysicsName, Scenario, TrainingSettings
from rephaze.types.schedule import Exclusion
from rephaze.types.space import AreaModel, DesignSpace, Template
from rephaze.units import GIB, MIB


class LimitDesign(Strict):
    """A design whose area is the limit."""

    num_tensor_cores: int = Field(ge=1, le=2**20)
    tensor_width: int = Field(ge=1, le=2**16)
    tensor_depth: int = Field(ge=1, le=2**16)
    num_vector_cores: int = Field(ge=1, le=2**20)
    vector_lanes: int = Field(ge=1, le=2**20)
    global_buffer_mib: int = Field(ge=1, le=2**20)
    num_hbm_stacks: int = Field(ge=1, le=1024)


class SpaceFile(Strict):
    """The ``[space]`` section."""

    template: str = "default"
    area_model: AreaModel = Field(default=AreaModel.CORRECTED, strict=False)
    clock_hz: float | None = None
    hbm: str | None = None
    num_tensor_cores: Values
    tensor_width: Values
    tensor_depth: Values
    num_vector_cores: Values
    vector_lanes: Values | None = None
    global_buffer_mib: Values
    num_hbm_stacks: Values
    hbm_gib_options: list[int] = Field(default_factory=list)
    area_limit_um2: float | None = Field(default=None, gt=0.0, le=1e12)
    area_limit_chip: str | None = None
    area_limit_design: LimitDesign | None = None
    area_floor_fraction: float = Field(default=0.0, ge=0.0, le=1.0)
    power_limit_w: float = Field(default=float("inf"), gt=0.0)
    constraints: list[str] = Field(default_factory=list, max_length=100)

    @model_validator(mode="after")
    def _one_limit(self) -> SpaceFile:
        limits = ("area_limit_um2", "area_limit_chip", "area_limit_design")
        given = [limit for limit in limits if getattr(self, limit) is not None]
        if len(given) != 1:
            rule = "exactly one of area_limit_um2, area_limit_chip and area_limit_design must be given"
            raise SpecError(given[0] if given else limits[0], getattr(self, given[0]) if given else None, rule)
        return self


class LevelFile(Strict):
    """One entry of ``levels``."""

    num_devices: int
    bytes_per_s: float
    latency_s: float = 0.0


class ClusterFile(Strict):
    """The ``[cluster]`` section."""

    num_devices: int
    levels: list[LevelFile]


class TrainingFile(Strict):
    """The ``[training]`` section."""

    global_batch: int = Field(ge=1)
    microbatches: list[int]
    tp_degrees: list[int]
    recompute: list[Annotated[Recompute, Field(strict=False)]]
    optimizer: Optimizer = Field(strict=False)
    precision: PrecisionName = Field(strict=False)
    sequence_parallel: list[bool] = Field(default_factory=lambda: [False])
    cp_degrees: list[int] = Field(default_factory=lambda: [1])
    ep_degrees: list[int] = Field(default_factory=lambda: [1])
    etp_degrees: list[int] | None = None
    imbalance_factor: float = Field(default=1.0, ge=1.0, le=1000.0)


class PlansFile(Strict):
    """The ``[plans]`` section: what plans of cost model ``full`` may choose from."""

    sharding: list[Annotated[Sharding, Field(strict=False)]] = Field(default_factory=lambda: [Sharding.NONE])
    shard_group: list[Annotated[ShardGroups, Field(strict=False)]] = Field(
        default_factory=lambda: [ShardGroups.ALL]
    )
    reshard: list[bool] = Field(default_factory=lambda: [False])
    schedule: list[Annotated[PipelineSchedule, Field(strict=False)]] = Field(
        default_factory=lambda: [PipelineSchedule.ONE_F_ONE_B]
    )
    chunks: list[int] = Field(default_factory=list)
    order: list[Annotated[DeviceOrder, Field(strict=False)]] = Field(
        default_factory=lambda: [DeviceOrder.DP_OUTER]
    )
    overlap: bool = False
    family: PlanFamily = Field(default=PlanFamily.EXACT, strict=False)


class ScenarioFile(Strict):
    """A whole scenario."""

    title: str
    estimate_model: EstimateModelName = Field(strict=False)
    placement_model: PlacementModel = Field(strict=False)
    all_cores_excludes: Exclusion = Field(strict=False)
    attention: AttentionKind = Field(strict=False)
    physics: PhysicsName = Field(default=PhysicsName.IDEAL, strict=False)
    space: SpaceFile
    cluster: ClusterFile
    training: TrainingFile
    plans: PlansFile | None = None


MAX_CHOICES = 64
"""Degrees or microbatch sizes to try."""

SCENARIOS = ("default", "coarse", "paper")


def load_scenario(name_or_path: str) -> Scenario:
    """The scenario of this name, or in a ``.toml`` file."""
    path = Path(name_or_path)
    name = path.stem if path.suffix == ".toml" else name_or_path
    return scenario_from_mapping(scenario_mapping(name_or_path), name=name, source=f"{name}.toml")


def scenario_mapping(name_or_path: str) -> dict[str, Any]:
    """The contents of a scenario, shipped or in a ``.toml`` file, as plain data to change and read."""
    path = Path(name_or_path)
    if path.suffix == ".toml":
        return read_mapping(path)
    check_choice("scenario", name_or_path, SCENARIOS)
    return deepcopy(data_file(f"scenarios/{name_or_path}.toml"))


def scenario_from_mapping(data: dict[str, Any], *, name: str, source: str = "") -> Scenario:
    """The scenario a file's contents describe; every finding names its section and field, after ``source``."""
    found = validate(ScenarioFile, data, source)
    prefix = f"{source}: " if source else ""
    with under(f"{prefix}space."):
        space = _space(found.space)
    with under(f"{prefix}cluster."):
        cluster = cluster_from_file(found.cluster)
    with under(f"{prefix}training."):
        training = _training(found.training)
    scenario = Scenario(
        name=name,
        title=found.title,
        space=space,
        cluster=cluster,
        training=training,
        estimate_model=found.estimate_model,
        placement_model=found.placement_model,
        all_cores_excludes=found.all_cores_excludes,
        attention=found.attention,
        plans=_plans(found),
    )
    if found.physics is PhysicsName.IDEAL:
        return scenario
    with under(prefix):
        return calibrated_scenario(scenario)


def cluster_from_file(found: ClusterFile) -> Cluster:
    """The cluster that a ``[cluster]`` section describes."""
    levels = []
    for position, level in enumerate(found.levels):
        with under(f"levels.{position}."):
            levels.append(NetworkLevel(**level.model_dump()))
    return Cluster(num_devices=found.num_devices, levels=tuple(levels))


def _plans(found: ScenarioFile) -> PlanOptions:
    if found.placement_model is not PlacementModel.FULL:
        if found.plans is not None:
            rule = f"is for placement model full, not {found.placement_model}"
            raise SpecError("plans", "given", rule, 'leave it out, or set placement_model = "full"')
        _only_with_full(found)
        return PlanOptions()
    given = found.plans or PlansFile()
    modes = found.training.recompute
    if Recompute.NONE not in modes or Recompute.STAGE in modes:
        rule = "under placement model full must be none, or none and block: what is kept is chosen in between"
        raise SpecError("training.recompute", [str(mode) for mode in modes], rule)
    for field in ("sharding", "shard_group", "reshard", "schedule", "order"):
        if not getattr(given, field):
            raise SpecError(f"plans.{field}", [], "must list at least one value")
    for value in given.chunks:
        check_count("plans.chunks", value, at_least=2)
    return PlanOptions(
        sharding=tuple(given.sharding),
        shard_group=tuple(given.shard_group),
        reshard=tuple(given.reshard),
        schedule=tuple(given.schedule),
        chunks=tuple(given.chunks),
        order=tuple(given.order),
        overlap=given.overlap,
        family=given.family,
    )


def _only_with_full(found: ScenarioFile) -> None:
    """Raise if a list of the training section has a choice that only cost model ``full`` knows."""
    training = found.training
    plain = {"sequence_parallel": [False], "cp_degrees": [1], "ep_degrees": [1], "etp_degrees": None}
    for field, value in plain.items():
        given = getattr(training, field)
        if given != value:
            rule = f"needs placement model full, not {found.placement_model}"
            raise SpecError(f"training.{field}", given, rule, f"leave {field} out")


def _training(found: TrainingFile) -> TrainingSettings:
    if not found.recompute:
        raise SpecError("recompute", [], f"must list at least one of {', '.join(Recompute)}")
    if not found.sequence_parallel:
        raise SpecError("sequence_parallel", [], "must list at least one of true, false")
    for field in ("microbatches", "tp_degrees", "cp_degrees", "ep_degrees", "etp_degrees"):
        if getattr(found, field) is None:
            continue
        values = getattr(found, field)
        if not values:
            raise SpecError(field, [], "must list at least one value")
        if len(values) > MAX_CHOICES:
            rule = f"lists {len(values):,} values; the most is {MAX_CHOICES}, as all their combinations are tried"
            raise SpecError(field, values, rule)
        if len(set(values)) != len(values):
            raise SpecError(field, values, "lists a value twice")
        for value in values:
            check_count(field, value, at_most=2**20)
    check_count("global_batch", found.global_batch, at_most=2**30)
    return TrainingSettings(
        global_batch=found.global_batch,
        microbatches=tuple(found.microbatches),
        tp_degrees=tuple(found.tp_degrees),
        recompute=tuple(found.recompute),
        optimizer=found.optimizer,
        precision=found.precision,
        sequence_parallel=tuple(found.sequence_parallel),
        cp_degrees=tuple(found.cp_degrees),
        ep_degrees=tuple(found.ep_degrees),
        etp_degrees=None if found.etp_degrees is None else tuple(found.etp_degrees),
        imbalance_factor=found.imbalance_factor,
    )


def _space(found: SpaceFile) -> DesignSpace:
    template = _template(found)
    limit_um2 = found.area_limit_um2
    if limit_um2 is None:
        limit_um2 = float(chip_area(_limit_chip(found, template), found.area_model).total_um2_c[0])
    return DesignSpace(
        num_tensor_cores=_values(found.num_tensor_cores),
        tensor_width=_values(found.tensor_width),
        tensor_depth=_values(found.tensor_depth),
        num_vector_cores=_values(found.num_vector_cores),
        vector_lanes=None if found.vector_lanes is None else _values(found.vector_lanes),
        global_buffer_bytes=tuple(mib * MIB for mib in _values(found.global_buffer_mib)),
        num_hbm_stacks=_values(found.num_hbm_stacks),
        hbm_bytes_options=tuple(gib * GIB for gib in found.hbm_gib_options),
        template=template,
        area_model=found.area_model,
        area_limit_um2=limit_um2,
        area_floor_um2=found.area_floor_fraction * limit_um2,
        power_limit_w=found.power_limit_w,
        constraints=tuple(parse_constraint(text) for text in found.constraints),
    )


def _template(found: SpaceFile) -> Template:
    template = load_template(found.template)
    if found.clock_hz is not None:
        template = replace(template, clock_hz=found.clock_hz)
    if found.hbm is not None:
        generations = data_file("memory.toml")
        check_choice("hbm", found.hbm, generations)
        stack = generations[found.hbm]
        template = replace(
            template, hbm_stack_bytes=stack["stack_bytes"], hbm_stack_bytes_per_s=stack["stack_bytes_per_s"]
        )
    return template


def _limit_chip(found: SpaceFile, template: Template) -> ChipTable:
    if found.area_limit_chip is not None:
        with under("area_limit_chip: "):
            return chip_table([preset_chip(found.area_limit_chip)])
    assert found.area_limit_design is not None
    design = found.area_limit_design

    def column(value: int) -> NDArray[np.int64]:
        return np.array([value], dtype=np.int64)

    return build_chips(
        num_tensor_cores=column(design.num_tensor_cores),
        tensor_width=column(design.tensor_width),
        tensor_depth=column(design.tensor_depth),
        num_vector_cores=column(design.num_vector_cores),
        vector_lanes=column(design.vector_lanes),
        global_buffer_bytes=column(design.global_buffer_mib * MIB),
        num_hbm_stacks=column(design.num_hbm_stacks),
        template=template,
    )


def _values(given: Range | list[int]) -> tuple[int, ...]:
    return given.values() if isinstance(given, Range) else tuple(given)
