"""What placement under cost model ``full`` is told of layers on one chip: times, and what is worth keeping.

Axis letters: t = layer type, k = point of what to keep, v = layer, n = operator of a forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.op_block import OpBlock
from rephaze.measure.keep_points import pareto_points
from rephaze.measure.model_work import ModelWork, weight_part
from rephaze.measure.pass_times import BACKWARD, FORWARD, INPUT_PART, LayerSeconds, PassSource, Times
from rephaze.measure.units import Unit
from rephaze.place.full.times import LayerTimes
from rephaze.types.placement import Recompute

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class KeepList:
    """What one layer type may keep, position by position: ever fewer bytes, ever more to replay."""

    kept_bytes_k: Floats
    replay_s_k: Floats
    replay_j_k: Floats


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class TypeTimes:
    """Every layer type of a model on one chip."""

    forward_s_t: Floats
    backward_s_t: Floats
    weight_backward_s_t: Floats
    lists: tuple[KeepList, ...]
    """All of one length, so that a position means about the same to every layer of a stage."""

    @property
    def is_possible(self) -> bool:
        """Every operator can run."""
        return bool(np.isfinite(self.forward_s_t).all() and np.isfinite(self.backward_s_t).all())

    @property
    def num_positions(self) -> int:
        """Of what to keep."""
        return len(self.lists[0].kept_bytes_k)

    def by_layer(self, layer_type_of: Sequence[int]) -> LayerTimes:
        """As placement takes them."""
        kinds = np.asarray(layer_type_of)
        return LayerTimes(
            forward_s_v=self.forward_s_t[kinds],
            backward_s_v=self.backward_s_t[kinds],
            weight_backward_s_v=self.weight_backward_s_t[kinds],
            replay_s_vk=np.stack([one.replay_s_k for one in self.lists])[kinds],
            kept_bytes_vk=np.stack([one.kept_bytes_k for one in self.lists])[kinds],
        )


def scheduled_times(solver: PassSource, work: ModelWork, unit: Unit) -> TypeTimes:
    """Layers as scheduled, each with the front of what to keep in its own form."""
    cut, microbatch = unit.cut, unit.microbatch
    forward_s_t, backward_s_t = (
        solver.pass_seconds(work, cut, microbatch, direction, Times.SCHEDULED) for direction in (FORWARD, BACKWARD)
    )
    input_s_t = np.zeros_like(forward_s_t)
    if work.has_split_backward:
        input_s_t = solver.pass_seconds(work, cut, microbatch, INPUT_PART, Times.SCHEDULED)
    kinds = range(len(forward_s_t))
    return TypeTimes(
        forward_s_t=forward_s_t,
        backward_s_t=backward_s_t,
        weight_backward_s_t=weight_part(backward_s_t, input_s_t),
        lists=tuple(_scheduled_list(solver, work, unit, kind, float(forward_s_t[kind])) for kind in kinds),
    )


def least_times(
    solver: PassSource, work: ModelWork, unit: Unit, layer_s: LayerSeconds, replayed: Collection[int]
) -> TypeTimes:
    """Times with which no plan is slower than with the true ones, if no pass is shorter than given.

    Bytes at a position are the same on all chips, and replays rise with the times of operators.

    Args:
        solver: Of the chip.
        work: The model.
        unit: Of the model.
        layer_s: The passes.
        replayed: Layer types whose replays are looked at; those of others take no time.
    """
    forward_s_t, backward_s_t, input_s_t = layer_s
    kinds = range(len(forward_s_t))
    return TypeTimes(
        forward_s_t=forward_s_t,
        backward_s_t=backward_s_t,
        weight_backward_s_t=weight_part(backward_s_t, input_s_t),
        lists=tuple(
            _least_list(solver, work, unit, kind, float(forward_s_t[kind]))
            if kind in replayed
            else _nothing_replayed(_positions(work, unit, kind))
            for kind in kinds
        ),
    )


def may_replay(work: ModelWork) -> bool:
    """Whether a stage may replay: under this cost model it may always keep everything."""
    return Recompute.BLOCK in work.scenario.training.recompute


def _scheduled_list(solver: PassSource, work: ModelWork, unit: Unit, kind: int, forward_s: float) -> KeepList:
    budget_k = _positions(work, unit, kind)
    if not may_replay(work):
        return _nothing_replayed(budget_k)
    form = solver.fastest_form(work, unit.cut, unit.microbatch, kind).form
    times = solver.op_times(work, unit.cut, unit.microbatch, kind, form)
    sets = (work.first_form(unit.cut) if form == 0 else work.forms(unit.cut)[form]).keep_sets(kind)
    kept_bytes, replay_s, choice_kd = pareto_points(sets, times.op_s_n, forward_s, unit.microbatch, max_points=0)
    at_k = _quickest(kept_bytes, budget_k)
    replay_j = {at: float(times.op_j_n[list(sets.replayed_ops(choice_kd[at].tolist()))].sum()) for at in set(at_k)}
    return KeepList(budget_k, replay_s[at_k], np.array([replay_j[at] for at in at_k]))


def _least_list(solver: PassSource, work: ModelWork, unit: Unit, kind: int, forward_s: float) -> KeepList:
    """The same bytes, with no more to replay than on the true list."""
    budget_k = _positions(work, unit, kind)
    if not may_replay(work):
        return _nothing_replayed(budget_k)
    replay_s_k = least_replays(work, unit, kind, forward_s, lambda ops: solver.least_op_s(work, ops))
    return KeepList(budget_k, replay_s_k, np.zeros(len(budget_k)))


def least_replays(
    work: ModelWork, unit: Unit, kind: int, forward_s: float, times_of: Callable[[OpBlock], Floats]
) -> Floats:
    """The least that a layer type replays at each position of its list, in whatever form of the cut.

    Args:
        work: The model.
        unit: Of the model.
        kind: Layer type.
        forward_s: No forward pass takes less.
        times_of: What operators take at least, in the same unit; None takes nothing.
    """
    budget_k = work.keep_budgets(unit, kind)
    found = []
    for form in work.all_forms(unit.cut):
        op_s_n = times_of(form.replayable(kind, unit.microbatch))
        sets = form.keep_sets(kind)
        kept_bytes, replay_s, _ = pareto_points(sets, op_s_n, forward_s, unit.microbatch, max_points=0)
        found.append(replay_s[_quickest(kept_bytes, budget_k)])
    least: Floats = np.minimum.reduce(found)
    return least


def _positions(work: ModelWork, unit: Unit, kind: int) -> Floats:
    """What a layer type keeps at each position it may have."""
    return work.keep_budgets(unit, kind)[: None if may_replay(work) else 1]


def _nothing_replayed(budget_k: Floats) -> KeepList:
    return KeepList(budget_k, np.zeros(len(budget_k)), np.zeros(len(budget_k)))


def _quickest(kept_bytes: NDArray[np.int64], budget_k: Floats) -> list[int]:
    """Of a front, whose bytes fall and times rise, the first point within each budget."""
    found = np.searchsorted(-kept_bytes, -budget_k, side="left")
    return [int(at) for at in np.minimum(found, len(kept_bytes) - 1)]
