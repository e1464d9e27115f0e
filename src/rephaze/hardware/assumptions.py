"""The values of the data files, and of a scenario, that the numbers of a search rest on, with grade and source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from rephaze.hardware.presets import find_preset
from rephaze.hardware.sourced_data import data_file
from rephaze.types.assumption import Assumption
from rephaze.types.scenario import Scenario

SETTING = "S"


def scenario_assumptions(scenario: Scenario) -> tuple[Assumption, ...]:
    """What a search under a scenario assumes of silicon, memory, cost, the network, training and TPUv4."""
    return (*_settings(scenario), *_silicon(scenario), *_memory(scenario), *_cost(), *_tpuv4())


def _settings(scenario: Scenario) -> Iterator[Assumption]:
    source = f"scenario {scenario.name}"

    def setting(group: str, name: str, value: object, note: str = "") -> Assumption:
        return Assumption(group=group, name=name, value=_said(value), grade=SETTING, source=source, note=note)

    yield setting("cluster", "num_devices", scenario.cluster.num_devices)
    for level in scenario.cluster.levels:
        within = f"groups of {level.num_devices:,}"
        yield setting("cluster", f"bytes_per_s, {within}", level.bytes_per_s)
        yield setting("cluster", f"latency_s, {within}", level.latency_s, "latencies that ship are placeholders")
    for name in ("global_batch", "optimizer", "precision", "imbalance_factor"):
        yield setting("training", name, getattr(scenario.training, name))
    for name in ("estimate_model", "placement_model", "all_cores_excludes", "attention"):
        yield setting("models of cost", name, getattr(scenario, name))
    yield setting("models of cost", "overlap", scenario.plans.overlap)
    yield setting("models of cost", "family", scenario.plans.family)
    template = scenario.space.template
    for one in fields(template):
        yield setting("template of a chip", one.name, getattr(template, one.name))
    yield Assumption(
        group="models of cost",
        name="lane cycles an element",
        value="by function",
        grade="D",
        source="counted from the usual formulas, special functions at a quarter of the rate; "
        "placeholders where they depend on a library (sort, topk, pool, random)",
    )


def _silicon(scenario: Scenario) -> Iterator[Assumption]:
    components, model = data_file("components.toml"), str(scenario.space.area_model)
    for name, entry in components[model].items():
        if isinstance(entry, dict) and "value" in entry:
            yield _sourced(f"silicon, {model} model", name, entry)
    sram = components["sram"]
    yield _sourced("silicon", "SRAM area and energy by size", sram | {"value": f"{len(sram['table'])} sizes"})


def _memory(scenario: Scenario) -> Iterator[Assumption]:
    template = scenario.space.template
    for name, entry in data_file("memory.toml").items():
        rates = (entry.get("stack_bytes"), entry.get("stack_bytes_per_s"))
        if rates != (template.hbm_stack_bytes, template.hbm_stack_bytes_per_s):
            continue
        said = f"{_said(rates[0])} bytes, {_said(rates[1])} bytes/s"
        yield _sourced(f"memory, {name}", "a stack", entry | {"value": said})
        for inner, value in entry.items():
            if isinstance(value, dict) and "value" in value:
                yield _sourced(f"memory, {name}", inner, value)
        return


def _cost() -> Iterator[Assumption]:
    data = data_file("cost.toml")
    wafer = data["wafer"]
    said = ", ".join(f"{name} {value:g}" for name, value in wafer.items() if name != "source")
    yield _sourced("cost", "wafer", wafer | {"value": said})
    at_7nm = next(row for row in data["process"]["table"] if row[0] == 7)
    said = f"{at_7nm[1]:g} defects a cm², {at_7nm[2]:,.0f} USD a wafer"
    yield _sourced("cost", "process at 7 nm", data["process"] | {"value": said})
    yield _sourced("cost", "HBM usd_per_gb", data["hbm"] | {"value": data["hbm"]["usd_per_gb"]})


def _tpuv4() -> Iterator[Assumption]:
    preset = find_preset("tpuv4")
    for name, given in preset.values.items():
        yield Assumption(
            group=preset.title,
            name=name,
            value=_said(given.value),
            grade=given.grade,
            source=given.source,
            note=given.note,
        )


def _sourced(group: str, name: str, entry: dict[str, Any]) -> Assumption:
    return Assumption(
        group=group,
        name=name,
        value=_said(entry["value"]),
        grade=entry.get("grade", ""),
        source=entry.get("source", ""),
        note=entry.get("note", ""),
    )


def _said(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
