"""From names, a run file and options to fully resolved search settings.

A run file is TOML: ``scenario`` names what to start from, the sections ``[space]``, ``[cluster]`` and
``[training]`` change single fields of it, ``[search]`` says what to look for, ``[system]`` and ``[budget]`` which
systems there are and what they must keep to.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from rephaze.errors import SpecError
from rephaze.hardware.chip_counts import check_systems, chip_counts
from rephaze.hardware.scenarios import ClusterFile, cluster_from_file, scenario_from_mapping, scenario_mapping
from rephaze.hardware.system_file import read_system
from rephaze.measure.objective import check_weights
from rephaze.types.checks import check_count, did_you_mean, under
from rephaze.types.cluster import resized_cluster
from rephaze.types.files import read_mapping, validate
from rephaze.types.scenario import PhysicsName, Scenario
from rephaze.types.search import Aggregate, Objective, SearchMethod, SearchSettings
from rephaze.types.system import ClusterBudget, SystemSpace

SCENARIO_SECTIONS = ("space", "cluster", "training", "plans")
SYSTEM_SECTIONS = ("system", "budget")
SCENARIO_FIELDS = ("title", "estimate_model", "placement_model", "all_cores_excludes", "attention", "physics")
AREA_LIMITS = ("area_limit_um2", "area_limit_chip", "area_limit_design")


class SearchSection(BaseModel):
    """The ``[search]`` section of a run file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    models: list[str] = Field(default_factory=list)
    weights: list[float] | None = None
    # Not strict: a file writes an enum as text.
    objective: Objective = Field(default=Objective.THROUGHPUT, strict=False)
    aggregate: Aggregate = Field(default=Aggregate.GEOMEAN, strict=False)
    seed: int = Field(default=0, ge=0)
    exhaustive: bool = False
    method: SearchMethod = Field(default=SearchMethod.AUTO, strict=False)


@dataclass(frozen=True, slots=True)
class _Layer:
    """Fields from one place, laid over those of the places before it."""

    source: str
    """Shown before a field that is wrong here."""
    fields: dict[str, Any]

    def section(self, name: str) -> dict[str, Any]:
        """The fields of one section, none if it is not there."""
        found: dict[str, Any] = self.fields.get(name, {})
        return found

    def gives(self, steps: list[str]) -> bool:
        """Whether a field outside the sections, or a section and a field of it, are given here."""
        if len(steps) > 1:
            return steps[1] in self.section(steps[0])
        return steps[0] in self.fields

    def check_names(self, known: tuple[str, ...]) -> None:
        """Raise unless every field and section is a known one."""
        for field, value in self.fields.items():
            if field not in known:
                rule = f"is not a known field; known are {', '.join(known)}"
                raise SpecError(f"{self.source}: {field}", value, rule, did_you_mean(field, known))

    def check_sections(self) -> None:
        """Raise unless every section that is given has fields."""
        for section in ("search", *SCENARIO_SECTIONS, *SYSTEM_SECTIONS):
            if not isinstance(self.section(section), dict):
                rule = "must be a section with fields of its own"
                raise SpecError(f"{self.source}: {section}", self.fields[section], rule)


def resolve_settings(
    models: tuple[str, ...] = (),
    *,
    config: Path | None = None,
    scenario: str | None = None,
    changes: dict[str, Any] | None = None,
) -> SearchSettings:
    """Everything a search depends on, checked; what is wrong is named with the place it was given in.

    Args:
        models: Zoo names or graph files; replace the run file's.
        config: A run file.
        scenario: What to start from; replaces the run file's ``scenario``.
        changes: Single fields by section (``space``, ``cluster``, ``training``, ``search``, ``system``,
            ``budget``), applied last;
            fields of the scenario outside its sections by name.
    """
    run_file = _Layer(config.name, read_mapping(config)) if config else _Layer("options", {})
    options = _Layer("options", changes or {})
    changeable = ("search", *SCENARIO_SECTIONS, *SYSTEM_SECTIONS, *SCENARIO_FIELDS)
    run_file.check_names(("scenario", *changeable))
    options.check_names(changeable)
    base = _base_name(run_file) if scenario is None else scenario
    layers = (_Layer(f"{Path(base).stem}.toml", scenario_mapping(base)), run_file, options)
    layers[0].check_names((*SCENARIO_SECTIONS, *SCENARIO_FIELDS))
    for layer in layers:
        layer.check_sections()
    asked = _search_section(models, layers[1:])
    resolved = _scenario(Path(base).stem, layers)
    systems, budget = _systems(resolved, layers[1:])
    _check_physics(resolved, asked, layers[1:])
    settings = SearchSettings(
        models=tuple(asked.models),
        weights=tuple(asked.weights if asked.weights is not None else [1.0] * len(asked.models)),
        scenario=resolved,
        objective=asked.objective,
        aggregate=asked.aggregate,
        seed=asked.seed,
        exhaustive=asked.exhaustive,
        method=asked.method,
        systems=systems,
        budget=budget,
    )
    check_weights(settings)
    return settings


def _check_physics(scenario: Scenario, asked: SearchSection, layers: tuple[_Layer, ...]) -> None:
    """Raise if power or money, which follow the clock a chip really has, are asked of a reduced one."""
    if scenario.physics is PhysicsName.IDEAL:
        return
    for section in SYSTEM_SECTIONS:
        if any(layer.section(section) for layer in layers):
            rule = f"reduces clocks, from which the power and the bill of section {section} follow"
            raise SpecError("physics", str(scenario.physics), rule, f"leave section {section} out")
    if asked.objective not in (Objective.THROUGHPUT, Objective.PER_AREA):
        rule = f"reduces clocks, from which objective {asked.objective} follows"
        raise SpecError("physics", str(scenario.physics), rule, "choose objective throughput or per-area")


def _base_name(run_file: _Layer) -> str:
    name = run_file.fields.get("scenario", "default")
    if not isinstance(name, str):
        raise SpecError(f"{run_file.source}: scenario", name, "must name a scenario or a scenario file (.toml)")
    return name


def _search_section(models: tuple[str, ...], layers: tuple[_Layer, ...]) -> SearchSection:
    wanted: dict[str, Any] = {}
    for layer in layers:
        wanted |= layer.section("search")
    if models:
        wanted["models"] = list(models)
    try:
        with under("search."):
            asked = validate(SearchSection, wanted)
    except SpecError as error:
        raise _with_source(error, layers) from None
    if not asked.models:
        raise SpecError("models", [], "name at least one model", "rephaze models lists them")
    if len(set(asked.models)) != len(asked.models):
        raise SpecError("models", asked.models, "names a model twice")
    return asked


def _scenario(name: str, layers: tuple[_Layer, ...]) -> Scenario:
    """The scenario of the first layer with the changes of the others."""
    data = dict(layers[0].fields)
    try:
        for layer in layers[1:]:
            data |= {field: layer.fields[field] for field in SCENARIO_FIELDS if field in layer.fields}
            for section in SCENARIO_SECTIONS:
                if section in layer.fields:
                    data[section] = _overlaid(data.get(section, {}), layer.section(section))
            cluster = layer.section("cluster")
            if "num_devices" in cluster and "levels" not in cluster:
                data["cluster"] = _resized(data["cluster"])
        return scenario_from_mapping(data, name=name)
    except SpecError as error:
        raise _with_source(error, layers) from None


def _systems(scenario: Scenario, layers: tuple[_Layer, ...]) -> tuple[SystemSpace, ClusterBudget]:
    """Systems to choose from, and what they must keep to.

    With a budget the number of chips follows from it, unless something says how many: then that is it.
    """
    wanted: dict[str, dict[str, Any]] = {section: {} for section in SYSTEM_SECTIONS}
    for layer in layers:
        for section in SYSTEM_SECTIONS:
            wanted[section] |= layer.section(section)
    if not any(wanted.values()):
        return SystemSpace(), ClusterBudget()
    try:
        systems, budget = read_system(wanted)
        check_systems(scenario, systems)
        is_number_given = systems.num_chips or any(layer.section("cluster") for layer in layers)
        if budget.is_limited and not is_number_given:
            systems = replace(systems, num_chips=chip_counts(scenario, systems, budget))
        return systems, budget
    except SpecError as error:
        raise _with_source(error, layers) from None


def _with_source(error: SpecError, layers: tuple[_Layer, ...]) -> SpecError:
    """The error with the place where the field was given last.

    A field that is missing is missing in the first layer, which should be whole. A value that a record refuses may
    be derived from fields of other names: then the last to give any field of the section is named.
    """
    steps = error.field.replace(":", ".").split(".")[:2]
    given = [layer for layer in layers if layer.gives(steps)]
    if not given and error.value is not None:
        given = [layer for layer in layers if layer.fields.get(steps[0])]
    source = given[-1].source if given else layers[0].source
    return SpecError(f"{source}: {error.field}", error.value, error.rule, error.fix)


def _resized(section: dict[str, Any]) -> dict[str, Any]:
    """The network of the section, reaching as many devices as it now has."""
    with under("cluster."):
        found = validate(ClusterFile, section)
        check_count("num_devices", found.num_devices, at_most=2**24)
        reach = found.levels[-1].num_devices if found.levels else found.num_devices
        before = cluster_from_file(found.model_copy(update={"num_devices": reach}))
        after = resized_cluster(before, found.num_devices)
    return {"num_devices": found.num_devices, "levels": [asdict(level) for level in after.levels]}


def _overlaid(section: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    if any(limit in changes for limit in AREA_LIMITS):
        # A space has one area limit: a new one replaces the scenario's, whatever form that has.
        section = {field: value for field, value in section.items() if field not in AREA_LIMITS}
    return section | changes
