"""Layer bounds: batch times no plan of a unit beats, for many chips at once, before anything is solved.

For each unit (degree, microbatch, policy), the schedule bound of every layer on closed-form operator bounds, then
the placement bound over all depths and degrees that fit in memory. The coarser sieve before it is ``device_time``;
docs/proof.md says why both are bounds.

Axis letters: c = chip, t = layer type, u = unit, k = pair of degree and microbatch size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.estimator import Estimator
from rephaze.measure.model_work import CutForm, Memory, ModelWork, PassWork, Unit
from rephaze.schedule.bounds import lower_bounds
from rephaze.types.chip import ChipTable
from rephaze.types.cut import GraphCut
from rephaze.types.latency import IMPOSSIBLE_CYCLES
from rephaze.types.schedule import Exclusion
from rephaze.types.stopping import UNSTOPPED, StopSignal

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CHUNK = 4096
"""Chips bounded at a time: keeps the tables within tens of megabytes."""


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class ModelBounds:
    """Lower bounds of one model on some chips: batch times by unit, and the layer times they come from."""

    batch_s_uc: Floats
    forward_s_kct: Floats
    backward_s_kct: Floats

    def chip(self, c: int) -> ModelBounds:
        """Those of one chip."""
        only = slice(c, c + 1)
        return ModelBounds(
            batch_s_uc=self.batch_s_uc[:, only],
            forward_s_kct=self.forward_s_kct[:, only],
            backward_s_kct=self.backward_s_kct[:, only],
        )


def joined_bounds(pieces: Sequence[ModelBounds]) -> ModelBounds:
    """Bounds of several sets of chips as one, in the order given."""
    return ModelBounds(
        batch_s_uc=np.concatenate([piece.batch_s_uc for piece in pieces], axis=1),
        forward_s_kct=np.concatenate([piece.forward_s_kct for piece in pieces], axis=1),
        backward_s_kct=np.concatenate([piece.backward_s_kct for piece in pieces], axis=1),
    )


def layer_bounds(
    work: ModelWork,
    estimator: Estimator,
    chips: ChipTable,
    memory_of_c: list[Memory],
    exclusion: Exclusion,
    stop: StopSignal = UNSTOPPED,
) -> ModelBounds:
    """For each unit and chip, a batch time no plan of that unit beats; infinite where nothing fits.

    Args:
        work: The model.
        estimator: Of these chips.
        chips: The chips.
        memory_of_c: The largest memory each may have.
        exclusion: What all-cores operators exclude.
        stop: Ends the work with ``StoppedError``.
    """
    groups: dict[Memory, Ints] = {
        memory: np.flatnonzero([own == memory for own in memory_of_c]) for memory in dict.fromkeys(memory_of_c)
    }
    times = _bound_times(work, estimator, chips, exclusion, stop)
    batch_s_uc = np.full((len(work.units), len(chips)), np.inf)
    for u, unit in enumerate(work.units):
        forward_ct, backward_ct = times[unit.cut, unit.microbatch]
        for memory, members in groups.items():
            stop.check()
            layer_s = (forward_ct[members], backward_ct[members])
            batch_s_uc[u, members] = work.batch_bounds_s(unit, memory, *layer_s)
        batch_s_uc[u] = np.maximum(batch_s_uc[u], _unit_device_time_s(work, unit, forward_ct + backward_ct))
    return ModelBounds(
        batch_s_uc=batch_s_uc,
        forward_s_kct=np.stack([times[pair][0] for pair in work.pairs]),
        backward_s_kct=np.stack([times[pair][1] for pair in work.pairs]),
    )


def _unit_device_time_s(work: ModelWork, unit: Unit, work_s_ct: Floats) -> Floats:
    """Every microbatch holds each layer's devices for its time; all devices together have the batch time."""
    counts = np.bincount(np.array(work.layer_type_of), minlength=work_s_ct.shape[1])
    members_t = np.array([work.num_members(unit.cut, kind) for kind in range(work_s_ct.shape[1])])
    training = work.scenario.training
    num_microbatches = -(-training.global_batch // unit.microbatch)
    device_s_c: Floats = (work_s_ct * (counts * members_t)).sum(axis=1)
    return device_s_c * (num_microbatches / work.scenario.cluster.num_devices)


def _bound_times(
    work: ModelWork, estimator: Estimator, chips: ChipTable, exclusion: Exclusion, stop: StopSignal
) -> dict[tuple[GraphCut, int], tuple[Floats, Floats]]:
    """Lower bounds by cut and microbatch size: over a cut sequence those of the form that may be quickest."""
    found = {}
    for cut, microbatch in work.pairs:
        forms = work.forms(cut) if cut.cp > 1 else (work.first_form(cut),)
        times = [_form_times(form, estimator, chips, microbatch, exclusion, stop) for form in forms]
        forward_ct, backward_ct = times[0]
        for other_forward_ct, other_backward_ct in times[1:]:
            forward_ct = np.minimum(forward_ct, other_forward_ct)
            backward_ct = np.minimum(backward_ct, other_backward_ct)
        found[cut, microbatch] = (forward_ct, backward_ct)
    return found


def _form_times(
    form: CutForm,
    estimator: Estimator,
    chips: ChipTable,
    microbatch: int,
    exclusion: Exclusion,
    stop: StopSignal,
) -> tuple[Floats, Floats]:
    """Lower bounds on forward and backward seconds, chips x layer types."""

    def bound_s(one_pass: PassWork) -> Floats:
        stop.check()
        return pass_bound_s(one_pass, estimator, chips, microbatch, exclusion)

    columns = [[bound_s(one_pass) for one_pass in passes[:2]] for passes in form.passes]
    forward_ct = np.stack([forward for forward, _ in columns], axis=1)
    backward_ct = np.stack([backward for _, backward in columns], axis=1)
    return forward_ct, backward_ct


def pass_bound_s(
    one_pass: PassWork, estimator: Estimator, chips: ChipTable, microbatch: int, exclusion: Exclusion
) -> Floats:
    """Lower bounds on one pass of one layer type, a value a chip; infinite where it cannot run."""
    table = estimator.bound(one_pass.graph, microbatch)
    cycles = lower_bounds(
        one_pass.structure,
        table,
        num_tensor_cores_c=chips.num_tensor_cores,
        num_vector_cores_c=chips.num_vector_cores,
        exclusion=exclusion,
    )
    return np.where(cycles >= IMPOSSIBLE_CYCLES, np.inf, cycles / chips.clock_hz)
