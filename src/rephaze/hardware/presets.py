"""Known chips, each value with its grade and source; a blank stays blank and using it is an error."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from rephaze.errors import SpecError
from rephaze.hardware.sourced_data import SourcedValue
from rephaze.hardware.template import build_chips, load_template
from rephaze.types.checks import did_you_mean
from rephaze.types.chip import Chip

# Chip fields that follow from others where a preset is silent; all other fields must be stated.
DERIVED_FIELDS = (
    "tensor_scratchpad_bytes",
    "vector_scratchpad_bytes",
    "scratchpad_bytes_per_cycle",
    "global_buffer_bytes_per_cycle",
    "global_buffer_multicast",
)
CHIP_FIELDS = tuple(field.name for field in fields(Chip) if field.name != "name")
STATED_FIELDS = tuple(name for name in CHIP_FIELDS if name not in DERIVED_FIELDS)

# What sources give beside the fields of a chip. Each may be absent; a preset has no other names than these.
FACT_FIELDS = {
    "peak_flops_per_s": "dense bf16",
    "peak_fp8_flops_per_s": "dense, 8-bit floating point; absent where a chip has none",
    "peak_int8_flops_per_s": "dense, 8-bit integers",
    "peak_fp4_flops_per_s": "dense, 4-bit floating point",
    "num_cores": "what software schedules work on: streaming multiprocessors, compute units, TensorCores",
    "on_chip_sram_bytes": "all of it, also what the template has no place for",
    "usable_hbm_bytes": "what software can allocate, where that is not `hbm_bytes`",
    "hbm_generation": "as memory.toml names them",
    "link_bytes_per_s": "all links inside a node together, one way",
    "num_links": "links inside a node",
    "link_topology": "switch, all to all, 2d torus or 3d torus",
    "num_node_chips": "chips that the links join: a board, a rack, or the pod of a torus",
    "network_bytes_per_s": "the usual network outside a node, one way, a chip",
    "power_w": "what the chip is rated for, or measured at most",
    "die_um2": "all dies together",
    "node_nm": "of the compute dies",
    "num_transistors": "all dies together",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """A known chip: its values by field name, those of ``Chip`` and others a source gives."""

    name: str
    title: str
    values: dict[str, SourcedValue]

    @property
    def blanks(self) -> tuple[str, ...]:
        """Fields a chip needs that no source gave."""
        return tuple(name for name in STATED_FIELDS if name not in self.values)


@cache
def load_presets() -> dict[str, Preset]:
    """All presets by name, in order of the family."""
    folder = files("rephaze.hardware").joinpath("data", "presets")
    found = {}
    for entry in sorted(folder.iterdir(), key=lambda item: _family_order(item.name)):
        if not entry.name.endswith(".toml"):
            continue
        name = entry.name.removesuffix(".toml")
        data = tomllib.loads(entry.read_text("utf-8"))
        values = {field: SourcedValue(**value) for field, value in data["values"].items()}
        found[name] = Preset(name=name, title=data["title"], values=values)
    return found


def find_preset(name: str) -> Preset:
    """The preset of this name (upper or lower case)."""
    presets = load_presets()
    if name.lower() not in presets:
        raise SpecError(
            "chip", name, f"is not a preset; known are {', '.join(presets)}", did_you_mean(name, presets)
        )
    return presets[name.lower()]


def preset_chip(name: str) -> Chip:
    """The chip of a preset; ``SpecError`` names every field that no source gives."""
    preset = find_preset(name)
    if preset.blanks:
        raise SpecError(
            f"{preset.name}.{preset.blanks[0]}",
            None,
            f"no source gives {', '.join(preset.blanks)} of {preset.title}",
            f'write a chip file with base = "{preset.name}" and those fields',
        )
    stated = {field: given.value for field, given in preset.values.items() if field in CHIP_FIELDS}
    return complete_chip(preset.name, stated)


def complete_chip(name: str, stated: dict[str, int | float]) -> Chip:
    """A chip from its stated fields; the derived ones follow the default template where not stated."""
    by_template = build_chips(
        num_tensor_cores=_column(stated["num_tensor_cores"]),
        tensor_width=_column(stated["tensor_width"]),
        tensor_depth=_column(stated["tensor_depth"]),
        num_vector_cores=_column(stated["num_vector_cores"]),
        vector_lanes=_column(stated["vector_lanes"]),
        global_buffer_bytes=_column(stated["global_buffer_bytes"]),
        num_hbm_stacks=_column(stated["num_hbm_stacks"]),
        template=load_template("default"),
    )
    derived = {field: getattr(by_template, field)[0].item() for field in DERIVED_FIELDS}
    return Chip(name=name, **(derived | stated))


def _column(value: int | float) -> NDArray[np.int64]:
    return np.array([value], dtype=np.int64)


def _family_order(file_name: str) -> tuple[int, str]:
    families = ("tpuv", "tpu", "a100", "h100", "h200", "b", "gb", "trainium", "gaudi", "mi")
    position = next((i for i, family in enumerate(families) if file_name.startswith(family)), len(families))
    return position, file_name
