"""The accelerator chip: one (``Chip``) or many as columns (``ChipTable``).

Axis letters: c = chip.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from rephaze.types.checks import check_count, check_number
from rephaze.units import GHZ, MHZ, MIB

IntColumn = NDArray[np.int64]
FloatColumn = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chip:
    """One accelerator: tensor cores (systolic arrays), vector cores, a shared buffer, HBM.

    Bandwidths inside the chip are per clock cycle because they scale with the clock; HBM's is per second
    because it does not.
    """

    name: str
    num_tensor_cores: int
    """Arrays of multiply-accumulators, each with a scratchpad of its own."""
    tensor_width: int
    """Rows of one array (the side the reduction runs along in a weight-stationary mapping)."""
    tensor_depth: int
    """Columns of one array."""
    num_vector_cores: int
    vector_lanes: int
    """Lanes of one vector core, each one element-operation a cycle."""
    tensor_scratchpad_bytes: int
    """Scratchpad of one tensor core."""
    vector_scratchpad_bytes: int
    """Scratchpad of one vector core."""
    global_buffer_bytes: int
    num_hbm_stacks: int
    hbm_bytes: int
    """Capacity of all stacks together."""
    hbm_bytes_per_s: float
    """Bandwidth of all stacks together."""
    clock_hz: float
    scratchpad_bytes_per_cycle: float
    """What one tensor core's scratchpad can exchange with its array in a cycle."""
    global_buffer_bytes_per_cycle: float
    """What the global buffer can exchange with all cores together in a cycle."""
    global_buffer_multicast: int
    """How many cores one read of the global buffer can serve at once."""

    def __post_init__(self) -> None:
        check_count("num_tensor_cores", self.num_tensor_cores, at_most=2**20)
        check_count("tensor_width", self.tensor_width, at_most=2**16)
        check_count("tensor_depth", self.tensor_depth, at_most=2**16)
        check_count("num_vector_cores", self.num_vector_cores, at_most=2**20)
        check_count("vector_lanes", self.vector_lanes, at_most=2**20)
        check_count("tensor_scratchpad_bytes", self.tensor_scratchpad_bytes, at_least=2)
        check_count("vector_scratchpad_bytes", self.vector_scratchpad_bytes, at_least=2)
        check_count("global_buffer_bytes", self.global_buffer_bytes, at_least=1024)
        check_count("num_hbm_stacks", self.num_hbm_stacks, at_most=1024)
        check_count("hbm_bytes", self.hbm_bytes, at_least=2**20, at_most=2**50)
        check_number(
            "hbm_bytes_per_s",
            self.hbm_bytes_per_s,
            at_least=1e6,
            at_most=1e18,
            fix="give bytes per second, for example 1.2e12",
        )
        check_number(
            "clock_hz",
            self.clock_hz,
            at_least=10 * MHZ,
            at_most=100 * GHZ,
            fix="give hertz, for example 1.05e9",
        )
        check_number("scratchpad_bytes_per_cycle", self.scratchpad_bytes_per_cycle, at_least=1, at_most=2**40)
        check_number(
            "global_buffer_bytes_per_cycle", self.global_buffer_bytes_per_cycle, at_least=1, at_most=2**40
        )
        check_count("global_buffer_multicast", self.global_buffer_multicast, at_most=2**20)

    @property
    def in_words(self) -> str:
        """What a design space varies, in a few words."""
        return (
            f"{self.num_tensor_cores} x {self.tensor_width}x{self.tensor_depth}, {self.num_vector_cores} x "
            f"{self.vector_lanes} lanes, {self.global_buffer_bytes / MIB:g} MiB, {self.num_hbm_stacks} stacks"
        )

    @property
    def num_macs(self) -> int:
        """Multiply-accumulators of all tensor cores."""
        return self.num_tensor_cores * self.tensor_width * self.tensor_depth

    @property
    def num_lanes(self) -> int:
        """Lanes of all vector cores."""
        return self.num_vector_cores * self.vector_lanes

    @property
    def peak_flops_per_s(self) -> float:
        """Dense matrix peak: two operations a multiply-accumulate."""
        return 2.0 * self.num_macs * self.clock_hz


@dataclass(frozen=True, kw_only=True, slots=True)
class ChipTable:
    """Many chips as columns of equal length, one per field of ``Chip`` but the name."""

    num_tensor_cores: IntColumn
    tensor_width: IntColumn
    tensor_depth: IntColumn
    num_vector_cores: IntColumn
    vector_lanes: IntColumn
    tensor_scratchpad_bytes: IntColumn
    vector_scratchpad_bytes: IntColumn
    global_buffer_bytes: IntColumn
    num_hbm_stacks: IntColumn
    hbm_bytes: IntColumn
    hbm_bytes_per_s: FloatColumn
    clock_hz: FloatColumn
    scratchpad_bytes_per_cycle: FloatColumn
    global_buffer_bytes_per_cycle: FloatColumn
    global_buffer_multicast: IntColumn

    def __post_init__(self) -> None:
        lengths = {len(getattr(self, field.name)) for field in fields(self)}
        assert len(lengths) == 1, f"columns of different lengths: {lengths}"

    def __len__(self) -> int:
        return len(self.num_tensor_cores)

    @property
    def num_macs(self) -> IntColumn:
        """Multiply-accumulators of each chip."""
        return self.num_tensor_cores * self.tensor_width * self.tensor_depth

    @property
    def num_lanes(self) -> IntColumn:
        """Vector lanes of each chip."""
        return self.num_vector_cores * self.vector_lanes

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> ChipTable:
        """The chips at ``index`` (positions, a mask or a slice), in that order."""
        return ChipTable(**{field.name: getattr(self, field.name)[index] for field in fields(self)})

    def chip(self, position: int, name: str = "") -> Chip:
        """The chip at ``position`` as a record."""
        values = {field.name: getattr(self, field.name)[position].item() for field in fields(self)}
        return Chip(name=name or f"design-{position}", **values)


def chip_table(chips: Iterable[Chip]) -> ChipTable:
    """The given chips as columns."""
    rows = list(chips)
    columns: dict[str, NDArray[np.generic]] = {}
    for field in fields(ChipTable):
        is_float = field.name.endswith(("_per_s", "_hz", "_per_cycle"))
        columns[field.name] = np.array(
            [getattr(c, field.name) for c in rows], dtype=np.float64 if is_float else np.int64
        )
    return ChipTable(**columns)  # type: ignore[arg-type]
