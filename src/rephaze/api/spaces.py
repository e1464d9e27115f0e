"""Scenarios and design spaces of the door: what a search starts from, and how many chips it has to look at.

Axis letters: c = chip (design).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rephaze.api.present import Block, Shown
from rephaze.errors import SpecError
from rephaze.types.checks import check_choice, check_count
from rephaze.types.chip import ChipTable, FloatColumn
from rephaze.types.cluster import resized_cluster
from rephaze.types.scenario import PhysicsName, Scenario
from rephaze.types.space import AreaModel

if TYPE_CHECKING:
    from rephaze.hardware.space_census import SpaceCensus

AREA_PARTS = ("arrays", "lanes", "scratchpads", "global_buffer", "io", "total")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class DesignCount(Shown):
    """The designs of a scenario's space, and how many fell to each limit."""

    scenario: Scenario
    census: SpaceCensus

    def histogram(self, num_bins: int) -> tuple[NDArray[np.int64], FloatColumn]:
        """How many designs lie in each of so many ranges of area, and the ends of the ranges in um2."""
        return self.census.histogram(num_bins)

    @property
    def smallest_um2(self) -> float:
        """Area of the chip with the least of everything, whether it keeps to the limits or not."""
        from rephaze.hardware.grid import FIELDS, DesignGrid

        grid = DesignGrid(self.scenario.space)
        return float(grid.area_um2(np.array([[int(grid.values[f].argmin()) for f in range(len(FIELDS))]]))[0])

    def blocks(self) -> Sequence[Block]:
        """Headline and what each limit removes."""
        from rephaze.api.views import design_count_blocks

        return design_count_blocks(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class DesignAreas:
    """The area of many chips, itemised."""

    model: AreaModel
    chips: ChipTable
    parts_um2_c: dict[str, FloatColumn]
    """By name in ``AREA_PARTS``."""


def load_scenario(name_or_path: str | Path = "default") -> Scenario:
    """A scenario: design space, cluster, training settings and models of cost.

    Example:
        >>> import rephaze
        >>> scenario = rephaze.load_scenario("default")
        >>> scenario.cluster.num_devices, scenario.training.global_batch
        (1024, 4096)

    Args:
        name_or_path: ``default``, ``coarse``, ``paper``, or a ``.toml`` file of the same form.
    """
    from rephaze.hardware.scenarios import load_scenario as read_scenario

    return read_scenario(str(name_or_path))


def count_designs(scenario: str | Path | Scenario = "default") -> DesignCount:
    """How many designs a scenario's space has, and what each limit removes: counted, not enumerated."""
    from rephaze.hardware.space_census import count_space

    found = as_scenario(scenario)
    return DesignCount(scenario=found, census=count_space(found.space))


def design_areas(file: str | Path, model: str = AreaModel.CORRECTED) -> DesignAreas:
    """The area of every chip in a CSV file.

    Args:
        file: A chip a row: num_tensor_cores, num_vector_cores, width, depth, global_buffer_bytes and, if given,
            vector_lanes and num_hbm_stacks.
        model: Area model: ``paper`` or ``corrected``.
    """
    from rephaze.hardware.area import chip_area
    from rephaze.hardware.design_csv import read_designs

    check_choice("model", model, list(AreaModel))
    area_model = AreaModel(model)
    chips = read_designs(Path(file), area_model)
    found = chip_area(chips, area_model)
    parts = {part: getattr(found, f"{part}_um2_c") for part in AREA_PARTS}
    return DesignAreas(model=area_model, chips=chips, parts_um2_c=parts)


def as_scenario(scenario: str | Path | Scenario) -> Scenario:
    """A scenario given as a record, by name or as a file."""
    return scenario if isinstance(scenario, Scenario) else load_scenario(scenario)


def at_physics(scenario: Scenario, physics: str | None) -> Scenario:
    """The scenario at the rates of a physics by name; None leaves it as it is."""
    from rephaze.hardware.derating import calibrated_scenario

    if physics is None:
        return scenario
    check_choice("physics", physics, [str(one) for one in PhysicsName])
    if physics == PhysicsName.CALIBRATED:
        return calibrated_scenario(scenario)
    if scenario.physics is PhysicsName.CALIBRATED:
        rule = f"cannot be had of scenario {scenario.name}, which is at calibrated rates"
        raise SpecError("physics", physics, rule, "give the scenario before it was calibrated")
    return scenario


def resized(scenario: Scenario, num_devices: int | None, global_batch: int | None) -> Scenario:
    """The scenario with another number of chips or another batch; None leaves either as it is."""
    if num_devices is not None:
        check_count("devices", num_devices, at_most=2**24)
        scenario = replace(scenario, cluster=resized_cluster(scenario.cluster, num_devices))
    if global_batch is not None:
        check_count("global-batch", global_batch, at_most=2**30)
        scenario = replace(scenario, training=replace(scenario.training, global_batch=global_batch))
    return scenario
