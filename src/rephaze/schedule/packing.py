"""Compiled lower bounds: the best weight set of all, by column generation (``docs/scheduling.md``, section 3).

A *team* is a set of operators, each in a mode, that may run at one instant: none precedes another and together
they need no more than there is. The least total time of teams that gives every operator its duration, in one
mode or part in each, is a lower bound on the makespan; the dual prices are a weight set, and no weight set gives
more. Teams are made as they are needed: the heaviest one under the current prices.

Axis letters: i = operator of a part, m = mode, r = resource, w = word of a bitset, t = team, s = member of a
team, p, q = rows (an operator in one of its possible modes).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rephaze.compiled import inner, kernel
from rephaze.schedule.relaxation import NEVER

_EPSILON = 1e-11
# Steps towards one heaviest team. Past the first number any team that is too heavy will do; past the second the
# part is too wide for this bound.
_ENOUGH_STEPS, _MAX_STEPS = 100, 50_000
# Durations are raised by up to this part of the longest: ties would let the simplex method go in circles.
_PERTURBATION = 1e-11

# What enters the basis, as a number: a team has its own.
_IS_SPLIT, _IS_SURPLUS, _NOTHING = -1, -2, -3


class Teams(NamedTuple):
    """Teams found so far, kept from one bound to the next."""

    member: Any
    """member[t, s]: operator * 2 + mode."""
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
        if min(dur_im[i, 0], dur_im[i, 1]) >= NEVER:
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
            i, m = code_p[p] >> 1, code_p[p] & 1
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
                i, m = code_p[p] >> 1, code_p[p] & 1
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
        chain = chain_i[code_p[p] >> 1]
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
            i, m = code_p[pick_c[c]] >> 1, code_p[pick_c[c]] & 1
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
    size = dur_im.shape[0]
    row_im = np.full((size, 2), -1, dtype=np.int64)
    code_p = np.empty(2 * size, dtype=np.int64)
    num_rows, longest = 0, 1.0
    for i in range(size):
        for m in range(2):
            weight_im[i, m] = 0.0
            if dur_im[i, m] < NEVER:
                row_im[i, m] = num_rows
                code_p[num_rows] = 2 * i + m
                num_rows += 1
                longest = max(longest, float(dur_im[i, m]))
    code_p = code_p[:num_rows]
    chain_i = np.zeros(size, dtype=np.int64)
    num_chains = _chains(dur_im, ancestors_iw, chain_i)
    # Row (i, m): time of teams with it, plus (m = 0) or less (m = 1) the part of i done in mode 1, covers
    # what i needs. The first basis: every row alone.
    value_p = np.empty(num_rows)
    split_p = np.zeros(num_rows)
    for p in range(num_rows):
        i, m = code_p[p] >> 1, code_p[p] & 1
        length = dur_im[i, m] / longest
        if row_im[i, 1 - m] >= 0:
            split_p[p] = length if m == 0 else -length
        value_p[p] = (0.0 if m == 1 and row_im[i, 0] >= 0 else length) + _PERTURBATION * (1 + p) / num_rows
    price_p = np.ones(num_rows)
    inverse_pk = np.zeros((num_rows, num_rows))  # of the basis, transposed
    for p in range(num_rows):
        inverse_pk[p, p] = 1.0
    column_k = np.empty(num_rows)
    best = 0.0
    for _ in range(max_pivots):
        teams.num[1] += num_rows * num_rows + 8 * teams.num[0]
        # What enters: the split of an operator between its modes, a surplus, or a team known or new.
        entering, gain = _NOTHING, _EPSILON
        first = 0
        for p in range(num_rows):
            if -price_p[p] > gain:
                entering, gain, first = _IS_SURPLUS, -price_p[p], p
            if split_p[p] > 0:
                other = row_im[code_p[p] >> 1, 1]
                worth = split_p[p] * price_p[p] + split_p[other] * price_p[other]
                if worth > gain:
                    entering, gain, first = _IS_SPLIT, worth, p
        if entering == _NOTHING:
            for t in range(teams.num[0]):
                weight = -1.0
                for s in range(teams.size[t]):
                    code = teams.member[t, s]
                    p = row_im[code >> 1, code & 1]
                    if p >= 0:
                        weight += price_p[p]
                if weight > gain:
                    entering, gain = t, weight
        if entering == _NOTHING:
            if teams.num[0] == len(teams.size):
                break
            known = teams.num[0]
            heaviest, is_sure = _heaviest(code_p, price_p, need_imr, cap_r, chain_i, num_chains, teams)
            if is_sure:
                total = 0.0
                for i in range(size):
                    lowest = 1e300
                    for m in range(2):
                        if row_im[i, m] >= 0:
                            lowest = min(lowest, max(price_p[row_im[i, m]], 0.0) * dur_im[i, m])
                    if lowest < 1e300:
                        total += lowest / heaviest
                if total > best:
                    best = total
                    for p in range(num_rows):
                        weight_im[code_p[p] >> 1, code_p[p] & 1] = max(price_p[p], 0.0) / heaviest
            if teams.num[0] == known:
                break
            entering, gain = known, heaviest - 1.0
        for k in range(num_rows):
            column_k[k] = 0.0
        if entering >= 0:
            for s in range(teams.size[entering]):
                code = teams.member[entering, s]
                p = row_im[code >> 1, code & 1]
                if p >= 0:
                    for k in range(num_rows):
                        column_k[k] += inverse_pk[p, k]
        elif entering == _IS_SURPLUS:
            for k in range(num_rows):
                column_k[k] = -inverse_pk[first, k]
        else:
            other = row_im[code_p[first] >> 1, 1]
            for k in range(num_rows):
                column_k[k] = split_p[first] * inverse_pk[first, k] + split_p[other] * inverse_pk[other, k]
        leaving, least = -1, 1e300
        for k in range(num_rows):
            if column_k[k] > 1e-9:
                ratio = max(value_p[k], 0.0) / column_k[k]
                if ratio < least:
                    leaving, least = k, ratio
        if leaving < 0:
            break
        pivot = column_k[leaving]
        for k in range(num_rows):
            value_p[k] -= least * column_k[k]
        value_p[leaving] = least
        for p in range(num_rows):
            factor = inverse_pk[p, leaving] / pivot
            if factor != 0.0:
                for k in range(num_rows):
                    inverse_pk[p, k] -= factor * column_k[k]
                inverse_pk[p, leaving] = factor
                price_p[p] -= gain * factor
    return best
