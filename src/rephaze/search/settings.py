"""From names, a run file and options to fully resolved search settings.

A run file is TOML: ``scenario`` names what to start from, the sections ``[space]``, ``[cluster]`` and
``[training]`` change single fields of it, and ``[search]`` says what to look for.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from rephaze.errors import SpecError
from rephaze.hardware.scenarios import scenario_from_mapping, scenario_mapping
from rephaze.measure.objective import check_weights
from rephaze.types.checks import check_choice, check_count
from rephaze.types.cluster import Cluster, NetworkLevel, resized_cluster
from rephaze.types.files import read_mapping, validate
from rephaze.types.search import Aggregate, Objective, SearchSettings

SCENARIO_SECTIONS = ("space", "cluster", "training")
SCENARIO_FIELDS = ("title", "estimate_model", "placement_model", "all_cores_excludes", "attention")
AREA_LIMITS = ("area_limit_um2", "area_limit_chip", "area_limit_design")


class SearchSection(BaseModel):
    """The ``[search]`` section of a run file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    models: list[str] = Field(default_factory=list)
    weights: list[float] | None = None
    objective: str = Objective.THROUGHPUT
    aggregate: str = Aggregate.GEOMEAN
    seed: int = Field(default=0, ge=0)
    exhaustive: bool = False


def resolve_settings(
    models: tuple[str, ...] = (),
    *,
    config: Path | None = None,
    scenario: str | None = None,
    changes: dict[str, dict[str, Any]] | None = None,
) -> SearchSettings:
    """Everything a search depends on, checked.

    Args:
        models: Zoo names or graph files; replace the run file's.
        config: A run file.
        scenario: What to start from; replaces the run file's ``scenario``.
        changes: Single fields by section (``space``, ``cluster``, ``training``, ``search``), applied last.
    """
    given = read_mapping(config) if config else {}
    source = config.name if config else "options"
    known = ("scenario", "search", *SCENARIO_SECTIONS, *SCENARIO_FIELDS)
    for field, value in given.items():
        if field not in known:
            raise SpecError(f"{source}: {field}", value, f"must be one of {', '.join(known)}")
    base = scenario or str(given.get("scenario", "default"))
    data = scenario_mapping(base)
    layers = [given, changes or {}]
    for layer in layers:
        data |= {field: layer[field] for field in SCENARIO_FIELDS if field in layer}
        for section in SCENARIO_SECTIONS:
            data[section] = _overlaid(data[section], layer.get(section, {}))
        cluster = layer.get("cluster", {})
        if "num_devices" in cluster and "levels" not in cluster:
            data["cluster"] = _resized(data["cluster"])
    wanted = dict(given.get("search", {})) | (changes or {}).get("search", {})
    if models:
        wanted["models"] = list(models)
    asked = validate(SearchSection, wanted, f"{source}: search")
    if not asked.models:
        raise SpecError("models", [], "name at least one model", "rephaze models lists them")
    if len(set(asked.models)) != len(asked.models):
        raise SpecError("models", asked.models, "names a model twice")
    check_choice("objective", asked.objective, list(Objective))
    check_choice("aggregate", asked.aggregate, list(Aggregate))
    settings = SearchSettings(
        models=tuple(asked.models),
        weights=tuple(asked.weights if asked.weights is not None else [1.0] * len(asked.models)),
        scenario=scenario_from_mapping(data, name=Path(base).stem, source=source),
        objective=Objective(asked.objective),
        aggregate=Aggregate(asked.aggregate),
        seed=asked.seed,
        exhaustive=asked.exhaustive,
    )
    check_weights(settings)
    return settings


def _resized(section: dict[str, Any]) -> dict[str, Any]:
    """The network of the section, reaching as many devices as it now has."""
    num_devices = section["num_devices"]
    check_count("cluster.num_devices", num_devices, at_most=2**24)
    levels = tuple(NetworkLevel(**level) for level in section["levels"])
    before = Cluster(num_devices=levels[-1].num_devices, levels=levels)
    after = resized_cluster(before, num_devices)
    return {"num_devices": num_devices, "levels": [asdict(level) for level in after.levels]}


def _overlaid(section: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    if any(limit in changes for limit in AREA_LIMITS):
        # A space has one area limit: a new one replaces the scenario's, whatever form that has.
        section = {field: value for field, value in section.items() if field not in AREA_LIMITS}
    return section | changes
