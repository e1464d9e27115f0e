"""Machines that measured runs were made on, from what their makers publish."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from rephaze.hardware.presets import preset_chip

# Watts for a FLOP a second at 16 bits, of the chip that a family's rate is stated for.
FAMILY_WATTS = {"hopper": 700 / 989e12, "blackwell": 1200 / 2500e12, "cdna": 1400 / 2500e12}


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """One chip and the network around it, by the data sheet."""

    name: str
    family: str
    """Chips of one family share the calibrated constants."""
    chips: tuple[str, ...]
    """How tables of runs call it; the longest that begins a name counts."""
    flops_16: float
    """A second, with factors of 16 bits; dense."""
    flops_8: float
    flops_4: float
    hbm_bytes_per_s: float
    memory_bytes: float
    cores: int
    """That share out the tiles of a product."""
    arrays: int = 0
    """Width of a systolic array; 0: the tiles of a product may have several shapes."""
    axes: int = 0
    """Of a torus; 0: a node with a switch."""
    node_devices: int
    """0: as many as a slice has."""
    link_bytes_per_s: float
    network_bytes_per_s: float
    watts: float = 0.0
    """It may take; 0: not published, and then taken to be enough."""
    source: str

    @property
    def power_ratio(self) -> float:
        """Watts for the rate it could run at, over those of the family's first chip."""
        first = FAMILY_WATTS.get(self.family)
        return self.watts / self.flops_16 / first if first and self.watts else 1.0

    @property
    def is_tpu(self) -> bool:
        """Joined by a torus."""
        return self.axes > 0

    def axes_of(self, degree: int, num_devices: int) -> int:
        """Axes of the torus of so many chips that a group of this size lies on: the fewest long enough."""
        if not self.is_tpu:
            return 1
        side = max(2.0, num_devices ** (1 / self.axes))
        used = 1
        while used < self.axes and degree > 1.5 * side**used:
            used += 1
        return used

    def halved(self) -> Machine:
        """One of two devices that a chip shows."""
        return replace(
            self,
            flops_16=self.flops_16 / 2,
            flops_8=self.flops_8 / 2,
            flops_4=self.flops_4 / 2,
            hbm_bytes_per_s=self.hbm_bytes_per_s / 2,
            memory_bytes=self.memory_bytes / 2,
            cores=max(1, self.cores // 2),
            watts=self.watts / 2,
            link_bytes_per_s=self.link_bytes_per_s / 2,
            network_bytes_per_s=self.network_bytes_per_s / 2,
        )


@cache
def load_machines() -> dict[str, Machine]:
    """All machines by name."""
    data = tomllib.loads(files("rephaze.truth").joinpath("data", "machines.toml").read_text("utf-8"))
    return {name: _machine(name, values) for name, values in data.items()}


def _machine(name: str, values: dict[str, Any]) -> Machine:
    """With the figures of its preset; those that are stated beside it count."""
    given = dict(values)
    chip = preset_chip(given.pop("preset"))
    gain_8 = given.pop("gain_8", 1)
    gain_4 = given.pop("gain_4", gain_8)
    figures: dict[str, Any] = {
        "flops_16": chip.peak_flops_per_s,
        "flops_8": gain_8 * chip.peak_flops_per_s,
        "flops_4": gain_4 * chip.peak_flops_per_s,
        "hbm_bytes_per_s": chip.hbm_bytes_per_s,
        "memory_bytes": float(chip.hbm_bytes),
    }
    if given.pop("is_array", False):
        figures |= {"cores": chip.num_tensor_cores, "arrays": chip.tensor_width}
    chips = tuple(given.pop("chips"))
    return Machine(name=name, chips=chips, **(figures | given))


def find_machine(chip: str, network: str = "") -> Machine | None:
    """The machine that a table calls so; None where there is none (cards in slots have other rates).

    A stated rate of the network counts.
    """
    starts = [
        (len(start), name)
        for name, one in load_machines().items()
        for start in one.chips
        if chip.startswith(start)
    ]
    if not starts or "PCIe" in chip:
        return None
    machine = load_machines()[max(starts)[1]]
    bytes_per_s = _stated_network(chip + "; " + network, machine)
    return replace(machine, network_bytes_per_s=bytes_per_s) if bytes_per_s else machine


def _stated_network(text: str, machine: Machine) -> float:
    """Bytes a second that one chip sends into the outer network; 0 where the text does not say."""
    adapters = re.search(r"(\d+)x ?(\d+) ?Gb/s", text)
    if adapters and "GbE" not in text and "usual" not in text:
        per_node = 4 if "4 GPUs per node" in text else machine.node_devices
        return float(adapters.group(1)) * float(adapters.group(2)) / 8 * 1e9 / per_node
    node = re.search(r"(\d+)Gb/s node|inter (\d+)Gb/s|\((\d+) Gb/s nominal", text)
    if node:
        return float(next(value for value in node.groups() if value)) / 8 * 1e9 / machine.node_devices
    return 0.0
