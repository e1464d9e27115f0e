"""The systems of a search, each as a search of its own over the chips that go with it."""

from __future__ import annotations

from dataclasses import replace

from rephaze.hardware.grid import DesignGrid
from rephaze.hardware.system import billed_scenario
from rephaze.hardware.system_grid import AnyGrid, SystemGrid
from rephaze.types.search import SearchSettings
from rephaze.types.system import ClusterBudget, ListedSystem, SystemSpace


def system_settings(settings: SearchSettings) -> tuple[SearchSettings, ...]:
    """Of a search with systems, the search of each: one cluster, chips billed for it, held to the budget."""
    return tuple(
        replace(
            settings,
            scenario=billed_scenario(settings.scenario, choice, settings.budget),
            systems=SystemSpace(),
            budget=ClusterBudget(),
        )
        for choice in settings.systems.choices()
    )


def listed_systems(settings: SearchSettings) -> tuple[ListedSystem, ...]:
    """The systems of a search by number; none where the scenario's is given."""
    if not settings.has_systems:
        return ()
    found = []
    for one in system_settings(settings):
        system = one.scenario.space.system
        assert system is not None
        found.append(
            ListedSystem(
                clock_hz=one.scenario.space.template.clock_hz,
                hbm=system.hbm.generation,
                hbm_layers=system.hbm.num_layers,
                num_inside_links=system.num_inside_links,
                num_outside_links=system.num_outside_links,
                node_size=system.node_size,
                num_chips=system.num_chips,
            )
        )
    return tuple(found)


def grid_of(settings: SearchSettings) -> AnyGrid:
    """What a search by boxes goes through."""
    if not settings.has_systems:
        return DesignGrid(settings.scenario.space)
    return SystemGrid(tuple(DesignGrid(one.scenario.space) for one in system_settings(settings)))


def system_of_design(settings: SearchSettings, design: int) -> int:
    """The number of a design's system in a search with systems."""
    return design // DesignGrid(settings.scenario.space).num_points


def settings_of_design(settings: SearchSettings, design: int | None) -> SearchSettings:
    """The search of a design's system; without systems, or without a design, the search as it is."""
    if design is None or not settings.has_systems:
        return settings
    return system_settings(settings)[system_of_design(settings, design)]
