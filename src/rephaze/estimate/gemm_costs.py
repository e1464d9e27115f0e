"""GEMMs on the columns of many chips: distinct core shapes are mapped once and remembered.

Axis letters: c = chip, s = distinct core shape.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.costs import ChipRates, ModeCost, bounded_by_memory
from rephaze.estimate.estimate_model import EstimateModel, Tiling
from rephaze.estimate.gemm_default.bounds import padded_bound_cycles
from rephaze.estimate.gemm_default.mapper import REGISTER_BYTES_PER_MAC, CoreShapes, map_shapes
from rephaze.estimate.gemm_paper.mapper import DivisorProblem, map_divisors
from rephaze.units import J_PER_PJ

if TYPE_CHECKING:
    from rephaze.estimate.gemm_paper.bounds import DivisorBounds

Floats = NDArray[np.float64]
Dims = tuple[int, int, int, int]
"""batch, m, n, k"""

ELEMENT_BYTES = 2
_NUM_KEPT = 4
"""Cycles, buffer bytes, HBM bytes, energy of the traffic."""


@dataclass(frozen=True, eq=False, slots=True)
class GemmMemo:
    """Mapped GEMMs by cost model, dimensions, side bytes and core shape; share one among estimators."""

    found: dict[tuple[str, Dims, float, bytes], tuple[float, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.found)


class GemmColumns:
    """The core shapes of a set of chips, in one mode, ready for GEMMs.

    Args:
        rates: The chips.
        num_cores_c: Tensor cores a GEMM runs on, one entry a chip.
        model: The cost model.
        memo: Where mapped GEMMs are kept.
        wider: The same with more bandwidth: where a mapping found there needs no more than these have, it is the
            best here too.
    """

    def __init__(
        self,
        rates: ChipRates,
        num_cores_c: NDArray[np.int64],
        model: EstimateModel,
        memo: GemmMemo,
        wider: GemmColumns | None = None,
    ) -> None:
        self.rates, self.model, self.memo, self.wider = rates, model, memo, wider
        chips, energy = rates.chips, rates.energy
        columns = (
            num_cores_c,
            chips.tensor_width,
            chips.tensor_depth,
            chips.tensor_scratchpad_bytes,
            chips.global_buffer_bytes,
            chips.scratchpad_bytes_per_cycle,
            rates.buffer_bytes_per_cycle_c,
            rates.hbm_bytes_per_cycle_c,
            chips.global_buffer_multicast,
            energy.tensor_scratchpad_j_per_byte_c,
            energy.global_buffer_j_per_byte_c,
            energy.hbm_j_per_byte_c,
        )
        table = np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
        self.shape_rows, inverse = np.unique(table, axis=0, return_inverse=True)
        self.shape_of_c = inverse.reshape(-1)
        self.shapes = _core_shapes(self.shape_rows)

    def exact(self, dims: Dims, side_bytes: float = 0.0) -> ModeCost:
        """The mapped GEMM on every chip.

        Args:
            dims: Its dimensions.
            side_bytes: What absorbed work moves through HBM and global buffer while it runs, beyond the product's
                own matrices; the mapping is the best for both together (model ``paper``: not counted).
        """
        if self.wider is not None:
            known = self.wider.exact(dims, side_bytes)
            if (
                bounded_by_memory(known.cycles_c, known.hbm_bytes_c, known.buffer_bytes_c, self.rates)
                <= known.cycles_c
            ).all():
                return known
        return self._spread(dims, self._mapped(dims, side_bytes))

    def with_least_bytes(self, dims: Dims, side_bytes: float = 0.0) -> ModeCost:
        """As ``exact`` in time, as ``bound`` in bytes: no mapping for less bandwidth is faster or moves less."""
        found = self.exact(dims, side_bytes)
        if self.model.tiling is not Tiling.PADDED:
            return found
        bytes_c = np.full(len(found.cycles_c), _least_bytes(dims, side_bytes))
        return replace(found, buffer_bytes_c=bytes_c, hbm_bytes_c=bytes_c)

    def bound(self, dims: Dims, side_bytes: float = 0.0) -> ModeCost:
        """No more than ``exact`` in time, bytes and energy; no mapping is searched."""
        batch, m, n, k = dims
        least_bytes = _least_bytes(dims, side_bytes)
        found_s = np.zeros((len(self.shape_rows), _NUM_KEPT))
        if self.model.tiling is Tiling.PADDED:
            found_s[:, 0] = padded_bound_cycles(batch, m, n, k, self.shapes, side_bytes)
            found_s[:, 1] = found_s[:, 2] = least_bytes
            per_byte_j = self.shapes.global_buffer_j_per_byte + self.shapes.hbm_j_per_byte
            found_s[:, 3] = least_bytes * per_byte_j
        else:
            found_s[:, 0] = self._divisor_bounds.cycles(batch * m, n, k)
        return self._spread(dims, found_s)

    @cached_property
    def _divisor_bounds(self) -> DivisorBounds:
        from rephaze.estimate.gemm_paper.bounds import DivisorBounds

        return DivisorBounds(
            num_cores_s=self.shapes.num_cores,
            width_s=self.shapes.width,
            depth_s=self.shapes.depth,
            scratchpad_words_s=self.shapes.scratchpad_bytes / ELEMENT_BYTES,
            buffer_words_s=self.shapes.global_buffer_bytes / ELEMENT_BYTES,
            model=self.model,
        )

    def _spread(self, dims: Dims, found_s: Floats) -> ModeCost:
        found_c = found_s[self.shape_of_c]
        energy_j = found_c[:, 3]
        if self.model.tiling is Tiling.PADDED:
            macs = float(dims[0]) * dims[1] * dims[2] * dims[3]
            energy = self.rates.energy
            energy_j = energy_j + macs * (energy.mac_j_c + REGISTER_BYTES_PER_MAC * energy.register_j_per_byte_c)
        return ModeCost(
            cycles_c=found_c[:, 0],
            buffer_bytes_c=found_c[:, 1],
            hbm_bytes_c=found_c[:, 2],
            energy_j_c=energy_j,
        )

    def _mapped(self, dims: Dims, side_bytes: float) -> Floats:
        version = f"{self.model.name}/{self.model.version}"
        keys = [(version, dims, side_bytes, row.tobytes()) for row in self.shape_rows]
        missing = [s for s, key in enumerate(keys) if key not in self.memo.found]
        if missing:
            for s, row in zip(missing, self._map(dims, side_bytes, np.array(missing)), strict=True):
                self.memo.found[keys[s]] = tuple(row)
        return np.array([self.memo.found[key] for key in keys]).reshape(-1, _NUM_KEPT)

    def _map(self, dims: Dims, side_bytes: float, wanted: NDArray[np.intp]) -> list[list[float]]:
        shapes = _core_shapes(self.shape_rows[wanted])
        if self.model.tiling is Tiling.PADDED:
            from rephaze.estimate.gemm_default import equations as terms

            rows = map_shapes(*dims, shapes, side_bytes)
            kept: list[list[float]] = rows[
                :, [terms.CYCLES, terms.MIDDLE_BYTES, terms.FAR_BYTES, terms.ENERGY]
            ].tolist()
            return kept
        register_j = float(self.rates.energy.register_j_per_byte_c[0])
        return [_divisor_cost(dims, shapes, s, register_j, self.model) for s in range(len(wanted))]


def _least_bytes(dims: Dims, side_bytes: float) -> float:
    """Every matrix once, and what absorbed work moves."""
    batch, m, n, k = dims
    return float(ELEMENT_BYTES) * batch * (float(m) * k + float(k) * n + float(m) * n) + side_bytes


def _core_shapes(rows: Floats) -> CoreShapes:
    columns = [np.ascontiguousarray(rows[:, j]) for j in range(rows.shape[1])]
    return CoreShapes(
        num_cores=columns[0],
        width=columns[1],
        depth=columns[2],
        scratchpad_bytes=columns[3],
        global_buffer_bytes=columns[4],
        scratchpad_bytes_per_cycle=columns[5],
        global_buffer_bytes_per_cycle=columns[6],
        hbm_bytes_per_cycle=columns[7],
        multicast=columns[8],
        scratchpad_j_per_byte=columns[9],
        global_buffer_j_per_byte=columns[10],
        hbm_j_per_byte=columns[11],
    )


def _divisor_cost(
    dims: Dims, shapes: CoreShapes, s: int, register_j_per_byte: float, model: EstimateModel
) -> list[float]:
    """One GEMM by the paper's cost function; the batch is folded into the rows, words have two bytes."""
    word_pj = ELEMENT_BYTES / J_PER_PJ
    batch, m, n, k = dims
    found = map_divisors(
        DivisorProblem(
            rows_n=batch * m,
            features_k=n,
            reduction_c=k,
            num_tensor_cores=int(shapes.num_cores[s]),
            width=int(shapes.width[s]),
            depth=int(shapes.depth[s]),
            scratchpad_words=float(shapes.scratchpad_bytes[s]) / ELEMENT_BYTES,
            global_buffer_words=float(shapes.global_buffer_bytes[s]) / ELEMENT_BYTES,
            register_pj=register_j_per_byte * word_pj,
            scratchpad_pj=float(shapes.scratchpad_j_per_byte[s]) * word_pj,
            global_buffer_pj=float(shapes.global_buffer_j_per_byte[s]) * word_pj,
            dram_pj=float(shapes.hbm_j_per_byte[s]) * word_pj,
        ),
        model,
    )
    # Concurrent operators do not share bandwidth in the paper's rules: no bytes are charged.
    return [found.cycles, 0.0, 0.0, found.energy_j]
