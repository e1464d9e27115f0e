"""A chip as an architecture of AccelForge, which follows Timeloop, with rephaze's energies and areas.

Levels from the outside in: HBM, the global buffer, the vector lanes, the tensor cores with their scratchpads, the
array. In its units: bits, joules, watts, square metres, actions a second; an action of a memory is one bit.
https://accelergy-project.github.io/accelforge, examples/arches of its repository
"""

from __future__ import annotations

from rephaze.launch.notes import one_line
from rephaze.types.chip_items import ChipItems
from rephaze.types.energy import AccessEnergy
from rephaze.types.launch import LaunchFile, Unsaid

_BITS = 8
_WORD_BITS = 16
_M2_PER_UM2 = 1e-12


def write_architecture(items: ChipItems, energy: AccessEnergy) -> LaunchFile:
    """The file; what AccelForge has no place for stands in comments and is told.

    Args:
        items: The chip and its area.
        energy: Of this chip alone.
    """
    chip = items.chip
    unsaid = tuple(Unsaid(field="", text=text) for text in _unsaid(items))
    clock_hz = chip.clock_hz
    lines = [
        f"# rephaze: {one_line(chip.name)}, {chip.num_macs:,} multiply-accumulators at {clock_hz / 1e9:g} GHz",
        *(f"# note: {one_line(note.text)}" for note in unsaid),
        "arch:",
        "  nodes:",
        *_memory(
            "HBM",
            num_bytes=chip.hbm_bytes,
            area_um2=items.hbm_um2 + items.links_um2,
            j_per_byte=float(energy.hbm_j_per_byte_c[0]),
            bytes_per_s=chip.hbm_bytes_per_s,
            tensors="keep: ~Intermediates, may_keep: All",
        ),
        *_memory(
            "GlobalBuffer",
            num_bytes=chip.global_buffer_bytes,
            area_um2=items.buffer_um2,
            j_per_byte=float(energy.global_buffer_j_per_byte_c[0]),
            bytes_per_s=chip.global_buffer_bytes_per_cycle * clock_hz,
            tensors="keep: ~HBM.tensors, may_keep: All",
            leak_w=float(energy.idle_w_c[0]),
        ),
        *_compute(
            "VectorCores",
            area_um2=items.lanes_um2 + items.vector_scratchpads_um2,
            j=float(energy.lane_op_j_c[0]),
            per_s=chip.num_lanes * clock_hz,
            enabled="len(All) == 2",
        ),
        # A memory's own fanout is left out of its total area by AccelForge (1.0.467): cores are a container.
        *_container("TensorCore", core=chip.num_tensor_cores),
        *_memory(
            "Scratchpad",
            num_bytes=chip.tensor_scratchpad_bytes,
            area_um2=items.tensor_scratchpads_um2 / chip.num_tensor_cores,
            j_per_byte=float(energy.tensor_scratchpad_j_per_byte_c[0]),
            bytes_per_s=chip.scratchpad_bytes_per_cycle * clock_hz,
            tensors="may_keep: All",
        ),
        *_container("ProcessingElement", width=chip.tensor_width, depth=chip.tensor_depth),
        *_memory(
            "Register",
            num_bytes=_WORD_BITS // _BITS,
            area_um2=0.0,
            j_per_byte=float(energy.register_j_per_byte_c[0]),
            bytes_per_s=None,
            tensors="may_keep: All",
        ),
        *_compute(
            "MAC",
            area_um2=items.arrays_um2 / chip.num_macs,
            j=float(energy.mac_j_c[0]),
            per_s=clock_hz,
            enabled="len(All) == 3",
        ),
    ]
    return LaunchFile(text="\n".join(lines) + "\n", unsaid=unsaid)


def _unsaid(items: ChipItems) -> list[str]:
    chip = items.chip
    return [
        f"the {chip.num_vector_cores} vector cores of {chip.vector_lanes} lanes are one unit that takes operators "
        "of one input; their scratchpads have area but no capacity here",
        f"one read of the global buffer serves {chip.global_buffer_multicast} cores at most: not limited here",
        "what the whole chip draws idle stands as leakage of the global buffer; registers have their area with "
        "the multiply-accumulators",
        "links to other chips have area here (with HBM's interfaces) but no bandwidth: AccelForge models one chip",
        "energies and areas are those of rephaze's tables, at their nominal clock and voltage",
        "which tensors a level keeps is left to AccelForge's mapper, which then takes hours for a product: to "
        "have it sooner, say it under tensors (keep: All, as rephaze's mapper does in scratchpads)",
    ]


def _container(name: str, **fanouts: int) -> list[str]:
    """Everything below it is there once for each of its dimensions' instances."""
    dimensions = [f"    - {{name: {dimension}, fanout: {fanout}}}" for dimension, fanout in fanouts.items()]
    return ["  - !Container", f"    name: {name}", "    spatial:", *dimensions]


def _memory(
    name: str,
    *,
    num_bytes: int,
    area_um2: float,
    j_per_byte: float,
    bytes_per_s: float | None,
    tensors: str,
    leak_w: float = 0.0,
) -> list[str]:
    """A memory; reads and writes share its rate, None for one that is never waited for."""
    rate = "inf" if bytes_per_s is None else repr(float(bytes_per_s * _BITS))
    each = f"energy: {j_per_byte / _BITS!r}, throughput: {rate}"
    return [
        "  - !Memory",
        f"    name: {name}",
        f"    size: {num_bytes * _BITS}",
        f"    area: {area_um2 * _M2_PER_UM2!r}",
        f"    leak_power: {leak_w!r}",
        f"    tensors: {{{tensors}}}",
        "    actions:",
        f"    - {{name: read, {each}}}",
        f"    - {{name: write, {each}}}",
    ]


def _compute(name: str, *, area_um2: float, j: float, per_s: float, enabled: str) -> list[str]:
    return [
        "  - !Compute",
        f"    name: {name}",
        f"    area: {area_um2 * _M2_PER_UM2!r}",
        "    leak_power: 0.0",
        f"    enabled: {enabled}",
        "    actions:",
        f"    - {{name: compute, energy: {j!r}, throughput: {float(per_s)!r}}}",
    ]
