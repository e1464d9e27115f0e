"""Chips and networks at the rates that measured machines of their family reach: calibrated physics for planning.

A chip is derated as a whole: its clock by what products reach of the data sheet's rate beyond their tiles, its HBM
and the links by what bytes reach, its memory by what a plan may fill. The result is a chip (a template, a cluster)
like any other, so all that is proven of chips holds of it; only the figures are smaller. What cannot be said this
way is left out, and docs/validation.md says so: attention's own share, the least time of an operator, collectives'
exposed part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rephaze.errors import SpecError
from rephaze.hardware.calibration import calibrated, product_constant
from rephaze.types.chip import Chip
from rephaze.types.cluster import Cluster
from rephaze.types.scenario import EstimateModelName, PhysicsName, Scenario
from rephaze.units import KIB

FAMILIES = {
    "a100": "ampere",
    "h100": "hopper",
    "h200": "hopper",
    "b200": "blackwell",
    "b300": "blackwell",
    "gb200": "blackwell",
    "gb300": "blackwell",
    "mi3": "cdna",
    "gaudi": "gaudi",
    "tpuv4": "tpu-128",
    "tpuv5": "tpu-128",
    "tpuv6": "tpu-256",
    "tpu7": "tpu-256",
}
"""By how a known chip's name begins."""
TEMPLATE_FAMILY = "tpu-256"
"""Of chips that a search made: tensor cores, vector cores and a shared buffer, as TPUs have them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Losses:
    """What a family of chips reaches of its data sheet."""

    family: str
    array_share: float
    """Of the clock, as products see it."""
    hbm_share: float
    link_share: float
    network_share: float
    memory_share: float
    """That a plan may fill by our count: beyond it measured runs ran out of memory or collapsed."""

    def sentence(self) -> str:
        """For a reader."""
        return (
            f"physics calibrated, constants of family {self.family}: cores at {self.array_share:.2f} of the "
            f"clock, HBM at {self.hbm_share:.2f}, links at {self.link_share:.2f}, network at "
            f"{self.network_share:.2f} of their rates, {self.memory_share:.2f} of the memory to plan with "
            "(fuller, measured runs failed or collapsed); clock, bandwidths and GiB shown are so reduced"
        )


def family_of(chip_name: str, *, is_known: bool) -> str | None:
    """The family of a chip; None of a known chip that no run was measured on."""
    if not is_known:
        return TEMPLATE_FAMILY
    starts = [start for start in FAMILIES if chip_name.lower().startswith(start)]
    return FAMILIES[max(starts, key=len)] if starts else None


def usable_memory_share() -> float:
    """Of a device's memory, what a plan may fill by our count."""
    return calibrated()["usable_share"]


def losses_at(chip_name: str, scenario: Scenario) -> Losses | None:
    """What a chip loses under the scenario's physics; None where it reaches its figures."""
    from rephaze.hardware.presets import load_presets

    if scenario.physics is PhysicsName.IDEAL:
        return None
    family = family_of(chip_name, is_known=chip_name.lower() in load_presets())
    if family is None:
        rule = "is of no family that runs were measured on: physics calibrated knows nothing of it"
        raise SpecError("chip", chip_name, rule, "choose physics ideal")
    return losses_of(family)


def losses_of(family: str) -> Losses:
    """From the calibrated constants."""
    values = calibrated()
    return Losses(
        family=family,
        array_share=values[product_constant(family)],
        hbm_share=values["memory_rate"],
        link_share=values["link_rate"],
        network_share=values["network_rate"],
        memory_share=values["usable_share"],
    )


def chip_at(chip: Chip, scenario: Scenario) -> Chip:
    """The chip at the rates of the scenario's physics."""
    losses = losses_at(chip.name, scenario)
    if losses is None:
        return chip
    return replace(
        chip,
        clock_hz=chip.clock_hz * losses.array_share,
        hbm_bytes_per_s=chip.hbm_bytes_per_s * losses.hbm_share,
        hbm_bytes=int(chip.hbm_bytes * losses.memory_share),
    )


def searched_chip_of(chip: Chip, scenario: Scenario) -> Chip:
    """A chip that a search under the scenario found, with its figures before they were brought to its rates."""
    if scenario.physics is PhysicsName.IDEAL:
        return chip
    losses = losses_of(TEMPLATE_FAMILY)
    return replace(
        chip,
        clock_hz=chip.clock_hz / losses.array_share,
        hbm_bytes_per_s=chip.hbm_bytes_per_s / losses.hbm_share,
        # Reduced sizes are whole bytes: what was cut off is less than a KiB.
        hbm_bytes=round(chip.hbm_bytes / losses.memory_share / KIB) * KIB,
    )


def calibrated_scenario(scenario: Scenario) -> Scenario:
    """The scenario with its template and network at the rates that chips of the template's family reach."""
    if scenario.physics is PhysicsName.CALIBRATED:
        return scenario
    if scenario.estimate_model is EstimateModelName.PAPER:
        rule = "needs rates of chips; estimate model paper has its own, fixed ones"
        raise SpecError("physics", "calibrated", rule, "choose scenario default or coarse")
    if math.isfinite(scenario.space.power_limit_w):
        rule = "would let chips under power_limit_w draw more: their peak power follows the clock that is reduced"
        raise SpecError("physics", "calibrated", rule, "leave power_limit_w out")
    losses, template = losses_of(TEMPLATE_FAMILY), scenario.space.template
    slower = replace(
        template,
        clock_hz=template.clock_hz * losses.array_share,
        hbm_stack_bytes_per_s=template.hbm_stack_bytes_per_s * losses.hbm_share,
        hbm_stack_bytes=int(template.hbm_stack_bytes * losses.memory_share),
    )
    options = tuple(int(size * losses.memory_share) for size in scenario.space.hbm_bytes_options)
    return replace(
        scenario,
        space=replace(scenario.space, template=slower, hbm_bytes_options=options),
        cluster=_slower(scenario.cluster, losses),
        physics=PhysicsName.CALIBRATED,
    )


def _slower(cluster: Cluster, losses: Losses) -> Cluster:
    """The innermost of several levels are links; all others, and a flat network, are the network."""
    levels = []
    for at, level in enumerate(cluster.levels):
        share = losses.link_share if at == 0 and len(cluster.levels) > 1 else losses.network_share
        levels.append(replace(level, bytes_per_s=level.bytes_per_s * share))
    return replace(cluster, levels=tuple(levels))
