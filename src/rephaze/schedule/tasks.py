"""One part on one chip as arrays for the solvers: durations, and how much of each resource a mode holds.

Both exclusion rules and every shared thing are cumulative resources: cores, the link, bandwidths, and (rule
``chip``) the chip itself, of which an all-cores operator takes everything.

Axis letters: i = operator of a part, m = mode (0 one core, 1 all cores), r = resource.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rephaze.schedule.nodes import NUM_SPARE_MEASURES, Task
from rephaze.schedule.relaxation import NEVER, cliques, tails
from rephaze.schedule.structure import Part

Ints = NDArray[np.int64]

_NUM_CLIQUES = 3


def make_task(
    part: Part,
    cycles_im: Ints,
    hbm_units_im: Ints | None,
    buffer_units_im: Ints | None,
    num_tensor_cores: int,
    num_vector_cores: int,
    share_units: int,
    exclusive: bool,
) -> Task:
    """The part as arrays, without dominated modes and without resources that can never run out.

    Args:
        part: Its structure.
        cycles_im: Positive durations; ``NEVER`` for an impossible mode.
        hbm_units_im: HBM bandwidth held, in units of which there are ``share_units``; None for none.
        buffer_units_im: Likewise for the global buffer.
        num_tensor_cores: Of the chip.
        num_vector_cores: Of the chip.
        share_units: Units of each bandwidth.
        exclusive: Rule ``chip``; otherwise rule ``engine``.
    """
    size = len(part.ops)
    needs, caps = [], []

    def add(need_im: Any, cap: int) -> None:
        needs.append(need_im)
        caps.append(cap)

    for users, width, num_cores in (
        (part.uses_tensor, part.tensor_width, num_tensor_cores),
        (part.uses_vector, part.vector_width, num_vector_cores),
    ):
        cap = min(num_cores, width)
        if cap < width or (width > 0 and not exclusive):
            need_im = np.zeros((size, 2), dtype=np.int64)
            need_im[users, 0] = 1
            need_im[users, 1] = cap
            add(need_im, cap)
    if part.link_width > 1:
        need_im = np.zeros((size, 2), dtype=np.int64)
        need_im[part.uses_link] = 1
        add(need_im, 1)
    for units_im in (hbm_units_im, buffer_units_im):
        if units_im is not None and units_im.max(axis=1).sum() > share_units:
            divisor = int(np.gcd.reduce(units_im, axis=None, initial=share_units))
            add(units_im // divisor, share_units // divisor)
    if exclusive:
        need_im = np.ones((size, 2), dtype=np.int64)
        need_im[:, 1] = size
        add(need_im, size)
    need_imr = np.ascontiguousarray(np.stack(needs, axis=2)) if needs else np.zeros((size, 2, 0), np.int64)
    cap_r = np.array(caps, dtype=np.int64)
    dur_im = np.ascontiguousarray(cycles_im)
    drop_dominated_modes(dur_im, need_imr)
    tail_i = np.zeros(size, dtype=np.int64)
    tails(dur_im, part.pred_start, part.pred_index, tail_i)
    return Task(
        dur_im=dur_im,
        need_imr=need_imr,
        cap_r=cap_r,
        frac_imr=_measures(dur_im, need_imr, cap_r, part),
        ancestors_iw=part.ancestors_iw,
        descendants_iw=part.descendants_iw,
        pred_start=part.pred_start,
        pred_index=part.pred_index,
        tail_i=tail_i,
        twin_i=twins(part.family, dur_im, need_imr),
        exclusive=exclusive,
    )


def _measures(dur_im: Ints, need_imr: Ints, cap_r: Ints, part: Part) -> NDArray[np.float64]:
    """What bounds may weigh operators by: parts of each capacity, sets that never overlap, room for more."""
    size = len(dur_im)
    member_ki = np.zeros((_NUM_CLIQUES, size), dtype=np.bool_)
    order = np.argsort(-dur_im.min(axis=1), kind="stable")
    count = cliques(dur_im, need_imr, cap_r, part.ancestors_iw, order, member_ki)
    frac_imr = np.zeros((size, 2, len(cap_r) + count + NUM_SPARE_MEASURES))
    frac_imr[:, :, : len(cap_r)] = need_imr / cap_r
    frac_imr[:, :, len(cap_r) : len(cap_r) + count] = member_ki[:count].T[:, None, :]
    return frac_imr


def drop_dominated_modes(dur_im: Ints, need_imr: Ints) -> None:
    """Make a mode impossible, in place, where the other is no longer and holds no more of anything."""
    one_is_lighter = (need_imr[:, 0] <= need_imr[:, 1]).all(axis=1)
    all_is_lighter = (need_imr[:, 1] <= need_imr[:, 0]).all(axis=1)
    drop_all = one_is_lighter & (dur_im[:, 0] <= dur_im[:, 1])
    drop_one = all_is_lighter & (dur_im[:, 1] <= dur_im[:, 0]) & ~drop_all
    dur_im[drop_all, 1] = NEVER
    dur_im[drop_one, 0] = NEVER


def twins(family: Ints, dur_im: Ints, need_imr: Ints) -> Ints:
    """For each operator the twin just before it, or -1: alike in place, times and needs, so order is free."""
    last: dict[tuple[int, bytes, bytes], int] = {}
    twin_i = np.full(len(family), -1, dtype=np.int64)
    if len(set(family.tolist())) < len(family):
        for i, kind in enumerate(family.tolist()):
            key = (kind, dur_im[i].tobytes(), need_imr[i].tobytes())
            twin_i[i] = last.get(key, -1)
            last[key] = i
    return twin_i
