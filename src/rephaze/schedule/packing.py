"""Compiled lower bounds: the best weight set of all, by column generation (``docs/scheduling.md``, section 3).

A *team* is a set of operators, each in a mode, that may run at one instant: none precedes another and together
they need no more than there is. The least total time of teams in which every operator is done, in one mode or part
in each, is a lower bound on the makespan. It is a linear program with a row an operator and a column a team, whose
entry is the part of the operator that one unit of time does. The dual price of an operator, divided by its
duration in a mode, is what a cycle of it weighs: a weight set, and no weight set gives more. Teams are made as
they are needed: the heaviest one under the current prices.

Axis letters: i = operator of a part, m = mode, r = resource, w = word of a bitset, t = team, s = member of a
team, p = an operator in one of its possible modes, q = row (an operator that is not done), k = place in the basis.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rephaze.compiled import inner, kernel
from rephaze.schedule.relaxation import NEVER, shortest

MODE_BITS = 3
"""A start as one number: the operator, and in the last bits the mode."""
MODE_MASK = (1 << MODE_BITS) - 1

_EPSILON = 1e-11
# Steps towards one heaviest team. Past the first number any team that is too heavy will do; past the second the
# part is too wide for this bound.
_ENOUGH_STEPS, _MAX_STEPS = 100, 50_000
# Durations are raised by up to this part of the longest: ties would let the simplex method go in circles.
_PERTURBATION = 1e-11

# What enters the basis, as a number: a team has its own.
_IS_SURPLUS, _NOTHING = -1, -2


class Teams(NamedTuple):
    """Teams found so far, kept from one bound to the next."""

    member: Any
    """member[t, s]: operator and mode (``MODE_BITS``)."""
    size: Any
    num: Any
    """Two entries: how many there are, and the work done with them so far, in some half nanoseconds."""
    apart_iw: Any
    """Bitsets: the operators that precede or follow i."""


def no_teams(ancestors_iw: Any, descendants_iw: Any, width: int, capacity: int) -> Teams:
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
def _chains(dur_im: Any, ancestors_iw: Any, chain_i: Any) -> int:
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


@inner
def _most_ahead(
    code_p: Any,
    price_p: Any,
    need_imr: Any,
    left_r: Any,
    barred_w: Any,
    row_cs: Any,
    length_c: Any,
    c: Any,
    end: Any,
    dense_r: Any,
    free_r: Any,
) -> float:
    """At most so much weight can chains c to ``end`` add to a team that leaves ``left_r`` and bars ``barred_w``.

    One row a chain; and of those that need resource r no more than its densest row filling what is left.
    """
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
def _heaviest(
    code_p: Any,
    price_p: Any,
    need_imr: Any,
    cap_r: Any,
    chain_i: Any,
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
        if price_p[p] <= _EPSILON:
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
    tried_c = np.zeros(used_chains + 1, dtype=np.int64)
    weight_c = np.zeros(used_chains + 1)
    pick_c = np.full(used_chains + 1, -1, dtype=np.int64)
    left_cr = np.zeros((used_chains + 1, num_resources), dtype=np.int64)
    for r in range(num_resources):
        left_cr[0, r] = cap_r[r]
    dense_r, free_r = np.zeros(num_resources), np.zeros(num_resources)
    barred_cw = np.zeros((used_chains + 1, words), dtype=np.uint64)
    best, number = 1.0 + _EPSILON, teams.num[0]
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
            most = _most_ahead(
                code_p,
                price_p,
                need_imr,
                left_cr[c],
                barred_cw[c],
                row_cs,
                length_c,
                c,
                used_chains,
                dense_r,
                free_r,
            )
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
    teams.num[1] += (steps + num_rows) * num_rows * (2 + num_resources)
    if found:
        teams.num[0] += 1
    return best, is_sure


@inner
def _pace(fastest: float, cycles: Any) -> float:
    """How fast a mode does an operator, as part of its fastest; an operator that takes no time is done at once."""
    return fastest / cycles if cycles > 0 else 1.0


@kernel
def pack(
    dur_im: Any, need_imr: Any, cap_r: Any, ancestors_iw: Any, teams: Teams, max_pivots: int, weight_im: Any
) -> float:
    """Fill the best weight set found and return its lower bound; the weights of impossible modes are 0.

    Args:
        dur_im: Cycles, ``NEVER`` for impossible; an operator with no mode left is done.
        need_imr: Units of each resource held while running.
        cap_r: Units there are.
        ancestors_iw: Bitsets.
        teams: Found before, for any durations; grows.
        max_pivots: Steps of the simplex method; every one leaves a valid bound.
        weight_im: Filled.
    """
    size, num_modes = dur_im.shape
    row_i = np.full(size, -1, dtype=np.int64)
    code_p = np.empty(num_modes * size, dtype=np.int64)
    num_rows, num_codes = 0, 0
    for i in range(size):
        for m in range(num_modes):
            weight_im[i, m] = 0.0
            if dur_im[i, m] < NEVER:
                code_p[num_codes] = (i << MODE_BITS) | m
                num_codes += 1
        if shortest(dur_im, i) < NEVER:
            row_i[i] = num_rows
            num_rows += 1
    code_p = code_p[:num_codes]
    price_p = np.empty(num_codes)
    chain_i = np.zeros(size, dtype=np.int64)
    num_chains = _chains(dur_im, ancestors_iw, chain_i)
    # The first basis: every operator alone in its fastest mode. Entries are scaled by that duration, so that they
    # are at most 1: an operator's share of its fastest pace.
    fast_q = np.empty(num_rows)
    value_k = np.empty(num_rows)
    longest = 1.0
    for i in range(size):
        if row_i[i] >= 0:
            fast_q[row_i[i]] = max(float(shortest(dur_im, i)), 1e-300)
            longest = max(longest, fast_q[row_i[i]])
    for q in range(num_rows):
        value_k[q] = fast_q[q] / longest + _PERTURBATION * (1 + q) / num_rows
    price_q = np.ones(num_rows)
    inverse_qk = np.zeros((num_rows, num_rows))  # of the basis, transposed
    for q in range(num_rows):
        inverse_qk[q, q] = 1.0
    column_k = np.empty(num_rows)
    best = 0.0
    for _ in range(max_pivots):
        teams.num[1] += num_rows * num_rows + 8 * teams.num[0]
        # What enters: a surplus, or a team known or new.
        entering, gain = _NOTHING, _EPSILON
        first = 0
        for q in range(num_rows):
            if -price_q[q] > gain:
                entering, gain, first = _IS_SURPLUS, -price_q[q], q
        if entering == _NOTHING:
            for t in range(teams.num[0]):
                weight = -1.0
                for s in range(teams.size[t]):
                    i, m = teams.member[t, s] >> MODE_BITS, teams.member[t, s] & MODE_MASK
                    if row_i[i] >= 0 and dur_im[i, m] < NEVER:
                        weight += price_q[row_i[i]] * _pace(fast_q[row_i[i]], dur_im[i, m])
                if weight > gain:
                    entering, gain = t, weight
        if entering == _NOTHING:
            if teams.num[0] == len(teams.size):
                break
            for p in range(num_codes):
                i, m = code_p[p] >> MODE_BITS, code_p[p] & MODE_MASK
                price_p[p] = price_q[row_i[i]] * _pace(fast_q[row_i[i]], dur_im[i, m])
            known = teams.num[0]
            heaviest, is_sure = _heaviest(code_p, price_p, need_imr, cap_r, chain_i, num_chains, teams)
            if is_sure:
                total = 0.0
                for q in range(num_rows):
                    total += max(price_q[q], 0.0) * fast_q[q] / heaviest
                if total > best:
                    best = total
                    for p in range(num_codes):
                        weight_im[code_p[p] >> MODE_BITS, code_p[p] & MODE_MASK] = max(price_p[p], 0.0) / heaviest
            if teams.num[0] == known:
                break
            entering, gain = known, heaviest - 1.0
        for k in range(num_rows):
            column_k[k] = 0.0
        if entering >= 0:
            for s in range(teams.size[entering]):
                i, m = teams.member[entering, s] >> MODE_BITS, teams.member[entering, s] & MODE_MASK
                if row_i[i] >= 0 and dur_im[i, m] < NEVER:
                    pace = _pace(fast_q[row_i[i]], dur_im[i, m])
                    for k in range(num_rows):
                        column_k[k] += pace * inverse_qk[row_i[i], k]
        else:
            for k in range(num_rows):
                column_k[k] = -inverse_qk[first, k]
        leaving, least = -1, 1e300
        for k in range(num_rows):
            if column_k[k] > 1e-9:
                ratio = max(value_k[k], 0.0) / column_k[k]
                if ratio < least:
                    leaving, least = k, ratio
        if leaving < 0:
            break
        pivot = column_k[leaving]
        for k in range(num_rows):
            value_k[k] -= least * column_k[k]
        value_k[leaving] = least
        for q in range(num_rows):
            factor = inverse_qk[q, leaving] / pivot
            if factor != 0.0:
                for k in range(num_rows):
                    inverse_qk[q, k] -= factor * column_k[k]
                inverse_qk[q, leaving] = factor
                price_q[q] -= gain * factor
    return best
