"""Operators that may change places: of two such, one schedule of least time starts the first no later.

Weight gradients of one shape, say, wait for different operators, but nothing waits for them: whichever could have
run first may as well. More generally an operator changes places with another together with what follows only it
(docs/scheduling.md, section 4; docs/proof.md, 4.8).

Axis letters: i, j = operators of a part, m = mode.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rephaze.schedule.tables import Flags, Ints

_MAX_OPS = 400
"""Larger parts are rare and rarely searched: looking for pairs would take longer than what it saves."""


class Exchange(NamedTuple):
    """Two groups of operators that may change places, if they agree in times and needs, pair by pair."""

    earlier: Ints
    """The operator that may be taken to start no later than the other, then what follows only it."""
    later: Ints


def exchanges(before: Flags, kind_i: Ints) -> tuple[Exchange, ...]:
    """All exchanges of a part, by the later operator, the nearest earlier one first.

    i may change places with j, which comes after it in topological order, if all that precedes i precedes j too;
    what follows i alone and what follows j alone is alike, pair by pair, and waits for nothing else that is not
    done by then; and whatever follows both follows each pair or none of it.

    Args:
        before: ``before[i, j]`` if j precedes i, directly or not.
        kind_i: Engines as numbers: only operators of one kind can be alike.
    """
    size = len(before)
    if size > _MAX_OPS:
        return ()
    counts = before.astype(np.float32)
    has_more = (counts @ (1 - counts).T) > 0  # [i, j]: something precedes i that does not precede j
    num_after = before.sum(axis=0)
    may_ij = ~has_more & ~before.T & (kind_i[:, None] == kind_i) & (num_after[:, None] == num_after)
    found = []
    for j in range(size):
        for i in np.flatnonzero(may_ij[:j, j])[::-1]:
            after_i, after_j = before[:, i], before[:, j]
            earlier = np.array([i, *np.flatnonzero(after_i & ~after_j)])
            later = np.array([j, *np.flatnonzero(after_j & ~after_i)])
            if len(earlier) == 1 or _are_alike(before, kind_i, earlier, later):
                found.append(Exchange(earlier, later))
    return tuple(found)


def _are_alike(before: Flags, kind_i: Ints, earlier: Ints, later: Ints) -> bool:
    if (kind_i[earlier] != kind_i[later]).any():
        return False
    if (before[np.ix_(earlier, earlier)] != before[np.ix_(later, later)]).any():
        return False
    for group in (earlier, later):
        others = before[group].copy()
        others[:, group] = False
        if (others & ~before[group[0]]).any():
            return False
    shared = before[:, earlier[0]] & before[:, later[0]]
    return not (before[np.ix_(shared, earlier)] != before[np.ix_(shared, later)]).any()


def twins(size: int, part_exchanges: tuple[Exchange, ...], dur_im: Ints, need_imr: Ints) -> Ints:
    """For each operator the nearest one before it that may be taken to start no later, or -1."""
    twin_i = np.full(size, -1, dtype=np.int64)
    if not part_exchanges:
        return twin_i
    numbers: dict[bytes, int] = {}
    alike_i = np.array(
        [numbers.setdefault(dur_im[i].tobytes() + need_imr[i].tobytes(), len(numbers)) for i in range(size)]
    )
    for earlier, later in part_exchanges:
        if twin_i[later[0]] < 0 and (alike_i[earlier] == alike_i[later]).all():
            twin_i[later[0]] = earlier[0]
    return twin_i
