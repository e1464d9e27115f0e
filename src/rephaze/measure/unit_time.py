"""A batch time no plan of a unit beats, for many chips at once, nearly as sharp as layer bounds and much cheaper.

Layer bounds look for the best weight set of every pass on every chip. Here the weight sets are fixed: loads of
cores, link and HBM, one long path, and a few mixtures of them. What such a set charges for an operator does not
depend on the pass, so it is found once a chip, and passes are sums (``pass_charges``). Then all devices together
have no more than the batch time each, as in ``device_time``. docs/proof.md, 5.11, says why this is a bound.

Axis letters: c = chip, u = unit, k = class of passes, t = layer type, p = pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from rephaze.estimate.estimate_model import EstimateModel
from rephaze.estimate.estimator import Estimator
from rephaze.estimate.gemm_costs import GemmMemo
from rephaze.hardware.space_terms import space_energy
from rephaze.measure.model_work import ModelWork
from rephaze.measure.pass_charges import pass_cycles
from rephaze.measure.units import Unit
from rephaze.types.chip import ChipTable
from rephaze.types.schedule import Exclusion
from rephaze.types.stopping import UNSTOPPED, StopSignal

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

CHIPS_AT_ONCE = 512
"""Keeps the tables of all operators within some tens of megabytes."""
MAPPED_AT_ONCE = 64
"""Chips that are asked for classes of their own are mapped in groups that ask for about the same."""
ROUNDING = 1e-12
"""Sums of some tens of terms lose less of themselves."""


def unit_time_batch_s(
    work: ModelWork,
    chips: ChipTable,
    model: EstimateModel,
    exclusion: Exclusion,
    longest_s_c: Floats | None = None,
    memo: GemmMemo | None = None,
) -> Floats:
    """A batch time no plan beats, whatever its unit, one value a chip; infinite where the model cannot run.

    Args:
        work: The model.
        chips: Any chips, of a space or not.
        model: The cost model of operators.
        exclusion: What all-cores operators exclude.
        longest_s_c: Where closed forms leave a chance to take no longer than this, products are mapped, which
            takes a second or so a chip of new arrays; by default nowhere.
        memo: Products mapped before; takes those that are now.
    """
    least_c = np.empty(len(chips))
    for first in range(0, len(chips), CHIPS_AT_ONCE):
        columns = np.arange(first, min(first + CHIPS_AT_ONCE, len(chips)))
        times_uc = unit_times_s(work, _estimator(work, chips.take(columns), model, memo), exclusion)
        if longest_s_c is not None:
            is_asked_kc = class_least_s(work, times_uc) <= longest_s_c[columns]
            for group in groups_to_map(is_asked_kc):
                estimator = _estimator(work, chips.take(columns[group]), model, memo)
                times_uc[:, group] = mapped_times_s(
                    work, estimator, exclusion, times_uc[:, group], is_asked_kc[:, group]
                )
        least_c[columns] = times_uc.min(axis=0)
    return least_c


def _estimator(work: ModelWork, chips: ChipTable, model: EstimateModel, memo: GemmMemo | None) -> Estimator:
    energy = space_energy(chips, work.scenario.space)
    return Estimator(chips, energy, work.scenario.cluster, model, memo)


def class_least_s(work: ModelWork, times_uc: Floats) -> Floats:
    """Classes x chips: the least over the units of each class."""
    return np.stack([times_uc[units].min(axis=0) for units in work.units_of_k])


def groups_to_map(is_asked_kc: Flags) -> Iterator[Ints]:
    """Chips that ask for some class, those together that ask for about as many: they are mapped at once."""
    num_asked_c = is_asked_kc.sum(axis=0)
    asking = np.flatnonzero(num_asked_c)
    asking = asking[np.argsort(-num_asked_c[asking], kind="stable")]
    for first in range(0, len(asking), MAPPED_AT_ONCE):
        yield np.sort(asking[first : first + MAPPED_AT_ONCE])


def mapped_times_s(
    work: ModelWork,
    estimator: Estimator,
    exclusion: Exclusion,
    known_uc: Floats,
    is_asked_kc: Flags,
    stop: StopSignal = UNSTOPPED,
) -> Floats:
    """Units x chips: the times that are known, raised with mapped products for the classes that a chip asks for.

    Other classes may share products that are mapped; their times stay, so that no chip's depend on the others.

    Args:
        work: The model.
        estimator: Of the chips.
        exclusion: What all-cores operators exclude.
        known_uc: Bounds of the same.
        is_asked_kc: Which classes are worth it.
        stop: Ends the work with ``StoppedError``.
    """
    mapped_k = np.asarray(is_asked_kc.any(axis=1))
    times_uc = unit_times_s(work, estimator, exclusion, stop, mapped_k)
    return np.where(is_asked_kc[work.class_of_u], np.maximum(known_uc, times_uc), known_uc)


def corner_time_batch_s(work: ModelWork, chips: ChipTable, model: EstimateModel, exclusion: Exclusion) -> Floats:
    """As ``unit_time_batch_s``, coarser and for a whole space: of chips with the same arrays and buffer at once.

    A chip that has the most of everything any of them has is slower than none of them (docs/proof.md, 4.7).
    """
    same = (chips.num_tensor_cores, chips.tensor_width, chips.tensor_depth, chips.global_buffer_bytes)
    _, group_c = np.unique(np.stack(same), axis=1, return_inverse=True)
    group_c = group_c.reshape(-1)
    order = np.argsort(group_c, kind="stable")
    first_g = np.searchsorted(group_c[order], np.arange(group_c.max(initial=-1) + 1))
    columns = {item.name: getattr(chips, item.name)[order] for item in fields(ChipTable)}
    corners = ChipTable(**{name: np.maximum.reduceat(column, first_g) for name, column in columns.items()})
    found: Floats = unit_time_batch_s(work, corners, model, exclusion)[group_c]
    return found


def unit_times_s(
    work: ModelWork,
    estimator: Estimator,
    exclusion: Exclusion,
    stop: StopSignal = UNSTOPPED,
    mapped_k: Flags | None = None,
) -> Floats:
    """Units x chips: a batch time no plan of the unit beats.

    Args:
        work: The model.
        estimator: Of the chips.
        exclusion: What all-cores operators exclude.
        stop: Ends the work with ``StoppedError``.
        mapped_k: Classes whose products are to be mapped; by default none, all are bounded in closed form.
    """
    both_s_ktc = class_times_s(work, estimator, exclusion, stop, mapped_k).sum(axis=1)
    return np.stack(
        [device_time_s(work, unit, both_s_ktc[work.class_of[unit.cut, unit.microbatch]].T) for unit in work.units]
    )


def device_time_s(work: ModelWork, unit: Unit, work_s_ct: Floats) -> Floats:
    """Every microbatch holds each layer's devices for its time; all devices together have the batch time."""
    counts = np.bincount(np.array(work.layer_type_of), minlength=work_s_ct.shape[1])
    members_t = np.array([work.num_members(unit.cut, kind) for kind in range(work_s_ct.shape[1])])
    training = work.scenario.training
    num_microbatches = -(-training.global_batch // unit.microbatch)
    device_s_c: Floats = (work_s_ct * (counts * members_t)).sum(axis=1)
    return device_s_c * (num_microbatches / work.scenario.cluster.num_devices)


def class_times_s(
    work: ModelWork,
    estimator: Estimator,
    exclusion: Exclusion,
    stop: StopSignal = UNSTOPPED,
    mapped_k: Flags | None = None,
) -> Floats:
    """Classes x passes (forward, backward) x layer types x chips: seconds no pass of the class goes below."""
    items, chips = work.pass_items, estimator.rates.chips
    stop.check()
    is_mapped: bool | Flags = False if mapped_k is None else items.ops_of(mapped_k)
    table = estimator.mode_bounds(estimator.least(items.block, is_mapped=is_mapped, stop=stop))
    cycles_pc = pass_cycles(items, table, chips, exclusion)
    pass_s_pc = cycles_pc * (1 - ROUNDING) / chips.clock_hz
    found_s: Floats = pass_s_pc[items.pass_kdt]
    return found_s
