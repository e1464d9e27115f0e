"""One part on one chip as arrays for the solvers: durations, and how much of each resource a mode holds.

Both exclusion rules and every shared thing are cumulative resources: cores, the link, bandwidths, and (rule
``chip``) the chip itself, of which an all-cores operator takes everything.

Axis letters: i = operator of a part, m = mode (a way to run it: cores and bandwidth), r = resource.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rephaze.schedule.nodes import NUM_SPARE_MEASURES
from rephaze.schedule.relaxation import NEVER, cliques, tails
from rephaze.schedule.structure import Part
from rephaze.schedule.tables import Bits, Flags, Floats, Ints, Task
from rephaze.schedule.twins import twins
from rephaze.types.schedule import Exclusion

_NUM_CLIQUES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Cores:
    """A chip's cores, and what an operator on all of them excludes."""

    num_tensor_cores: int
    num_vector_cores: int
    exclusion: Exclusion


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class PartModes:
    """What the operators of a part take on one chip, mode by mode. At most ``MAX_MODES`` modes."""

    cycles_im: Ints
    """Positive durations; ``NEVER`` for an impossible mode."""
    all_cores_im: Flags
    """Which modes take all cores of an engine; the others take one."""
    hbm_units_im: Ints | None = None
    """HBM bandwidth held, in units of which there are ``share_units``; None for none."""
    buffer_units_im: Ints | None = None
    """Likewise for the global buffer."""
    share_units: int
    """Units of each bandwidth."""


def make_task(part: Part, modes: PartModes, cores: Cores) -> Task:
    """The part as arrays, without dominated modes and without resources that can never run out.

    Args:
        part: Its structure.
        modes: Its operators on the chip.
        cores: Of the chip.
    """
    exclusive = cores.exclusion is Exclusion.CHIP
    all_cores_im, share_units = modes.all_cores_im, modes.share_units
    shape = size, _ = modes.cycles_im.shape
    dur_im = np.ascontiguousarray(modes.cycles_im)
    possible_im = dur_im < NEVER
    needs: list[Ints] = []
    caps: list[int] = []

    def add(need_im: Ints, cap: int) -> None:
        needs.append(need_im)
        caps.append(cap)

    for users, width, num_cores in (
        (part.uses_tensor, part.tensor_width, cores.num_tensor_cores),
        (part.uses_vector, part.vector_width, cores.num_vector_cores),
    ):
        cap = min(num_cores, width)
        if cap < width or (width > 0 and not exclusive):
            add(np.where(users[:, None], np.where(all_cores_im, cap, 1), 0), cap)
    if part.link_width > 1:
        need_im = np.zeros(shape, dtype=np.int64)
        need_im[part.uses_link] = 1
        add(need_im, 1)
    for units_im in _binding([modes.hbm_units_im, modes.buffer_units_im], possible_im):
        if np.where(possible_im, units_im, 0).max(axis=1).sum() > share_units:
            divisor = int(np.gcd.reduce(units_im, axis=None, initial=share_units))
            add(units_im // divisor, share_units // divisor)
    if exclusive:
        add(np.where(all_cores_im, size, 1), size)
    need_imr = np.ascontiguousarray(np.stack(needs, axis=2)) if needs else np.zeros((*shape, 0), np.int64)
    cap_r = np.array(caps, dtype=np.int64)
    drop_dominated_modes(dur_im, need_imr)
    tail_i = np.zeros(size, dtype=np.int64)
    tails(dur_im, part.preds, tail_i)
    return Task(
        dur_im=dur_im,
        need_imr=need_imr,
        cap_r=cap_r,
        frac_imr=measures(dur_im, need_imr, cap_r, part.ancestors_iw),
        ancestors_iw=part.ancestors_iw,
        descendants_iw=part.descendants_iw,
        pred_start=part.pred_start,
        pred_index=part.pred_index,
        tail_i=tail_i,
        twin_i=twins(size, part.exchanges, dur_im, need_imr),
        alone_im=all_cores_im & exclusive,
        exclusive=exclusive,
    )


def without_gaps(task: Task) -> tuple[Task, Ints]:
    """The task with no more modes than some operator has left, and for each of them which one it was."""
    is_left_im = task.dur_im < NEVER
    num_modes = int(is_left_im.sum(axis=1).max())
    was_im = np.argsort(~is_left_im, axis=1, kind="stable")[:, :num_modes]

    def taken(array: NDArray[Any]) -> NDArray[Any]:
        index = was_im if array.ndim == 2 else was_im[:, :, None]
        return np.ascontiguousarray(np.take_along_axis(array, index, axis=1))

    fewer = task._replace(
        dur_im=taken(task.dur_im),
        need_imr=taken(task.need_imr),
        frac_imr=taken(task.frac_imr),
        alone_im=taken(task.alone_im),
    )
    return fewer, was_im


def in_ticks(task: Task) -> tuple[Task, int]:
    """The task with its durations in their greatest common divisor, and how many cycles that is.

    Every schedule worth looking at begins and ends at whole ticks, so a bound may be rounded up to one.
    """
    is_left_im = task.dur_im < NEVER
    tick = int(np.gcd.reduce(task.dur_im[is_left_im]))
    dur_im = np.where(is_left_im, task.dur_im // tick, NEVER)
    return task._replace(dur_im=dur_im, tail_i=task.tail_i // tick), tick


def _binding(bandwidths: list[Ints | None], possible_im: Flags) -> list[Ints]:
    """Needs of the bandwidths that can bind: one of which every mode holds no more than of another never does."""
    kept: list[Ints] = []
    for units_im in bandwidths:
        if units_im is None:
            continue
        if any((units_im <= other)[possible_im].all() for other in kept):
            continue
        kept = [other for other in kept if not (other <= units_im)[possible_im].all()]
        kept.append(units_im)
    return kept


def measures(dur_im: Ints, need_imr: Ints, cap_r: Ints, ancestors_iw: Bits) -> Floats:
    """What bounds may weigh operators by: parts of each capacity, sets that never overlap, room for more."""
    size, num_modes = dur_im.shape
    member_ki = np.zeros((_NUM_CLIQUES, size), dtype=np.bool_)
    order = np.argsort(-dur_im.min(axis=1), kind="stable")
    count = cliques(dur_im, need_imr, cap_r, ancestors_iw, order, member_ki)
    frac_imr = np.zeros((size, num_modes, len(cap_r) + count + NUM_SPARE_MEASURES))
    frac_imr[:, :, : len(cap_r)] = need_imr / cap_r
    frac_imr[:, :, len(cap_r) : len(cap_r) + count] = member_ki[:count].T[:, None, :]
    return frac_imr


def drop_dominated_modes(dur_im: Ints, need_imr: Ints) -> None:
    """Make a mode impossible, in place, where another is no longer and holds no more of anything.

    Of two that are alike the first stays.
    """
    num_modes = dur_im.shape[1]
    for m in range(num_modes):
        for other in range(num_modes):
            if other == m:
                continue
            as_good = (dur_im[:, other] <= dur_im[:, m]) & (need_imr[:, other] <= need_imr[:, m]).all(axis=1)
            alike = (dur_im[:, other] == dur_im[:, m]) & (need_imr[:, other] == need_imr[:, m]).all(axis=1)
            dur_im[as_good & ~(alike & (other > m)), m] = NEVER
