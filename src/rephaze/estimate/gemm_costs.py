"""GEMMs on many chips: distinct core shapes are mapped once, by either model, and remembered.

Axis letters: c = chip, s = distinct core shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from sys import intern
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rephaze.estimate.arrays import Floats, Ints, Rows
from rephaze.estimate.costs import ELEMENT_BYTES, ChipRates, ModeCost, bounded_by_memory
from rephaze.estimate.cycles_between import Amounts, CyclesBetween
from rephaze.estimate.estimate_model import EstimateModel, Tiling
from rephaze.estimate.gemm_default.bounds import padded_bound_terms
from rephaze.estimate.gemm_default.core_shapes import CoreShapes
from rephaze.estimate.gemm_default.mapper import REGISTER_BYTES_PER_MAC, map_rows
from rephaze.estimate.gemm_paper.mapper import DivisorProblem, map_divisors
from rephaze.estimate.op_block import Dims
from rephaze.recent import Recent
from rephaze.types.energy import PAPER_WORD_BYTES
from rephaze.units import J_PER_PJ

if TYPE_CHECKING:
    from rephaze.estimate.gemm_paper.bounds import DivisorBounds

FEW_CHIPS = 24
"""So many are not looked through for those that are alike: it takes longer than to bound a product twice."""
ShapeKey = tuple[str, Dims, float, bytes]
"""Model and version, dimensions, side bytes, core shape."""


class MappedGemm(NamedTuple):
    """A GEMM on one core shape."""

    cycles: float
    buffer_bytes: float
    hbm_bytes: float
    traffic_j: float
    """Of moving bytes; in model ``paper`` all there is."""


class ShapeColumns(NamedTuple):
    """The same on many core shapes."""

    cycles_s: Floats
    buffer_bytes_s: Floats
    hbm_bytes_s: Floats
    traffic_j_s: Floats


MOST_MAPPED = 50_000
"""Kept, at half a kilobyte each. What is asked for again is so soon: eight times as many save a thirtieth of the
mappings."""


@dataclass(frozen=True, eq=False, slots=True)
class GemmMemo:
    """Mapped GEMMs by cost model, dimensions, side bytes and core shape; share one among estimators."""

    found: Recent[ShapeKey, MappedGemm] = field(default_factory=lambda: Recent(MOST_MAPPED))
    between: CyclesBetween = field(default_factory=CyclesBetween)

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
        num_cores_c: Ints,
        model: EstimateModel,
        memo: GemmMemo,
        wider: GemmColumns | None = None,
    ) -> None:
        self.rates, self.model, self.memo, self.wider = rates, model, memo, wider
        chips, energy = rates.chips, rates.energy
        every_chip = CoreShapes(
            num_cores=num_cores_c.astype(np.float64),
            width=chips.tensor_width.astype(np.float64),
            depth=chips.tensor_depth.astype(np.float64),
            scratchpad_bytes=chips.tensor_scratchpad_bytes.astype(np.float64),
            global_buffer_bytes=chips.global_buffer_bytes.astype(np.float64),
            scratchpad_bytes_per_cycle=chips.scratchpad_bytes_per_cycle,
            global_buffer_bytes_per_cycle=rates.buffer_bytes_per_cycle_c,
            hbm_bytes_per_cycle=rates.hbm_bytes_per_cycle_c,
            multicast=chips.global_buffer_multicast.astype(np.float64),
            scratchpad_j_per_byte=energy.tensor_scratchpad_j_per_byte_c,
            global_buffer_j_per_byte=energy.global_buffer_j_per_byte_c,
            hbm_j_per_byte=energy.hbm_j_per_byte_c,
        )
        self.shapes, self.shape_of_c = every_chip, np.arange(len(rates))
        if len(rates) > FEW_CHIPS:
            self.shapes, self.shape_of_c = every_chip.distinct()
        self._shape_keys = self.shapes.keys()
        self._exact: dict[tuple[Dims, float], ModeCost] = {}
        self._mapped_cycles: dict[tuple[Dims, float], Floats] = {}
        self._last_terms: tuple[tuple[Dims, float] | None, Sequence[Floats]] = (None, ())
        # One string for all keys: memos keep hundreds of thousands of them.
        self._version = intern(f"{model.name}/{model.version}")
        self._slower = 1.0
        if wider is not None:
            # All bandwidths fall alike, so shapes stay apart and in order.
            assert np.array_equal(self.shape_of_c, wider.shape_of_c)
            self._slower = float(wider.shapes.hbm_bytes_per_cycle[0] / self.shapes.hbm_bytes_per_cycle[0])

    def exact(self, dims: Dims, side_bytes: float = 0.0) -> ModeCost:
        """The mapped GEMM on every chip.

        Args:
            dims: Its dimensions.
            side_bytes: What absorbed work moves through HBM and global buffer while it runs, beyond the product's
                own matrices; the mapping is the best for both together (model ``paper``: not counted).
        """
        at = (dims, side_bytes)
        if at not in self._exact:
            self._exact[at] = self._found_exact(dims, side_bytes)
        return self._exact[at]

    def mapped_cycles(self, dims: Dims, side_bytes: float = 0.0) -> Floats:
        """The cycles of ``exact``, a value a chip: all that bounds ask of it, and found with fewer mappings."""
        at = (dims, side_bytes)
        if at in self._exact:
            return self._exact[at].cycles_c
        if at not in self._mapped_cycles:
            self._mapped_cycles[at] = self._found_cycles(dims, side_bytes)[self.shape_of_c]
        return self._mapped_cycles[at]

    def _found_cycles(self, dims: Dims, side_bytes: float) -> Floats:
        version, between = self._version, self.memo.between
        cycles_s = np.empty(len(self.shapes))
        missing: list[int] = []
        for s, (cores, amounts) in enumerate(self._cores_and_amounts):
            found = between.find((version, dims, side_bytes, cores), amounts)
            if found is None:
                missing.append(s)
            else:
                cycles_s[s] = found
        if missing:
            cycles_s[missing] = self._cycles_of(dims, side_bytes, missing)
            for s in missing:
                cores, amounts = self._cores_and_amounts[s]
                between.add((version, dims, side_bytes, cores), amounts, float(cycles_s[s]))
        return cycles_s

    def _cycles_of(self, dims: Dims, side_bytes: float, wanted: Sequence[int]) -> list[float]:
        """Cycles on some of the shapes, each mapped unless it, or one with more bandwidth, is known."""
        version, known = self._version, self.memo.found
        keys = {s: (version, dims, side_bytes, self._shape_keys[s]) for s in wanted}
        wide = {} if self.wider is None else {s: (*key[:3], self.wider._shape_keys[s]) for s, key in keys.items()}

        def as_if_wide(s: int) -> MappedGemm | None:
            found = known.get(wide[s]) if s in wide else None
            if found is None:
                return None
            far, middle = self.shapes.hbm_bytes_per_cycle[s], self.shapes.global_buffer_bytes_per_cycle[s]
            is_enough = max(found.hbm_bytes / far, found.buffer_bytes / middle) <= found.cycles
            return found if is_enough else None

        answers = {s: known.get(key) or as_if_wide(s) for s, key in keys.items()}
        # Each once, though chips that were not looked through may be alike.
        unknown = {keys[s]: s for s, found in answers.items() if found is None}
        mapped: dict[ShapeKey, MappedGemm] = {}
        if unknown:
            own = self._map(dims, side_bytes, np.array(list(unknown.values())))
            mapped.update(zip(unknown, own, strict=True))
            known.update(mapped)
        return [(found or mapped[keys[s]]).cycles for s, found in answers.items()]

    @cached_property
    def _cores_and_amounts(self) -> list[tuple[bytes, Amounts]]:
        """Of each shape what others must have too, and what they may have more or less of."""
        shapes = self.shapes
        same = (
            shapes.num_cores,
            shapes.width,
            shapes.depth,
            shapes.scratchpad_bytes,
            shapes.scratchpad_bytes_per_cycle,
            shapes.multicast,
        )
        amounts = (shapes.global_buffer_bytes, shapes.global_buffer_bytes_per_cycle, shapes.hbm_bytes_per_cycle)
        return [
            (row.tobytes(), Amounts(*own))
            for row, own in zip(np.stack(same, axis=1), np.stack(amounts, axis=1).tolist(), strict=True)
        ]

    def _found_exact(self, dims: Dims, side_bytes: float) -> ModeCost:
        if self.wider is not None:
            known = self.wider.exact(dims, side_bytes)
            if (
                bounded_by_memory(known.cycles_c, known.hbm_bytes_c, known.buffer_bytes_c, self.rates)
                <= known.cycles_c
            ).all():
                return known
        return self._spread(dims, self._mapped(dims, side_bytes))

    def bound(self, dims: Dims, side_bytes: float = 0.0) -> ModeCost:
        """No more than ``exact`` in time, bytes and energy; no mapping is searched."""
        batch, m, n, k = dims
        if self.model.tiling is Tiling.DIVISORS:
            nothing_s = np.zeros(len(self.shapes))
            cycles_s = self._divisor_bounds.cycles(batch * m, n, k)
            return self._spread(dims, ShapeColumns(cycles_s, nothing_s, nothing_s, nothing_s))
        cycles_s = np.maximum.reduce(self._bound_terms(dims, side_bytes))
        bytes_s = np.full(len(self.shapes), _least_bytes(dims, side_bytes))
        per_byte_j_s = self.shapes.global_buffer_j_per_byte + self.shapes.hbm_j_per_byte
        return self._spread(dims, ShapeColumns(cycles_s, bytes_s, bytes_s, bytes_s * per_byte_j_s))

    def _bound_terms(self, dims: Dims, side_bytes: float) -> Sequence[Floats]:
        """Lower bounds on the cycles of array, global buffer and HBM, each for itself."""
        if self.wider is None:
            at = (dims, side_bytes)
            if self._last_terms[0] != at:
                self._last_terms = (at, padded_bound_terms(*dims, self.shapes, side_bytes))
            return self._last_terms[1]
        # With a part of the bandwidths the same bytes take as much longer; arrays do not.
        array, middle, far = self.wider._bound_terms(dims, side_bytes)
        return array, middle * self._slower, far * self._slower

    @cached_property
    def _rows_s(self) -> Rows:
        return self.shapes.rows()

    @cached_property
    def _divisor_bounds(self) -> DivisorBounds:
        from rephaze.estimate.gemm_paper.bounds import DivisorBounds

        return DivisorBounds(
            num_cores_s=self.shapes.num_cores,
            width_s=self.shapes.width,
            depth_s=self.shapes.depth,
            scratchpad_words_s=self.shapes.scratchpad_bytes / PAPER_WORD_BYTES,
            buffer_words_s=self.shapes.global_buffer_bytes / PAPER_WORD_BYTES,
            model=self.model,
        )

    def _spread(self, dims: Dims, found: ShapeColumns) -> ModeCost:
        """What was found for core shapes, on the chips that have them."""

        def energy_j() -> Floats:
            traffic_j_c = found.traffic_j_s[self.shape_of_c]
            if self.model.tiling is not Tiling.PADDED:
                return traffic_j_c
            batch, m, n, k = dims
            macs = float(batch) * m * n * k
            energy = self.rates.energy
            return traffic_j_c + macs * (energy.mac_j_c + REGISTER_BYTES_PER_MAC * energy.register_j_per_byte_c)

        return ModeCost(
            cycles_c=found.cycles_s[self.shape_of_c],
            buffer_bytes_c=found.buffer_bytes_s[self.shape_of_c],
            hbm_bytes_c=found.hbm_bytes_s[self.shape_of_c],
            energy_of=energy_j,
        )

    def _mapped(self, dims: Dims, side_bytes: float) -> ShapeColumns:
        version, known = self._version, self.memo.found
        keys = [(version, dims, side_bytes, shape_key) for shape_key in self._shape_keys]
        # Each once, though chips that were not looked through may be alike.
        own = {key: known.get(key) for key in keys}
        missing = {key: s for s, key in enumerate(keys) if own[key] is None}
        if missing:
            mapped = self._map(dims, side_bytes, np.array(list(missing.values())))
            own.update(zip(missing, mapped, strict=True))
            known.update(zip(missing, mapped, strict=True))
        rows_s = np.array([own[key] for key in keys]).reshape(-1, len(MappedGemm._fields))
        return ShapeColumns(*rows_s.T)

    def _map(self, dims: Dims, side_bytes: float, wanted: Ints) -> list[MappedGemm]:
        if self.model.tiling is Tiling.DIVISORS:
            register_j = float(self.rates.energy.register_j_per_byte_c[0])
            return [_divisor_cost(dims, self.shapes, s, register_j, self.model) for s in wanted.tolist()]
        from rephaze.estimate.gemm_default.equations import mapping_cycles

        found_s = map_rows(*dims, self._rows_s[wanted], side_bytes)
        columns = mapping_cycles(found_s), found_s["middle_bytes"], found_s["far_bytes"], found_s["traffic_j"]
        return [MappedGemm(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _least_bytes(dims: Dims, side_bytes: float) -> float:
    """Every matrix once, and what absorbed work moves."""
    batch, m, n, k = dims
    return float(ELEMENT_BYTES) * batch * (float(m) * k + float(k) * n + float(m) * n) + side_bytes


def _divisor_cost(
    dims: Dims, shapes: CoreShapes, s: int, register_j_per_byte: float, model: EstimateModel
) -> MappedGemm:
    """One GEMM by the paper's cost function; the batch is folded into the rows."""
    word_pj = PAPER_WORD_BYTES / J_PER_PJ
    batch, m, n, k = dims
    found = map_divisors(
        DivisorProblem(
            rows_n=batch * m,
            features_k=n,
            reduction_c=k,
            num_tensor_cores=int(shapes.num_cores[s]),
            width=int(shapes.width[s]),
            depth=int(shapes.depth[s]),
            scratchpad_words=float(shapes.scratchpad_bytes[s]) / PAPER_WORD_BYTES,
            global_buffer_words=float(shapes.global_buffer_bytes[s]) / PAPER_WORD_BYTES,
            register_pj=register_j_per_byte * word_pj,
            scratchpad_pj=float(shapes.scratchpad_j_per_byte[s]) * word_pj,
            global_buffer_pj=float(shapes.global_buffer_j_per_byte[s]) * word_pj,
            dram_pj=float(shapes.hbm_j_per_byte[s]) * word_pj,
        ),
        model,
    )
    # Concurrent operators do not share bandwidth in the paper's rules: no bytes are charged.
    return MappedGemm(found.cycles, 0.0, 0.0, found.energy_j)
