"""Teams: sets of operators, each in a mode, that may run at one instant; and the heaviest under given prices.

None of a team precedes another and together they need no more than there is. ``packing`` mixes them into lower
bounds.

Axis letters: i = operator of a part, m = mode, r = resource, w = word of a bitset, t = team, s = member of a
team or row of a chain, p = an operator in one of its possible modes, c = chain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rephaze.compiled import inner, inner_in_place
from rephaze.schedule.relaxation import NEVER, shortest
from rephaze.schedule.tables import MODE_BITS, MODE_MASK, Bits, Floats, Int, Ints

EPSILON = 1e-11
"""Prices and gains below this are rounding."""
# Steps towards one heaviest team. Past the first number any team that is too heavy will do; past the second the
# part is too wide for this bound.
_ENOUGH_STEPS, _MAX_STEPS = 100, 50_000
# Entries of Teams.num: how many there are, and the work done with them so far, in some half nanoseconds.
NUM_TEAMS, WORK_DONE = 0, 1


class Teams(NamedTuple):
    """Teams found so far, kept from one bound to the next."""

    member: Ints
    """member[t, s]: operator and mode (``MODE_BITS``)."""
    size: Ints
    """Members of team t."""
    num: Ints
    """``NUM_TEAMS`` and ``WORK_DONE``."""
    apart_iw: Bits
    """Bitsets: the operators that precede or follow i."""


class Chains(NamedTuple):
    """Operators in their possible modes, one row each, dealt out to chains: a team has at most one of a chain.

    Rows of a chain are heaviest first, and so are chains by their heaviest row; rows of no price are left out.
    """

    code_p: Ints
    """Operator and mode (``MODE_BITS``)."""
    price_p: Floats
    row_cs: Ints
    length_c: Ints
    """Rows of chain c."""


def no_teams(ancestors_iw: Bits, descendants_iw: Bits, width: int, capacity: int) -> Teams:
    """Room for so many teams of a part.

    Args:
        ancestors_iw: Bitsets.
        descendants_iw: Bitsets.
        width: Most operators that can run at once.
        capacity: Most teams to keep.
    """
    return Teams(
        member=np.zeros((capacity, width), dtype=np.int64),
        size=np.zeros(capacity, dtype=np.int64),
        num=np.zeros(2, dtype=np.int64),
        apart_iw=ancestors_iw | descendants_iw,
    )


@inner
def fill_chains(dur_im: Ints, ancestors_iw: Bits, chain_i: Ints) -> int:
    """Fill a chain for each operator that still has a mode: a team has at most one of a chain; return how many."""
    size = dur_im.shape[0]
    last = np.empty(size, dtype=np.int64)
    count = 0
    for i in range(size):
        chain_i[i] = -1
        if shortest(dur_im, i) >= NEVER:
            continue
        for c in range(count):
            j = last[c]
            if (ancestors_iw[i, j >> 6] >> np.uint64(j & 63)) & np.uint64(1) != np.uint64(0):
                chain_i[i] = c
                break
        if chain_i[i] < 0:
            chain_i[i] = count
            count += 1
        last[chain_i[i]] = i
    return count


@inner_in_place
def _most_ahead(
    chains: Chains,
    need_imr: Ints,
    left_r: Ints,
    barred_w: Bits,
    c: Int,
    end: Int,
    dense_r: Floats,
    free_r: Floats,
) -> float:
    """At most so much weight can chains c to ``end`` add to a team that leaves ``left_r`` and bars ``barred_w``.

    One row a chain; and of those that need resource r no more than its densest row filling what is left.
    """
    # Unpacked once: every field access of a tuple in compiled code counts references.
    code_p, price_p, row_cs, length_c = chains.code_p, chains.price_p, chains.row_cs, chains.length_c
    num_resources = len(left_r)
    for r in range(num_resources):
        dense_r[r] = free_r[r] = 0.0
    total = 0.0
    for k in range(c, end):
        highest = 0.0
        for s in range(length_c[k]):
            p = row_cs[k, s]
            i, m = code_p[p] >> MODE_BITS, code_p[p] & MODE_MASK
            if (barred_w[i >> 6] >> np.uint64(i & 63)) & np.uint64(1) != np.uint64(0):
                continue
            fits = True
            for r in range(num_resources):
                if need_imr[i, m, r] > left_r[r]:
                    fits = False
            if not fits:
                continue
            highest = max(highest, price_p[p])
            for r in range(num_resources):
                if need_imr[i, m, r] > 0:
                    dense_r[r] = max(dense_r[r], price_p[p] / need_imr[i, m, r])
        total += highest
        for r in range(num_resources):
            # Rows of a chain come heaviest first: the first that fits without r is its most.
            for s in range(length_c[k]):
                p = row_cs[k, s]
                i, m = code_p[p] >> MODE_BITS, code_p[p] & MODE_MASK
                if need_imr[i, m, r] == 0:
                    free_r[r] += min(highest, price_p[p])
                    break
    for r in range(num_resources):
        total = min(total, dense_r[r] * left_r[r] + free_r[r])
    return total


@inner
def heaviest_team(
    code_p: Ints,
    price_p: Floats,
    need_imr: Ints,
    cap_r: Ints,
    chain_i: Ints,
    num_chains: int,
    teams: Teams,
) -> tuple[float, bool]:
    """The weight of a team heavier than 1, which joins ``teams``, and whether it is sure that none is heavier.

    The weight is 1 if none is found.
    """
    num_rows, num_resources, words = len(code_p), len(cap_r), teams.apart_iw.shape[1]
    # Rows by chain, heaviest first; chains by their heaviest row, heaviest first.
    order = np.empty(num_rows, dtype=np.int64)
    for p in range(num_rows):  # np.argsort would take seconds to compile
        at = p
        while at > 0 and price_p[order[at - 1]] < price_p[p]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = p
    rank_c = np.full(num_chains, -1, dtype=np.int64)
    row_cs = np.zeros((num_chains, num_rows), dtype=np.int64)
    length_c = np.zeros(num_chains, dtype=np.int64)
    rest_c = np.zeros(num_chains + 1)
    used_chains = np.int64(0)  # a literal would be a type of its own: callees compiled twice
    for at in range(num_rows):
        p = order[at]
        if price_p[p] <= EPSILON:
            break
        chain = chain_i[code_p[p] >> MODE_BITS]
        if rank_c[chain] < 0:
            rank_c[chain] = used_chains
            used_chains += 1
        c = rank_c[chain]
        row_cs[c, length_c[c]] = p
        length_c[c] += 1
    for c in range(used_chains - 1, -1, -1):
        rest_c[c] = rest_c[c + 1] + price_p[row_cs[c, 0]]
    chains = Chains(code_p, price_p, row_cs, length_c)
    tried_c = np.zeros(used_chains + 1, dtype=np.int64)
    weight_c = np.zeros(used_chains + 1)
    pick_c = np.full(used_chains + 1, -1, dtype=np.int64)
    left_cr = np.zeros((used_chains + 1, num_resources), dtype=np.int64)
    for r in range(num_resources):
        left_cr[0, r] = cap_r[r]
    dense_r, free_r = np.zeros(num_resources), np.zeros(num_resources)
    barred_cw = np.zeros((used_chains + 1, words), dtype=np.uint64)
    best, number = 1.0 + EPSILON, teams.num[NUM_TEAMS]
    found, is_sure = False, True
    c, steps = np.int64(0), 0
    while c >= 0:
        if c == used_chains:
            if weight_c[c] > best:
                best, found = weight_c[c], True
                size = 0
                for k in range(c):
                    if pick_c[k] >= 0:
                        teams.member[number, size] = code_p[pick_c[k]]
                        size += 1
                teams.size[number] = size
            c -= 1
            continue
        k = tried_c[c]
        is_row = k < length_c[c]
        ahead = rest_c[c + 1] + (price_p[row_cs[c, k]] if is_row else 0.0)
        if k > length_c[c] or weight_c[c] + ahead <= best:
            c -= 1
            continue
        if k == 0 and c > 0:
            most = _most_ahead(chains, need_imr, left_cr[c], barred_cw[c], c, used_chains, dense_r, free_r)
            if weight_c[c] + most <= best:
                c -= 1
                continue
        steps += 1
        if steps > _MAX_STEPS or (found and steps > _ENOUGH_STEPS):
            is_sure = False
            break
        tried_c[c] = k + 1
        pick_c[c] = row_cs[c, k] if is_row else -1
        i, m = 0, 0
        if is_row:
            i, m = code_p[pick_c[c]] >> MODE_BITS, code_p[pick_c[c]] & MODE_MASK
            fits = (barred_cw[c, i >> 6] >> np.uint64(i & 63)) & np.uint64(1) == np.uint64(0)
            for r in range(num_resources):
                if need_imr[i, m, r] > left_cr[c, r]:
                    fits = False
            if not fits:
                continue
        for r in range(num_resources):
            left_cr[c + 1, r] = left_cr[c, r] - (need_imr[i, m, r] if is_row else 0)
        for w in range(words):
            barred_cw[c + 1, w] = barred_cw[c, w] | (teams.apart_iw[i, w] if is_row else np.uint64(0))
        weight_c[c + 1] = weight_c[c] + (price_p[pick_c[c]] if is_row else 0.0)
        c += 1
        tried_c[c] = 0
    teams.num[WORK_DONE] += (steps + num_rows) * num_rows * (2 + num_resources)
    if found:
        teams.num[NUM_TEAMS] += 1
    return best, is_sure
