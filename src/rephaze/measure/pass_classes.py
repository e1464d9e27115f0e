"""Passes that differ only in how a sequence is cut: bounded together, as one pass that is no slower than any.

Chips that share a sequence each work on a part of its tokens. A microbatch of b samples over cp chips has the
tokens of b / cp samples, and but for attention and its messages every operator is what it would be for those.
So cuts and microbatch sizes with the same tokens a chip, in whatever form attention meets the keys of others, form
a class. The pass that stands for them keeps only what all have in common: operators of one name, each as quick as
the quickest of its namesakes, and one after another where that is so in all (docs/proof.md, 5.6).

Axis letters: m = mode, o = operator, c = chip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.block_cycles import BlockBounds
from rephaze.estimate.estimator import Estimator, SomeChips
from rephaze.estimate.op_at import OpAt, op_at
from rephaze.estimate.op_block import OpBlock
from rephaze.schedule.structure import ScheduleStructure, compile_structure
from rephaze.types.cut import GraphCut
from rephaze.types.graph import OpGraph, OpKind
from rephaze.types.latency import IMPOSSIBLE_CYCLES, Engine, ModeBounds

RING_STEPS = ".ring"
"""Ends the name of the operator with all steps of a ring but the last, which has the plain name."""

Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]
Chain = tuple[OpAt, ...]
"""Operators one after another, which together do what one does in another graph."""


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class PassWork:
    """One direction of one layer type."""

    graph: OpGraph
    structure: ScheduleStructure


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class PassClass:
    """Cuts and microbatch sizes whose passes are bounded as one."""

    tokens: Fraction
    """Of a chip, in samples."""
    pairs: tuple[tuple[GraphCut, int], ...]


class CommonPass:
    """What passes have in common, ready to be bounded on many chips.

    Args:
        structure: Of the operators.
        chains_o: The ways to do what an operator does; none for a view.
    """

    def __init__(self, structure: ScheduleStructure, chains_o: tuple[tuple[Chain, ...], ...]) -> None:
        self.structure, self.chains_o = structure, chains_o
        # The first entry is for views.
        number: dict[object, int] = {None: 0}
        ops: list[OpAt | None] = [None]
        for one in (one for chains in chains_o for chain in chains for one in chain):
            if number.setdefault(one.key, len(ops)) == len(ops):
                ops.append(one)
        self.block = OpBlock(ops)
        ways_o = [[[number[one.key] for one in chain] for chain in chains] for chains in chains_o]
        self._first_o = np.array([ways[0][0] if ways else 0 for ways in ways_o], dtype=np.intp)
        self._manifold = {o: ways for o, ways in enumerate(ways_o) if ways and (len(ways) > 1 or len(ways[0]) > 1)}
        """Operators that are not simply one of the block."""

    def bounds(self, estimator: Estimator | SomeChips, *, is_mapped: bool) -> ModeBounds:
        """Cycles that no operator goes below in any of the passes."""
        return estimator.mode_bounds(self._joined(estimator.least(self.block, is_mapped=is_mapped)))

    def in_modes(self, estimator: Estimator) -> ModeBounds:
        """Cycles that no operator goes below in any of the passes, products mapped in every mode."""
        return estimator.mode_bounds(self._joined(estimator.in_modes(self.block)))

    def _joined(self, found: BlockBounds) -> BlockBounds:
        joined = BlockBounds(
            found.cycles_mnc[:, self._first_o],
            found.uses_hbm_n[self._first_o],
            found.uses_buffer_n[self._first_o],
        )
        for o, ways in self._manifold.items():
            best = _quickest([_together([_one_of(found, n) for n in way]) for way in ways])
            joined.cycles_mnc[:, o] = best.cycles_mc
            joined.uses_hbm_n[o], joined.uses_buffer_n[o] = best.uses_hbm, best.uses_buffer
        return joined


class OpBound(NamedTuple):
    """One operator on many chips: no mode takes fewer cycles."""

    cycles_mc: Ints
    uses_hbm: bool
    uses_buffer: bool


def _one_of(found: BlockBounds, n: int) -> OpBound:
    return OpBound(found.cycles_mnc[:, n], bool(found.uses_hbm_n[n]), bool(found.uses_buffer_n[n]))


class Structures:
    """Compiled structures: passes that differ in sizes alone have one, with all that is found of it later."""

    def __init__(self) -> None:
        self._made: dict[object, ScheduleStructure] = {}

    def get(self, engines: Sequence[Engine], edges: tuple[tuple[int, int], ...]) -> ScheduleStructure:
        """Of operators with these engines, one after another as the edges say."""
        key = (tuple(engines), edges)
        if key not in self._made:
            self._made[key] = compile_structure(engines, edges)
        return self._made[key]

    def of_relation(self, engines: Sequence[Engine], before_ab: Flags) -> ScheduleStructure:
        """The same of a relation: whether the first of two comes before the second."""
        key = (tuple(engines), before_ab.tobytes())
        if key not in self._made:
            edges = [(int(a), int(b)) for a, b in np.argwhere(before_ab)]
            self._made[key] = compile_structure(engines, edges)
        return self._made[key]


def common_pass(
    passes: Sequence[tuple[PassWork, int]], structures: Structures | None = None, *, joins_rings: bool = True
) -> CommonPass:
    """What passes have in common, each given with its microbatch size.

    Args:
        passes: At least one.
        structures: Of passes before.
        joins_rings: The steps of a ring stand for one operator, to be held against that of other forms. Its parts
            may run in modes of their own and at other times: loads and paths are bounded by it, schedules are not.
    """
    first, microbatch = passes[0]
    if len(passes) == 1:
        chains = [() if op.kind is OpKind.VIEW else ((op_at(op, microbatch),),) for op in first.graph.ops]
        return CommonPass(structure=first.structure, chains_o=tuple(chains))
    named = [_Named(*one, joins_rings=joins_rings) for one in passes]
    kept = [
        op.name for op in first.graph.ops if op.kind is not OpKind.VIEW and all(op.name in one for one in named)
    ]
    engines = {name: _common_engine({one.engine(name) for one in named}) for name in kept}
    kept = [name for name in kept if engines[name] is not Engine.NONE]
    before_ab = np.logical_and.reduce([one.before(kept) for one in named])
    return CommonPass(
        structure=(structures or Structures()).of_relation([engines[name] for name in kept], before_ab),
        chains_o=tuple(_distinct(one.chain(name) for one in named) for name in kept),
    )


class _Named:
    """One pass by the names of its operators."""

    def __init__(self, one_pass: PassWork, microbatch: int, *, joins_rings: bool) -> None:
        self._joins_rings = joins_rings
        self._ops, self._structure, self._microbatch = one_pass.graph.ops, one_pass.structure, microbatch
        self._at = {op.name: o for o, op in enumerate(self._ops)}
        self._num_of = Counter(op.name for op in self._ops)
        self._places_of: dict[str, tuple[int, ...]] = {}

    def __contains__(self, name: str) -> bool:
        """Whether the name means one operator, and not some steps of another's."""
        return self._num_of[name] == 1 and not (self._joins_rings and self._is_ring_step(self._at[name]))

    def chain(self, name: str) -> Chain:
        return tuple(op_at(self._ops[o], self._microbatch) for o in self._places(name))

    def engine(self, name: str) -> Engine:
        return self._structure.engines[self._at[name]]

    def before(self, names: Sequence[str]) -> Flags:
        """Of each two: whether the first ends before the second begins in every schedule."""
        place = self._structure.place
        begins = place[[self._places(name)[0] for name in names]]
        ends = place[[self._places(name)[-1] for name in names]]
        found: Flags = self._structure.before_oo[np.ix_(begins, ends)].T
        return found

    def _places(self, name: str) -> tuple[int, ...]:
        if name not in self._places_of:
            self._places_of[name] = self._find_places(name)
        return self._places_of[name]

    def _find_places(self, name: str) -> tuple[int, ...]:
        last, steps = self._at[name], self._at.get(name + RING_STEPS) if self._joins_rings else None
        if steps is None or self._num_of[name + RING_STEPS] != 1 or not self._is_ring_step(steps):
            return (last,)
        # Only what follows each other can stand for one operator; other steps are left out.
        place = self._structure.place
        return (steps, last) if self._structure.before_oo[place[last], place[steps]] else (last,)

    def _is_ring_step(self, o: int) -> bool:
        op = self._ops[o]
        is_ring = op.attention is not None and op.attention.num_ring_members > 1
        return is_ring and op.name.endswith(RING_STEPS) and op.name.removesuffix(RING_STEPS) in self._at


def has_ring(one_pass: PassWork) -> bool:
    """Whether some operator does the steps of a ring."""
    return any(op.attention is not None and op.attention.num_ring_members > 1 for op in one_pass.graph.ops)


def _common_engine(engines: set[Engine]) -> Engine:
    """What an operator holds in all passes; nothing if that differs."""
    if len(engines) == 1:
        return engines.pop()
    for part in (Engine.TENSOR, Engine.VECTOR):
        if engines == {part, Engine.FUSED}:
            return part
    return Engine.NONE


def _distinct(chains: Iterator[Chain]) -> tuple[Chain, ...]:
    return tuple({tuple(one.key for one in chain): chain for chain in chains}.values())


def _quickest(found: Sequence[OpBound]) -> OpBound:
    """What the quickest of several ways takes at least."""
    if len(found) == 1:
        return found[0]
    return OpBound(
        np.minimum.reduce([one.cycles_mc for one in found]),
        all(one.uses_hbm for one in found),
        all(one.uses_buffer for one in found),
    )


def _together(chain: Sequence[OpBound]) -> OpBound:
    """Operators one after another as one, whose mode is one for all.

    Each has a mode of its own; where their times are in the same proportion in all modes, that is of no use. Where
    the first has between a part p and a part q of the whole, at most a part q - p of it is gained.
    """
    if len(chain) == 1:
        return chain[0]
    first_mc, total_mc = chain[0].cycles_mc, np.add.reduce([one.cycles_mc for one in chain])
    possible = [one.cycles_mc < IMPOSSIBLE_CYCLES for one in chain]
    if any((other != possible[0]).any() for other in possible):
        return chain[-1]  # no proportion to go by
    is_possible = possible[0]
    part_mc = np.divide(first_mc, total_mc, out=np.full(total_mc.shape, np.nan), where=total_mc > 0)
    part_mc[~is_possible] = np.nan
    most_c = np.nan_to_num(np.fmax.reduce(part_mc, axis=0))
    least_c = np.nan_to_num(np.fmin.reduce(part_mc, axis=0))
    cycles_mc = np.floor(total_mc * (1.0 - (most_c - least_c)) * (1 - 1e-12)).astype(np.int64)
    return OpBound(
        np.where(is_possible, cycles_mc, IMPOSSIBLE_CYCLES),
        all(one.uses_hbm for one in chain),
        all(one.uses_buffer for one in chain),
    )
