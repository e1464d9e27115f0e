"""Compiled lower bounds: the best mix of resource loads and paths (``docs/scheduling.md``, section 3).

Axis letters: i = operator of a part, m = mode (a way to run it), r = resource, k = weight set.

A *weight set* prices every cycle of operator i in mode m at ``weight_im`` so that no instant of any schedule
costs more than 1. The cheapest price of all operators is then a lower bound on the makespan, and, after any
partial schedule, the price of what is left a lower bound on the time still needed.
"""

from __future__ import annotations

import numpy as np

from rephaze.compiled import inner_in_place, kernel, kernel_in_place
from rephaze.schedule.tables import Bits, Flags, Floats, Int, Ints, Preds

NEVER = 1 << 60
"""Duration of an impossible mode inside the kernels."""

# What float sums may lose, with room: thousands of terms of relative error 1.1e-16.
_RELATIVE_SLACK = 1e-12
_ABSOLUTE_SLACK = 1e-7


@kernel_in_place
def ceil_safely(value: float) -> int:
    """The least whole number not below ``value`` less what rounding may have added to it."""
    return int(np.ceil(value - _RELATIVE_SLACK * abs(value) - _ABSOLUTE_SLACK))


@inner_in_place
def shortest(dur_im: Ints, i: int) -> int:
    """Cycles of operator i in its fastest mode."""
    least: int = dur_im[i, 0]
    for m in range(1, dur_im.shape[1]):
        least = min(least, dur_im[i, m])
    return least


@kernel_in_place
def tails(dur_im: Ints, preds: Preds, tail_i: Ints) -> int:
    """Fill the longest path from each operator to the end, in the faster modes; return the longest of all."""
    pred_start, pred_index = preds.start_i, preds.pred
    size = dur_im.shape[0]
    longest = 0
    for i in range(size):
        tail_i[i] = 0
    for i in range(size - 1, -1, -1):
        tail_i[i] += shortest(dur_im, i)
        longest = max(longest, tail_i[i])
        for e in range(pred_start[i], pred_start[i + 1]):
            j = pred_index[e]
            tail_i[j] = max(tail_i[j], tail_i[i])
    return longest


@kernel
def cliques(dur_im: Ints, need_imr: Ints, cap_r: Ints, ancestors_iw: Bits, order: Ints, member_ki: Flags) -> int:
    """Fill the longest sets found of operators no two of which can ever overlap; return how many.

    Two cannot if one precedes the other or if, in every pair of modes, they need too much of something
    together. Sets are grown greedily from each operator, longest candidates first.

    Args:
        dur_im: Cycles, ``NEVER`` for impossible.
        need_imr: Units of each resource held while running.
        cap_r: Units there are.
        ancestors_iw: Bitsets.
        order: The operators, longest in their faster mode first.
        member_ki: Filled with up to as many sets as it has rows.
    """
    size, most = dur_im.shape[0], member_ki.shape[0]
    clash = np.zeros((size, size), dtype=np.bool_)
    for i in range(size):
        for j in range(i):
            apart = (ancestors_iw[i, j >> 6] >> np.uint64(j & 63)) & np.uint64(1) != np.uint64(0)
            if not apart:
                apart = True
                for m in range(dur_im.shape[1]):
                    for q in range(dur_im.shape[1]):
                        if dur_im[i, m] < NEVER and dur_im[j, q] < NEVER:
                            fits = True
                            for r in range(cap_r.shape[0]):
                                if need_imr[i, m, r] + need_imr[j, q, r] > cap_r[r]:
                                    fits = False
                                    break
                            if fits:
                                apart = False
            clash[i, j] = clash[j, i] = apart
    length_k = np.zeros(most, dtype=np.int64)
    inside = np.zeros(size, dtype=np.bool_)
    count = 0
    for rank in range(min(size, 48)):
        seed = order[rank]
        for i in range(size):
            inside[i] = i == seed
        length = shortest(dur_im, seed)
        for at in range(size):
            i = order[at]
            if not inside[i]:
                fits = True
                for j in range(size):
                    if inside[j] and not clash[i, j]:
                        fits = False
                        break
                if fits:
                    inside[i] = True
                    length += shortest(dur_im, i)
        known = False
        for k in range(count):
            same = length_k[k] == length
            for i in range(size):
                same = same and member_ki[k, i] == inside[i]
            known = known or same
        if known:
            continue
        slot = count
        if count < most:
            count += 1
        else:
            slot = 0
            for k in range(1, most):
                if length_k[k] < length_k[slot]:
                    slot = k
            if length_k[slot] >= length:
                continue
        for i in range(size):
            member_ki[slot, i] = inside[i]
        length_k[slot] = length
    return count


@kernel
def relax(
    dur_im: Ints,
    frac_imr: Floats,
    alone_im: Flags,
    preds: Preds,
    num_rounds: Int,
    tolerance: float,
    weight_im: Floats,
    pick_i: Ints,
) -> float:
    """Fill the best weight set found and the modes it favours; return its lower bound.

    The bound is the value of a zero-sum game: one player picks modes, the other a resource or a path to
    measure them by. Fictitious play approaches it, and every average of the second player's moves is a valid
    weight set, so it can stop at any round.

    Args:
        dur_im: Cycles, ``NEVER`` for impossible.
        frac_imr: Part of each resource's capacity held while running; any other measure of which concurrent
            operators together never have more than 1, such as cliques, may follow.
        alone_im: Modes that stop the whole chip: every measure counts them in full.
        preds: Immediate predecessors.
        num_rounds: Most rounds to play.
        tolerance: Stop when the bound is within this part of what any weight set can give.
        weight_im: Filled.
        pick_i: Filled.
    """
    pred_start, pred_index = preds.start_i, preds.pred
    size, num_modes, num_resources = frac_imr.shape
    share_r = np.zeros(num_resources)
    flow_i = np.zeros(size)
    load_r = np.zeros(num_resources)
    reach_i = np.zeros(size)
    via_i = np.zeros(size, dtype=np.int64)
    best, ceiling = -1.0, 1e300
    for k in range(num_rounds + 1):
        # First player: the cheaper mode of each operator under the current weights.
        total, held = 0.0, 0.0
        for r in range(num_resources):
            load_r[r] = 0.0
        for i in range(size):
            lowest, mode = 1e300, 0
            for m in range(num_modes):
                if dur_im[i, m] < NEVER:
                    weight = flow_i[i]
                    if alone_im[i, m]:
                        weight = 1.0
                    else:
                        for r in range(num_resources):
                            weight += share_r[r] * frac_imr[i, m, r]
                    # Before any measure is chosen the faster mode is the natural first move.
                    cost = weight * dur_im[i, m] if k > 0 else float(dur_im[i, m])
                    if cost < lowest:
                        lowest, mode = cost, m
            pick_i[i] = mode
            if k > 0:
                total += lowest
        if k > 0 and total > best:
            best = total
            for i in range(size):
                for m in range(num_modes):
                    weight = flow_i[i]
                    for r in range(num_resources):
                        weight += share_r[r] * frac_imr[i, m, r]
                    weight_im[i, m] = 1.0 if alone_im[i, m] else weight
        # Second player: the measure under which these modes take longest.
        longest, end = 0.0, -1
        for i in range(size):
            m = pick_i[i]
            alone = alone_im[i, m]
            if alone:
                held += dur_im[i, m]
            else:
                for r in range(num_resources):
                    load_r[r] += frac_imr[i, m, r] * dur_im[i, m]
            reach_i[i] = 0.0
            via_i[i] = -1
            for e in range(pred_start[i], pred_start[i + 1]):
                j = pred_index[e]
                if reach_i[j] > reach_i[i]:
                    reach_i[i] = reach_i[j]
                    via_i[i] = j
            if not alone:
                reach_i[i] += dur_im[i, m]
            if reach_i[i] > longest:
                longest, end = reach_i[i], i
        measure, which = longest, -1
        for r in range(num_resources):
            if load_r[r] > measure:
                measure, which = load_r[r], r
        ceiling = min(ceiling, held + measure)
        if best >= ceiling * (1.0 - tolerance):
            break
        step = 1.0 if k == 0 else 2.0 / (k + 3.0)
        for r in range(num_resources):
            share_r[r] *= 1.0 - step
        for i in range(size):
            flow_i[i] *= 1.0 - step
        if which >= 0:
            share_r[which] += step
        else:
            while end >= 0:
                flow_i[end] += step
                end = via_i[end]
    return best
