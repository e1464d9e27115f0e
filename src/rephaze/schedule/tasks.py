"""One part on one chip as arrays for the solvers: durations, needs, and what bounds may weigh.

Axis letters: i = operator of a part, m = mode (a way to run it: cores and bandwidth), r = resource.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rephaze.schedule.needs import Cores, PartModes, needs_of
from rephaze.schedule.nodes import NUM_SPARE_MEASURES
from rephaze.schedule.relaxation import NEVER, cliques, tails
from rephaze.schedule.structure import Part
from rephaze.schedule.tables import Bits, Floats, Ints, Task
from rephaze.schedule.twins import twins
from rephaze.types.schedule import Exclusion

_NUM_CLIQUES = 3


def make_task(part: Part, modes: PartModes, cores: Cores) -> Task:
    """The part as arrays, without dominated modes and without resources that can never run out.

    Args:
        part: Its structure.
        modes: Its operators on the chip.
        cores: Of the chip.
    """
    exclusive = cores.exclusion is Exclusion.CHIP
    dur_im = np.ascontiguousarray(modes.cycles_im)
    need_imr, cap_r = needs_of(part, modes, cores)
    drop_dominated_modes(dur_im, need_imr)
    tail_i = np.zeros(len(dur_im), dtype=np.int64)
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
        twin_i=twins(len(dur_im), part.exchanges, dur_im, need_imr),
        alone_im=modes.all_cores_im & exclusive,
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
