"""Chips as the estimates read them: distinct columns once, rates per cycle, energies beside.

Axis letters: c = chip, s = distinct core shape.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.models import CostModel
from rephaze.estimate.padded_gemm import CoreShapes
from rephaze.types.chip import ChipTable
from rephaze.types.cluster import Cluster
from rephaze.types.energy import AccessEnergy

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimateContext:
    """Everything but the operator: chips, energies, network, cost model, microbatch."""

    chips: ChipTable
    energy: AccessEnergy
    cluster: Cluster
    model: CostModel
    microbatch: int
    hbm_bytes_per_cycle_c: Floats

    def __len__(self) -> int:
        return len(self.chips)

    def num_tensor_cores(self, all_cores: bool) -> Floats:
        """Tensor cores a mode uses on each chip."""
        used = self.chips.num_tensor_cores if all_cores else np.ones(len(self), dtype=np.int64)
        return np.asarray(used, dtype=np.float64)

    def num_lanes(self, all_cores: bool) -> Floats:
        """Vector lanes a mode uses on each chip."""
        return np.asarray(self.chips.num_lanes if all_cores else self.chips.vector_lanes, dtype=np.float64)

    def core_shapes(self, all_cores: bool) -> CoreShapes:
        """What the mapper needs, a row a chip."""
        chips, energy = self.chips, self.energy
        return CoreShapes(
            num_cores=self.num_tensor_cores(all_cores),
            width=chips.tensor_width.astype(np.float64),
            depth=chips.tensor_depth.astype(np.float64),
            scratchpad_bytes=chips.tensor_scratchpad_bytes.astype(np.float64),
            global_buffer_bytes=chips.global_buffer_bytes.astype(np.float64),
            scratchpad_bytes_per_cycle=chips.scratchpad_bytes_per_cycle,
            global_buffer_bytes_per_cycle=chips.global_buffer_bytes_per_cycle,
            hbm_bytes_per_cycle=self.hbm_bytes_per_cycle_c,
            multicast=chips.global_buffer_multicast.astype(np.float64),
            scratchpad_j_per_byte=energy.tensor_scratchpad_j_per_byte_c,
            global_buffer_j_per_byte=energy.global_buffer_j_per_byte_c,
            hbm_j_per_byte=energy.hbm_j_per_byte_c,
        )


def estimate_context(
    chips: ChipTable, energy: AccessEnergy, cluster: Cluster, model: CostModel, microbatch: int
) -> EstimateContext:
    """The context of a table of estimates."""
    return EstimateContext(
        chips=chips,
        energy=energy,
        cluster=cluster,
        model=model,
        microbatch=microbatch,
        hbm_bytes_per_cycle_c=chips.hbm_bytes_per_s / chips.clock_hz,
    )
