"""How many designs a space has and what each limit removes, exactly, of a grid that nobody enumerates.

Area and power of a chip are sums over four parts: arrays, lanes, buffer and stacks. So the fields are put on two
sides whose combinations are few, and sums of one of each are counted (``pair_count``). Sums round otherwise than
``chip_area`` does: pairs within rounding of a limit are built as chips and compared as enumeration would. A rule
within one side removes entries of it; one across the sides is settled by boxes, kept, left out or split.

Axis letters: c = chip, k and j = entry of a side.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.area import chip_area
from rephaze.hardware.energy import full_power
from rephaze.hardware.grid import FIELDS, may_hold
from rephaze.hardware.pair_count import Pairs, PairSums, num_both_up_to
from rephaze.hardware.space import holds
from rephaze.hardware.template import build_chips
from rephaze.types.chip import ChipTable
from rephaze.types.space import Comparison, Constraint, DesignSpace

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Values = Mapping[str, Ints]
"""Of each field, in order: a box of the grid."""

ROUNDING = 1e-12
"""Relative: what two ways of adding up a chip may differ by, with a hundredfold margin."""
MOST_ENTRIES = 1 << 20
"""Of a side; a box with more is split."""

_ARRAYS = frozenset({"num_tensor_cores", "tensor_width", "tensor_depth"})
_LANES = frozenset({"num_vector_cores", "vector_lanes"})
_BUFFER, _STACKS = frozenset({"global_buffer_bytes"}), frozenset({"num_hbm_stacks"})
_PART_OF = {
    "num_macs": _ARRAYS,
    "tensor_scratchpad_bytes": _ARRAYS,
    "scratchpad_bytes_per_cycle": _ARRAYS,
    "num_lanes": _LANES,
    "vector_scratchpad_bytes": _LANES,
    "global_buffer_bytes_per_cycle": _BUFFER,
    "hbm_bytes": _STACKS,
    "hbm_bytes_per_s": _STACKS,
} | {field: part for part in (_ARRAYS, _LANES, _BUFFER, _STACKS) for field in part}
"""Fields of a chip that a space varies, directly or by its template; the others are the same for all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bounds:
    """Up to what chips are counted."""

    area_um2: float
    is_area_included: bool
    power_w: float

    def keep(self, area_um2_c: Floats, power_w_c: Floats) -> NDArray[np.bool_]:
        is_small_c = area_um2_c <= self.area_um2 if self.is_area_included else area_um2_c < self.area_um2
        kept: NDArray[np.bool_] = is_small_c & (power_w_c <= self.power_w)
        return kept


class RuledGrid:
    """The points of a space's grid that keep to some rules, to be counted by area and power.

    Args:
        space: The space; its own limits do not matter here.
        rules: What is kept.
        only_several: Leave out chips with a single tensor or vector core.
    """

    def __init__(self, space: DesignSpace, rules: tuple[Constraint, ...] = (), *, only_several: bool = False):
        self.space, self.rules = space, rules
        lists = {name: getattr(space, name) or (0,) for name in FIELDS}
        values = {name: np.array(sorted(listed), dtype=np.int64) for name, listed in lists.items()}
        if only_several:
            for name in ("num_tensor_cores", "num_vector_cores"):
                values[name] = values[name][values[name] > 1]
        self._values: Values = values

    def num_within(self, bounds: _Bounds) -> int:
        """Chips within bounds, exactly."""
        return sum(one.num_within(bounds) for one in self._two_sided())

    def areas_between(self, low_um2: float, high_um2: float, power_w: float) -> Floats:
        """Areas of the chips above one and up to another, exactly; rather few, or it takes memory."""
        found = [one.between(low_um2, high_um2, power_w)[1] for one in self._two_sided()]
        return np.concatenate([np.zeros(0), *found])

    def values_between(self, low_um2: float, high_um2: float, power_w: float) -> Values:
        """The same chips by the values of their fields."""
        found = [one.between(low_um2, high_um2, power_w)[0] for one in self._two_sided()]
        none = np.zeros(0, dtype=np.int64)
        return {name: np.concatenate([none, *(own[name] for own in found)]) for name in FIELDS}

    def _two_sided(self) -> Iterator[_TwoSides] | list[_TwoSides]:
        return self._held if len(self._boxes) == 1 else (_TwoSides(self.space, *box) for box in self._boxes)

    @cached_property
    def _held(self) -> list[_TwoSides]:
        return [_TwoSides(self.space, *box) for box in self._boxes]

    @cached_property
    def _boxes(self) -> list[tuple[Values, tuple[Constraint, ...], frozenset[str]]]:
        """Boxes that cover what is kept: their values, rules still to be applied, and the fields of one side."""
        found = []
        left = [(self._values, self.rules)] if all(map(len, self._values.values())) else []
        while left:
            values, rules = left.pop()
            settled = {rule: _settled(self.space, rule, values) for rule in rules}
            if False in settled.values():
                continue
            mixed = tuple(rule for rule, holds_everywhere in settled.items() if holds_everywhere is None)
            side = _best_side(self.space, values, mixed)
            largest = max((side, frozenset(FIELDS) - side), key=lambda one: _num_entries(values, one))
            if _num_entries(values, largest) <= MOST_ENTRIES:
                found.append((values, mixed, side))
                continue
            name = max(sorted(largest), key=lambda one: len(values[one]))
            half = len(values[name]) // 2
            left += [({**values, name: part}, mixed) for part in (values[name][:half], values[name][half:])]
        return found


class _TwoSides:
    """A box as all combinations of the entries of two sides."""

    def __init__(
        self, space: DesignSpace, values: Values, rules: tuple[Constraint, ...], side: frozenset[str]
    ) -> None:
        self.space = space
        smallest = {name: listed[:1] for name, listed in values.items()}
        self._first, self._second = (
            self._kept(_columns(values, own), smallest, [rule for rule in rules if _fields_of(space, rule) <= own])
            for own in (side, frozenset(FIELDS) - side)
        )
        base = self._measured(smallest)
        first_mk, second_mj = (self._measured({**smallest, **one}) for one in (self._first, self._second))
        # Each side was measured with the smallest of the other, which must count once.
        sums = [PairSums(own_k, own_j - low) for own_k, own_j, low in zip(first_mk, second_mj, base, strict=True)]
        self._area, self._power = sums

    def num_within(self, bounds: _Bounds) -> int:
        low_um2, high_um2 = _around(bounds.area_um2)
        if math.isinf(bounds.power_w):
            return self._area.num_up_to(low_um2) + self._num_kept(self._area.between(low_um2, high_um2), bounds)
        low_w, high_w = _around(bounds.power_w)
        sure = num_both_up_to(self._area, self._power, low_um2, low_w)
        near = [self._area.between(low_um2, high_um2), self._power.between(low_w, high_w)]
        num_j = max(len(self._area.second_j), 1)
        both = np.unique(np.concatenate([one.k_p * num_j + one.j_p for one in near]))
        return sure + self._num_kept(Pairs(*np.divmod(both, num_j)), bounds)

    def between(self, low_um2: float, high_um2: float, power_w: float) -> tuple[Values, Floats]:
        columns = self._columns(self._area.between(_around(low_um2)[0], _around(high_um2)[1]))
        area_c, power_c = self._measured(columns)
        keep_c = (area_c > low_um2) & (area_c <= high_um2) & (power_c <= power_w)
        return {name: own[keep_c] for name, own in columns.items()}, area_c[keep_c]

    def _num_kept(self, pairs: Pairs, bounds: _Bounds) -> int:
        return int(bounds.keep(*self._measured(self._columns(pairs))).sum())

    def _columns(self, pairs: Pairs) -> Values:
        columns = {name: own[pairs.k_p] for name, own in self._first.items()}
        return columns | {name: own[pairs.j_p] for name, own in self._second.items()}

    def _kept(self, side: Values, smallest: Values, rules: list[Constraint]) -> Values:
        chips = _chips(self.space, {**smallest, **side})
        keep = np.ones(len(chips), dtype=np.bool_)
        for rule in rules:
            keep &= holds(rule, chips, chips)
        return {name: own[keep] for name, own in side.items()}

    def _measured(self, columns: Values) -> tuple[Floats, Floats]:
        """Area and power of chips, as enumeration finds them; no power where nothing limits it."""
        chips, model = _chips(self.space, columns), self.space.area_model
        is_limited = math.isfinite(self.space.power_limit_w)
        power_c = full_power(chips, model).total_w_c if is_limited else np.zeros(len(chips))
        return chip_area(chips, model).total_um2_c, power_c


def bounds_of(space: DesignSpace, area_um2: float, *, is_area_included: bool, power_limited: bool) -> _Bounds:
    """Up to an area, and to the space's power limit if asked."""
    power_w = space.power_limit_w if power_limited else math.inf
    return _Bounds(area_um2=area_um2, is_area_included=is_area_included, power_w=power_w)


def _chips(space: DesignSpace, columns: Values) -> ChipTable:
    num = max(len(own) for own in columns.values())
    if not all(len(own) for own in columns.values()):
        num = 0
    whole = {name: np.broadcast_to(own, num) if num else own[:0] for name, own in columns.items()}
    if space.vector_lanes is None:
        whole["vector_lanes"] = whole["tensor_width"]
    options = space.hbm_bytes_options
    return build_chips(**whole, template=space.template, hbm_bytes=max(options) if options else None)


def _columns(values: Values, names: frozenset[str]) -> Values:
    """All combinations of some fields."""
    ordered = [name for name in FIELDS if name in names]
    grids = np.meshgrid(*(values[name] for name in ordered), indexing="ij")
    return {name: grid.ravel() for name, grid in zip(ordered, grids, strict=True)}


def _num_entries(values: Values, names: frozenset[str]) -> int:
    return math.prod(len(values[name]) for name in names)


def _around(limit: float) -> tuple[float, float]:
    return limit - abs(limit) * ROUNDING, limit + abs(limit) * ROUNDING


def _parts(space: DesignSpace) -> list[frozenset[str]]:
    """Fields whose areas and powers do not simply add up, together."""
    # Cores as wide as arrays take their lanes from the width.
    cores = [_ARRAYS | _LANES] if space.vector_lanes is None else [_ARRAYS, _LANES]
    return [*cores, _BUFFER, _STACKS]


def _fields_of(space: DesignSpace, rule: Constraint) -> frozenset[str]:
    """Fields that a rule depends on, and those of their parts."""
    asked = {field for name in (*rule.left_fields, *rule.right_fields) for field in _PART_OF.get(name, ())}
    return frozenset().union(*(part for part in _parts(space) if part & asked))


def _best_side(space: DesignSpace, values: Values, rules: tuple[Constraint, ...]) -> frozenset[str]:
    """One of two sides that no rule crosses, such that the larger has fewest entries."""
    parts = _parts(space)
    some = chain.from_iterable(combinations(parts, num) for num in range(1, len(parts)))
    sides = [frozenset().union(*chosen) for chosen in some] + [frozenset(FIELDS)]
    whole = frozenset(FIELDS)
    asked = [_fields_of(space, rule) for rule in rules]
    legal = [side for side in sides if all(own <= side or own <= whole - side for own in asked)]
    return min(legal, key=lambda side: max(_num_entries(values, side), _num_entries(values, whole - side)))


def _settled(space: DesignSpace, rule: Constraint, values: Values) -> bool | None:
    """Whether a rule holds for all chips of a box, or for none; None if neither is known."""
    small, large = (
        _chips(space, {name: listed[end] for name, listed in values.items()})
        for end in (slice(0, 1), slice(-1, None))
    )
    if not may_hold(rule, small, large).all():
        return False
    against = {
        Comparison.AT_MOST: (Comparison.ABOVE,),
        Comparison.BELOW: (Comparison.AT_LEAST,),
        Comparison.AT_LEAST: (Comparison.BELOW,),
        Comparison.ABOVE: (Comparison.AT_MOST,),
        Comparison.EQUAL: (Comparison.ABOVE, Comparison.BELOW),
    }[rule.comparison]
    may_break = any(may_hold(replace(rule, comparison=one), small, large).any() for one in against)
    return None if may_break else True
