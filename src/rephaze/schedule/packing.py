"""Compiled lower bounds: the best weight set of all, by column generation (``docs/scheduling.md``, section 3).

The least total time of teams (``teams``) in which every operator is done, in one mode or part in each, is a lower
bound on the makespan. It is a linear program with a row an operator and a column a team, whose entry is the part
of the operator that one unit of time does. The dual price of an operator, divided by its duration in a mode, is
what a cycle of it weighs: a weight set, and no weight set gives more. Teams are made as they are needed: the
heaviest one under the current prices.

Axis letters: i = operator of a part, m = mode, r = resource, w = word of a bitset, t = team, s = member of a
team, p = an operator in one of its possible modes, q = row (an operator that is not done), k = place in the basis.
"""

from __future__ import annotations

import numpy as np

from rephaze.compiled import inner_in_place, kernel
from rephaze.schedule.relaxation import NEVER, shortest
from rephaze.schedule.tables import MODE_BITS, MODE_MASK, Bits, Floats, Ints
from rephaze.schedule.teams import EPSILON, NUM_TEAMS, WORK_DONE, Teams, fill_chains, heaviest_team

# Durations are raised by up to this part of the longest: ties would let the simplex method go in circles.
_PERTURBATION = 1e-11

# What enters the basis, as a number: a team has its own.
_IS_SURPLUS, _NOTHING = -1, -2


@inner_in_place
def _pace(fastest: float, cycles: int) -> float:
    """How fast a mode does an operator, as part of its fastest; an operator that takes no time is done at once."""
    return fastest / cycles if cycles > 0 else 1.0


@kernel
def pack(
    dur_im: Ints, need_imr: Ints, cap_r: Ints, ancestors_iw: Bits, teams: Teams, max_pivots: int, weight_im: Floats
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
    num_chains = fill_chains(dur_im, ancestors_iw, chain_i)
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
        teams.num[WORK_DONE] += num_rows * num_rows + 8 * teams.num[NUM_TEAMS]
        # What enters: a surplus, or a team known or new.
        entering, gain = _NOTHING, EPSILON
        first = 0
        for q in range(num_rows):
            if -price_q[q] > gain:
                entering, gain, first = _IS_SURPLUS, -price_q[q], q
        if entering == _NOTHING:
            for t in range(teams.num[NUM_TEAMS]):
                weight = -1.0
                for s in range(teams.size[t]):
                    i, m = teams.member[t, s] >> MODE_BITS, teams.member[t, s] & MODE_MASK
                    if row_i[i] >= 0 and dur_im[i, m] < NEVER:
                        weight += price_q[row_i[i]] * _pace(fast_q[row_i[i]], dur_im[i, m])
                if weight > gain:
                    entering, gain = t, weight
        if entering == _NOTHING:
            if teams.num[NUM_TEAMS] == len(teams.size):
                break
            for p in range(num_codes):
                i, m = code_p[p] >> MODE_BITS, code_p[p] & MODE_MASK
                price_p[p] = price_q[row_i[i]] * _pace(fast_q[row_i[i]], dur_im[i, m])
            known = teams.num[NUM_TEAMS]
            heaviest, is_sure = heaviest_team(code_p, price_p, need_imr, cap_r, chain_i, num_chains, teams)
            if is_sure:
                total = 0.0
                for q in range(num_rows):
                    total += max(price_q[q], 0.0) * fast_q[q] / heaviest
                if total > best:
                    best = total
                    for p in range(num_codes):
                        weight_im[code_p[p] >> MODE_BITS, code_p[p] & MODE_MASK] = max(price_p[p], 0.0) / heaviest
            if teams.num[NUM_TEAMS] == known:
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
