"""What comes next to the answer of a search: chips that were solved, and other plans on the winner."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from rephaze.errors import RephazeError
from rephaze.types.placement import PlacementModel
from rephaze.types.readable import FIELD_WORDS
from rephaze.types.space import FIELDS
from rephaze.types.stopping import StoppedError, StopSignal
from rephaze.units import GIB, MIB

if TYPE_CHECKING:
    from rephaze.api.search_results import Exploration
    from rephaze.types.chip import Chip

PLAN_S = 2.0
"""For deriving the winner's plan again; alternatives to it have a second of their own."""
MOST_CHIPS = 3
_UNITS: dict[str, tuple[float, str]] = {
    "global_buffer_bytes": (MIB, "MiB buffer"),
    "hbm_bytes": (GIB, "GiB of HBM"),
    "tensor_scratchpad_bytes": (1024, "KiB scratchpads"),
}


def near_designs(found: Exploration, folder: Path | None) -> list[str]:
    """The nearest chips a run has solved, then the nearest plans on the winner, each with what it loses."""
    if found.chip is None:
        return []
    said = [] if folder is None else _near_chips(found, folder)
    return said + _near_plans(found)


def _near_chips(found: Exploration, folder: Path) -> list[str]:
    from rephaze.store.run_store import RunStore

    assert found.chip is not None
    with RunStore.read(folder) as store:
        designs = store.designs()
        if designs is None:
            return []
        place = {number: at for at, number in enumerate(store.design_numbers())}
        others = [
            one for one in store.evaluations() if one.is_exact and one.objective > 0 and one.design != found.design
        ]
        nearest = sorted(others, key=lambda one: (-one.objective, one.design))[:MOST_CHIPS]
        return [
            f"{_difference(found.chip, designs[0].chip(place[one.design]))}{_on(found, one.design)}: "
            f"{100 * (one.objective / found.objective - 1):+.2f} %"
            for one in nearest
            if one.design in place
        ]


def _on(found: Exploration, design: int) -> str:
    """In what the system of another design differs, in words; nothing where it does not, or is given."""
    from rephaze.search.systems import listed_systems, system_of_design

    if not found.settings.has_systems or found.design is None:
        return ""
    systems = listed_systems(found.settings)
    own, other = (systems[system_of_design(found.settings, number)] for number in (found.design, design))
    parts = [
        f"{FIELD_WORDS[field.name]} {getattr(other, field.name):g} (not {getattr(own, field.name):g})"
        if field.name != "hbm"
        else f"{other.hbm} (not {own.hbm})"
        for field in fields(own)
        if getattr(own, field.name) != getattr(other, field.name)
    ]
    return f", with {', '.join(parts)}" if parts else ""


def _difference(best: Chip, other: Chip) -> str:
    """In what another chip differs, in words."""
    parts = []
    for field in fields(best):
        here, there = getattr(best, field.name), getattr(other, field.name)
        if here == there or field.name == "hbm_bytes":
            continue
        if field.name in _UNITS:
            scale, unit = _UNITS[field.name]
            parts.append(f"{there / scale:g} {unit} (not {here / scale:g})")
        elif field.name in FIELDS:
            parts.append(f"{there} {FIELD_WORDS[field.name]} (not {here})")
    return ", ".join(parts) or other.in_words


def _near_plans(found: Exploration) -> list[str]:
    from rephaze.api.nearest import near_full_plans
    from rephaze.search.systems import settings_of_design
    from rephaze.study.plan_again import plan_again

    assert found.chip is not None
    if found.settings.scenario.placement_model is not PlacementModel.FULL:
        return []
    if len(found.plans) > 1:
        return ["other plans of several models are not looked at here: rephaze place MODEL --chip FILE tells them"]
    plan = found.plans[0]
    try:
        own = settings_of_design(found.settings, found.design)
        again = plan_again(own, found.chip, plan, StopSignal(perf_counter() + PLAN_S))
    except StoppedError:
        return ["other plans would take long here: rephaze place MODEL --chip FILE --why tells them"]
    except RephazeError:  # a graph file that has moved since
        return []
    near = near_full_plans(again.problem, again.graph, again.price, plan.batch_s)
    return [one.text for one in near.plans] + ([near.skipped] if near.skipped else [])
