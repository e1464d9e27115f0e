"""A chip as an architecture of Timeloop (version 0.4 of its YAML).

Levels from the outside in: HBM, the global buffer, the tensor cores with their scratchpads, the array's
multiply-accumulators. https://timeloop.csail.mit.edu/v4/input-formats/design/architecture
"""

from __future__ import annotations

from rephaze.launch.notes import one_line
from rephaze.types.chip import Chip
from rephaze.types.launch import LaunchFile, Unsaid

WORD_BITS = 16
_LINE_WORDS = 64
"""Words of a line of a buffer: its depth times this is its capacity."""
_BITS = 8


def write_architecture(chip: Chip) -> LaunchFile:
    """The file; what Timeloop has no place for stands in comments and is told."""
    unsaid = (
        Unsaid(
            field="",
            text=f"vector cores are left out ({chip.num_vector_cores} of {chip.vector_lanes} lanes): "
            f"Timeloop maps products",
        ),
        Unsaid(field="", text="energies and areas are Accelergy's, not rephaze's"),
        Unsaid(
            field="",
            text=f"one read of the global buffer serves {chip.global_buffer_multicast} cores at most: "
            f"not limited here",
        ),
    )
    lines = [
        f"# rephaze: {one_line(chip.name)}, {chip.num_macs:,} multiply-accumulators at {chip.clock_hz / 1e9:g} GHz"
    ]
    lines += [f"# note: {note.text}" for note in unsaid]
    line_bits = WORD_BITS * _LINE_WORDS
    words_per_cycle = _BITS / WORD_BITS
    lines += [
        "architecture:",
        "  version: 0.4",
        "  nodes:",
        "  - !Container",
        "    name: system",
        f"    attributes: {{global_cycle_seconds: {1 / chip.clock_hz!r}}}",
        *_component(
            "HBM",
            "DRAM",
            width=line_bits,
            depth=chip.hbm_bytes * _BITS // line_bits,
            datawidth=WORD_BITS,
            shared_bandwidth=chip.hbm_bytes_per_s / chip.clock_hz * words_per_cycle,
        ),
        "  - !Container",
        "    name: chip",
        *_component(
            "global_buffer",
            "SRAM",
            width=line_bits,
            depth=chip.global_buffer_bytes * _BITS // line_bits,
            datawidth=WORD_BITS,
            shared_bandwidth=chip.global_buffer_bytes_per_cycle * words_per_cycle,
        ),
        "  - !Container",
        "    name: tensor_core",
        f"    spatial: {{meshX: {chip.num_tensor_cores}}}",
        *_component(
            "scratchpad",
            "SRAM",
            width=line_bits,
            depth=max(1, chip.tensor_scratchpad_bytes * _BITS // line_bits),
            datawidth=WORD_BITS,
            shared_bandwidth=chip.scratchpad_bytes_per_cycle * words_per_cycle,
        ),
        "  - !Container",
        "    name: processing_element",
        f"    spatial: {{meshX: {chip.tensor_depth}, meshY: {chip.tensor_width}}}",
        *_component("register", "regfile", width=WORD_BITS, depth=1, datawidth=WORD_BITS),
        *_component("mac", "fpmac", datawidth=WORD_BITS),
    ]
    return LaunchFile(text="\n".join(lines) + "\n", unsaid=unsaid)


def _component(name: str, kind: str, **attributes: float) -> list[str]:
    listed = ", ".join(f"{key}: {value!r}" for key, value in attributes.items())
    return ["  - !Component", f"    name: {name}", f"    class: {kind}", f"    attributes: {{{listed}}}"]
