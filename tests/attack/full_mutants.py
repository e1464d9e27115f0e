"""Defects of cost model ``full`` put back on purpose, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from rephaze.measure import cut_forms, full_times, layer_bounds, model_work, pass_classes
from rephaze.measure.full_planner import FullPlanner
from rephaze.measure.pass_classes import OpBound
from rephaze.place.full import solver as full_solver
from rephaze.place.full.chip_bounds import FullChipBounds
from rephaze.place.full.solver import FullPlacer
from rephaze.types.full import DeviceOrder, PlanFamily, PlanOptions
from rephaze.types.stopping import UNSTOPPED

Patch = pytest.MonkeyPatch
TOO_TIGHT = 0.97
OVERCHARGED = 2.0
"""Each replay counted twice."""


def slowest_of_a_class(patch: Patch) -> None:
    """The common pass of a class takes each operator as slow as its slowest namesake."""

    def mutant(found):
        return OpBound(
            np.maximum.reduce([one.cycles_mc for one in found]), found[0].uses_hbm, found[0].uses_buffer
        )

    patch.setattr(pass_classes, "_quickest", mutant)


def order_of_the_first(patch: Patch) -> None:
    """The common pass keeps every operator of its first form, in that form's order."""
    sound = pass_classes.common_pass

    def mutant(passes, structures, *, joins_rings):
        return sound(passes[:1], structures, joins_rings=joins_rings)

    patch.setattr(cut_forms, "common_pass", mutant)


def tight_layouts(patch: Patch) -> None:
    """The closed form of layouts a little too long."""
    sound = FullChipBounds.batch_s
    patch.setattr(FullChipBounds, "batch_s", lambda self, *args: sound(self, *args) / TOO_TIGHT)


def replays_overcharged_in_bounds(patch: Patch) -> None:
    """What a set of chips must replay counts for more than the least of them needs."""
    sound = layer_bounds.least_replays
    patch.setattr(layer_bounds, "least_replays", lambda *args: OVERCHARGED * sound(*args))


def forced_stages_too_slow(patch: Patch) -> None:
    """The slowest stage that memory forces is measured by a layer that takes a little longer."""
    sound = FullChipBounds._units

    def mutant(self, *args):
        unit_s_c, space = sound(self, *args)
        return unit_s_c * 1.05, space

    patch.setattr(FullChipBounds, "_units", mutant)


def replays_overcharged_in_lists(patch: Patch) -> None:
    """Lists of what to keep, made from bounds, replay more than true ones."""
    sound = full_times.least_replays
    patch.setattr(full_times, "least_replays", lambda *args: OVERCHARGED * sound(*args))


def weight_part_forgotten(patch: Patch) -> None:
    """In closed forms earlier layers wait for the whole backward pass."""
    patch.setattr(model_work, "weight_part", lambda backward_s, _input_s: np.zeros_like(backward_s))


def cutoff_off_by_a_little(patch: Patch) -> None:
    """Plans that are just below a cutoff are not found."""
    sound = FullPlacer.solve

    def mutant(self, cutoff_s=np.inf, times=None, stop=UNSTOPPED):
        found = sound(self, cutoff_s * (1 - 1e-4), times, stop)
        return replace(found, bound_s=cutoff_s) if found.status == "cutoff" else found

    patch.setattr(FullPlacer, "solve", mutant)


def _options(patch: Patch, change: Callable[[PlanOptions], PlanOptions]) -> None:
    sound = model_work.full_problem

    def mutant(scenario, *args):
        return sound(replace(scenario, plans=change(scenario.plans)), *args)

    patch.setattr(model_work, "full_problem", mutant)


def family_ignored(patch: Patch) -> None:
    """Plans that the family leaves out are searched."""
    _options(patch, lambda plans: replace(plans, family=PlanFamily.ANY))


def an_order_left_out(patch: Patch) -> None:
    """Replicas of a stage are never neighbours."""
    _options(patch, lambda plans: replace(plans, order=(DeviceOrder.DP_OUTER,)))


def cuts_left_out(patch: Patch) -> None:
    """A cut of the lists is not searched."""
    sound = model_work.legal_cuts
    patch.setattr(model_work, "legal_cuts", lambda *args: list(sound(*args))[:1])


def room_left_empty(patch: Patch) -> None:
    """Plans that fill the memory to the last are not looked at."""
    patch.setattr(full_solver, "MEMORY_ROUNDING", -0.01)


def replays_without_energy(patch: Patch) -> None:
    """What is computed again is not charged."""
    sound = FullPlanner.times

    def mutant(self):
        times = sound(self)
        lists = tuple(replace(one, replay_j_k=np.zeros_like(one.replay_j_k)) for one in times.lists)
        return replace(times, lists=lists)

    patch.setattr(FullPlanner, "times", mutant)
