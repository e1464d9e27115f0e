"""A part without what no schedule as short as one already known can use: modes that take too long, spare capacity.

Chips run most operators on all cores in a hundredth of what one core takes. Without those modes bounds see that
operators of one engine never overlap, and nodes of the search are a fraction as large.

Axis letters: i = operator of a part, m = mode, r = resource.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rephaze.schedule.relaxation import NEVER
from rephaze.schedule.tables import Ints, Task
from rephaze.schedule.tasks import measures, without_gaps


class Trimmed(NamedTuple):
    """A part that has the same best schedules as the one it was made of."""

    task: Task
    was_im: Ints
    """Which mode each was before."""
    width: int
    """Most operators that can run at once."""


def trimmed(task: Task, width: int, makespan: int) -> Trimmed:
    """The part without modes in which an operator cannot be part of a schedule as short as one that is known.

    Args:
        task: The part, under rule ``engine``.
        width: Most operators that can run at once, as far as known.
        makespan: Of some schedule.
    """
    fastest_i = task.dur_im.min(axis=1)
    spare_i = makespan - _heads(task, fastest_i) - (task.tail_i - fastest_i)
    dur_im = np.where(task.dur_im <= spare_i[:, None], task.dur_im, NEVER)
    shorter, was_im = without_gaps(task._replace(dur_im=dur_im))
    dur_im = shorter.dur_im
    is_left_im = dur_im < NEVER
    needs, caps = [], []
    for r, cap in enumerate(task.cap_r.tolist()):
        need_im = np.where(is_left_im, shorter.need_imr[:, :, r], 0)
        if need_im.max(axis=1).sum() > cap:
            divisor = int(np.gcd.reduce(need_im, axis=None, initial=cap))
            needs.append(need_im // divisor)
            caps.append(cap // divisor)
            least = int(need_im[is_left_im].min())
            width = min(width, cap // least) if least > 0 else width
    need_imr = np.ascontiguousarray(np.stack(needs, axis=2)) if needs else shorter.need_imr[:, :, :0].copy()
    cap_r = np.array(caps, dtype=np.int64)
    small = shorter._replace(
        need_imr=need_imr, cap_r=cap_r, frac_imr=measures(dur_im, need_imr, cap_r, task.ancestors_iw)
    )
    return Trimmed(small, was_im, width)


def _heads(task: Task, fastest_i: Ints) -> Ints:
    """The earliest start of each operator: the longest path to it in the faster modes."""
    head_i = np.zeros_like(fastest_i)
    for i in range(len(head_i)):
        preds = task.pred_index[task.pred_start[i] : task.pred_start[i + 1]]
        if len(preds):
            head_i[i] = (head_i[preds] + fastest_i[preds]).max()
    return head_i
