"""Defects of the engine over boxes, put back one at a time: some of them it once had."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rephaze.hardware.grid import CONSTRAINTS, LIMITS, Boxes, Corners, DesignGrid
from rephaze.search import box_bounds, box_certificate, box_engine, box_expansion
from rephaze.search.box_bounds import BoxBounding, corner_valuation
from rephaze.search.box_engine import BoxState
from rephaze.search.box_expansion import BoxExpansion

Patch = pytest.MonkeyPatch


def small_corner_for_speed(patch: Patch) -> None:
    """Plans are run on the smallest chip of a box."""
    sound = BoxBounding.__init__

    def mutant(self, models, grid, boxes, *args):
        sound(self, models, grid, boxes, *args)
        self._chips = grid.chips(boxes.first_bf[self._box_c])

    patch.setattr(BoxBounding, "__init__", mutant)


def large_corner_for_area(patch: Patch) -> None:
    """Plans are paid for as on the largest chip of a box."""
    sound = BoxBounding.__init__

    def mutant(self, models, grid, *args):
        sound(self, models, grid, *args)
        self._valuation = corner_valuation(models, self._chips)

    patch.setattr(BoxBounding, "__init__", mutant)


def corner_short_by_one(patch: Patch) -> None:
    """The last position that fits is left out of the large corner."""
    sound = DesignGrid._largest
    patch.setattr(DesignGrid, "_largest", lambda self, boxes: np.maximum(sound(self, boxes) - 1, boxes.first_bf))


def irregular_sides_spanned(patch: Patch) -> None:
    """Boxes range over array sides of every kind."""
    sound = DesignGrid._runs
    patch.setattr(DesignGrid, "_runs", lambda self, field: [np.sort(np.concatenate(sound(self, field)))])


def rules_asked_beyond_what_fits(patch: Patch) -> None:
    """A box is open if a chip that is too large keeps the rules."""
    sound = DesignGrid.corners

    def mutant(self, boxes):
        found = sound(self, boxes)
        is_ruled_b = found.closed_by_b == LIMITS.index(CONSTRAINTS)
        is_ruled_b &= self._may_hold(Boxes(boxes.first_bf, boxes.last_bf))
        return Corners(found.large_bf, np.where(is_ruled_b, -1, found.closed_by_b))

    patch.setattr(DesignGrid, "corners", mutant)


def half_closed_by_the_other(patch: Patch) -> None:
    """Both halves of a box have each other's bounds."""
    sound = BoxExpansion._halves

    def mutant(self, asked, large, reach):
        swapped = {}
        for b, halves in sound(self, asked, large, reach).items():
            pairs = zip(halves[::2], halves[1::2], strict=True)
            swapped[b] = [
                one
                for low, high in pairs
                for one in (
                    replace(low, upper=high.upper, by=high.by),
                    replace(high, upper=low.upper, by=low.by),
                )
            ]
        return swapped

    patch.setattr(BoxExpansion, "_halves", mutant)


def slab_recorded_whole(patch: Patch) -> None:
    """Of halves that are cut one after the other each is recorded as if it were the first."""
    sound = BoxExpansion._cut

    def mutant(self, b, halves):
        before = len(self._closed[b])
        found = sound(self, b, halves)
        closed = [half for half in halves if self._is_closed(half.upper)]
        for at, half in zip(range(before, len(self._closed[b])), closed, strict=False):
            self._closed[b][at] = replace(self._closed[b][at], first=half.first, last=half.last)
        return found

    patch.setattr(BoxExpansion, "_cut", mutant)


def what_does_not_fit_forgotten(patch: Patch) -> None:
    """Of a box with one design only that is kept."""
    sound = BoxExpansion._make_ready

    def mutant(self, b):
        before = len(self._closed[b])
        sound(self, b)
        del self._closed[b][before:]

    patch.setattr(BoxExpansion, "_make_ready", mutant)


def units_left_out_too_early(patch: Patch) -> None:
    """Units that might just reach the goal are not looked at again."""
    sound = box_bounds.longest_batches
    patch.setattr(box_bounds, "longest_batches", lambda *args, **how: 0.9 * sound(*args, **how))


def units_left_out_forgotten(patch: Patch) -> None:
    """Units that were too slow for an earlier goal count as if they had no plan."""
    sound = BoxBounding._left

    def mutant(self, units, c):
        found = sound(self, units, c)
        return tuple(replace(own, others_s=np.inf) for own in found)

    patch.setattr(BoxBounding, "_left", mutant)


def closed_a_little_above(patch: Patch) -> None:
    """Boxes are closed that might be a little better than the answer."""
    patch.setattr(
        BoxExpansion, "_is_closed", lambda self, upper: upper <= 0 or upper < self._goal.threshold * 1.05
    )


def tie_rule_ignored(patch: Patch) -> None:
    """What can only tie is closed, however small the chip."""
    sound = BoxState.goal.fget

    def mutant(self):
        goal = sound(self)
        return replace(goal, area_um2=0.0) if goal.has_answer and not self.within else goal

    patch.setattr(BoxState, "goal", property(mutant))


def dropped_counted_as_solved(patch: Patch) -> None:
    """A design that was dropped while being solved is recorded as one that was."""
    patch.setattr(box_engine, "SOLVED", "schedules and plans")
    patch.setattr(box_certificate, "SOLVED", "schedules and plans")


def ties_closed_at_any_bound(patch: Patch) -> None:
    """A larger chip is taken for one that ties at most, whatever its bound."""
    patch.setattr(box_expansion, "TIE", 0.2)
