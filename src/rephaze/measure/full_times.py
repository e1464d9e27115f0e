"""What placement under cost model ``full`` is told of a model's layers on one chip: times, and what is worth keeping.

Axis letters: t = layer type, k = point of what to keep, v = layer, n = operator of a forward pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.measure.keep_points import pareto_points
from rephaze.measure.model_work import ModelWork, Unit
from rephaze.measure.pass_times import BACKWARD, FORWARD, INPUT_PART, PassSource, Times
from rephaze.place.full.times import LayerTimes
from rephaze.types.placement import Recompute

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class KeepFront:
    """What one layer type may keep: ever fewer bytes, ever more to replay."""

    kept_bytes_k: Floats
    replay_s_k: Floats
    replay_j_k: Floats


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class TypeTimes:
    """Every layer type of a model on one chip."""

    forward_s_t: Floats
    backward_s_t: Floats
    weight_backward_s_t: Floats
    fronts: tuple[KeepFront, ...]

    @property
    def is_possible(self) -> bool:
        """Every operator can run."""
        return bool(np.isfinite(self.forward_s_t).all() and np.isfinite(self.backward_s_t).all())

    @property
    def num_points_t(self) -> NDArray[np.int64]:
        """How long each type's list of points is."""
        return np.array([len(front.kept_bytes_k) for front in self.fronts])

    def replay_j(self, kind: int, keep: int) -> float:
        """Energy of what a layer replays at a position of its list."""
        front = self.fronts[kind]
        return float(front.replay_j_k[min(keep, len(front.replay_j_k) - 1)])

    def by_layer(self, layer_type_of: Sequence[int]) -> LayerTimes:
        """As placement takes them: shorter lists repeat their last point."""
        kinds = np.asarray(layer_type_of)
        num_points = int(self.num_points_t.max())

        def padded(values_k: Floats) -> Floats:
            return np.concatenate([values_k, np.full(num_points - len(values_k), values_k[-1])])

        replay_s_tk = np.stack([padded(front.replay_s_k) for front in self.fronts])
        kept_bytes_tk = np.stack([padded(front.kept_bytes_k) for front in self.fronts])
        return LayerTimes(
            forward_s_v=self.forward_s_t[kinds],
            backward_s_v=self.backward_s_t[kinds],
            weight_backward_s_v=self.weight_backward_s_t[kinds],
            replay_s_vk=replay_s_tk[kinds],
            kept_bytes_vk=kept_bytes_tk[kinds],
        )


def scheduled_times(solver: PassSource, work: ModelWork, unit: Unit) -> TypeTimes:
    """Layers as scheduled, each with the front of what to keep in its own form."""
    cut, microbatch = unit.cut, unit.microbatch
    forward_s_t, backward_s_t = (
        solver.pass_seconds(work, cut, microbatch, direction, Times.SCHEDULED)
        for direction in (FORWARD, BACKWARD)
    )
    input_s_t = np.zeros_like(forward_s_t)
    if work.has_split_backward:
        input_s_t = solver.pass_seconds(work, cut, microbatch, INPUT_PART, Times.SCHEDULED)
    fronts = tuple(
        _scheduled_front(solver, work, unit, kind, float(forward_s_t[kind])) for kind in range(len(forward_s_t))
    )
    return TypeTimes(
        forward_s_t=forward_s_t,
        backward_s_t=backward_s_t,
        weight_backward_s_t=_weight_part(backward_s_t, input_s_t),
        fronts=fronts,
    )


def least_times(
    solver: PassSource, work: ModelWork, unit: Unit, forward_s_t: Floats, backward_s_t: Floats, input_s_t: Floats
) -> TypeTimes:
    """Times and fronts with which no plan is slower than with the true ones, if no pass is shorter than given.

    Layers of a stage share one position in their lists, and positions on these fronts are not those on the true
    ones. So only the type of most layers has a front here; every other keeps the least and replays nothing.
    """
    counts = Counter(work.layer_type_of)
    main = max(range(len(forward_s_t)), key=lambda kind: counts[kind])
    fronts = tuple(
        _least_front(solver, work, unit, kind, float(forward_s_t[kind]) if kind == main else None)
        for kind in range(len(forward_s_t))
    )
    return TypeTimes(
        forward_s_t=forward_s_t,
        backward_s_t=backward_s_t,
        weight_backward_s_t=_weight_part(backward_s_t, input_s_t),
        fronts=fronts,
    )


def _weight_part(backward_s_t: Floats, input_s_t: Floats) -> Floats:
    """What of a backward pass no earlier layer waits for: all of it but the input part alone.

    Beside each other the two parts take less than one after the other; what that gains is credited to this one.
    """
    with np.errstate(invalid="ignore"):
        found: Floats = np.maximum(backward_s_t - np.minimum(input_s_t, backward_s_t), 0.0)
    return found


def _may_replay(work: ModelWork) -> bool:
    """Whether a stage may replay: under this cost model it may always keep everything."""
    return Recompute.BLOCK in work.scenario.training.recompute


def _scheduled_front(solver: PassSource, work: ModelWork, unit: Unit, kind: int, forward_s: float) -> KeepFront:
    form = solver.fastest_form(work, unit.cut, unit.microbatch, kind)
    times = solver.op_times(work, unit.cut, unit.microbatch, kind, form)
    sets = (work.first_form(unit.cut) if form == 0 else work.forms(unit.cut)[form]).keep_sets(kind)
    kept_bytes_k, replay_s_k, choice_kd = pareto_points(sets, times.op_s_n, forward_s, unit.microbatch)
    replay_j_k = np.array(
        [sum(float(times.op_j_n[n]) for n in sets.replayed_ops(choice.tolist())) for choice in choice_kd]
    )
    return _allowed(work, KeepFront(kept_bytes_k.astype(np.float64), replay_s_k, replay_j_k))


def _least_front(
    solver: PassSource, work: ModelWork, unit: Unit, kind: int, forward_s: float | None
) -> KeepFront:
    """A front no worse than the true one; without a forward time the least bytes, for nothing."""
    sets = work.first_form(unit.cut).keep_sets(kind)
    full, least = sets.full_bytes.at(unit.microbatch), sets.least_bytes.at(unit.microbatch)
    least = min(full, least) if _may_replay(work) else full
    if forward_s is None or unit.cut.cp > 1 or not _may_replay(work):
        return KeepFront(np.array([float(least)]), np.zeros(1), np.zeros(1))
    op_s_n = solver.least_op_s(work, unit.cut, unit.microbatch, kind)
    kept_bytes_k, replay_s_k, _ = pareto_points(sets, op_s_n, forward_s, unit.microbatch, max_points=0)
    front = KeepFront(kept_bytes_k.astype(np.float64), replay_s_k, np.zeros(len(replay_s_k)))
    return _allowed(work, front)


def _allowed(work: ModelWork, front: KeepFront) -> KeepFront:
    """The part of a front that the scenario's recompute modes leave."""
    if _may_replay(work):
        return front
    return KeepFront(front.kept_bytes_k[:1], front.replay_s_k[:1], front.replay_j_k[:1])
