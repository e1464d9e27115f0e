"""Compiled best-first search for an optimal schedule of one part (``docs/scheduling.md``, section 4).

A node is a partial schedule at a moment: which operators have started, which still run and until when. Its
children start one more operator now (those of one moment in index order) or go on to the next completion.

Axis letters: as in ``tables``.
"""

from __future__ import annotations

import numpy as np

from rephaze.compiled import inner_in_place, kernel
from rephaze.schedule.dominance import is_new
from rephaze.schedule.node_bounds import bound_of_start, bound_of_wait, pack_rest, price_rest, tune_weights
from rephaze.schedule.nodes import (
    ACTION,
    BEGAN,
    BEST_NODE,
    BOUND,
    DEPTH,
    EXPANDED,
    HEAP_SIZE,
    INCUMBENT,
    LAST,
    MARKS,
    MAX_SETS,
    NEXT,
    NEXT_PACKING,
    NEXT_TUNING,
    NUM_EXPANDED,
    NUM_FACTS,
    NUM_NODES,
    NUM_RUNNING,
    NUM_SETS,
    ONLY_WAITED,
    OPEN,
    PACKING_STEP,
    PACKING_WORK_A_NODE,
    PACKS,
    PACKS_FROM,
    PARENT,
    SLOPE,
    STATE,
    TIME,
    TUNING_STEP,
    Nodes,
    has_bit,
    pop,
    push,
    set_bit,
)
from rephaze.schedule.relaxation import NEVER, shortest
from rephaze.schedule.tables import (
    MODE_BITS,
    MODE_MASK,
    Bits,
    Demand,
    Flags,
    Ints,
    NodeRows,
    ShortInts,
    Task,
    WeightSets,
)
from rephaze.schedule.teams import WORK_DONE

# What a slice of the search ended with.
RUNNING, PROVEN, FULL = 0, 1, 2


@inner_in_place
def _used(need_imr: Ints, fact: Ints, running: ShortInts, n: int, used_r: Ints) -> None:
    for r in range(used_r.shape[0]):
        used_r[r] = 0
    for s in range(fact[n, NUM_RUNNING]):
        code = running[n, s]
        for r in range(used_r.shape[0]):
            used_r[r] += need_imr[code >> MODE_BITS, code & MODE_MASK, r]


@inner_in_place
def _fits(dur_im: Ints, need_imr: Ints, cap_r: Ints, used_r: Ints, i: int, m: int) -> bool:
    if dur_im[i, m] >= NEVER:
        return False
    for r in range(used_r.shape[0]):  # noqa: SIM110 - compiled: a generator would be slower
        if used_r[r] + need_imr[i, m, r] > cap_r[r]:
            return False
    return True


@inner_in_place
def _is_ready(ancestors_iw: Bits, bits: Bits, n: int, i: int, words: int, done_w: Bits) -> bool:
    if has_bit(bits, n, 0, i):
        return False
    for w in range(words):  # noqa: SIM110
        if ancestors_iw[i, w] & ~done_w[w] != np.uint64(0):
            return False
    return True


@inner_in_place
def _finished(fact: Ints, bits: Bits, running: ShortInts, n: int, words: int, done_w: Bits) -> None:
    for w in range(words):
        done_w[w] = bits[n, w]
    for s in range(fact[n, NUM_RUNNING]):
        i = running[n, s] >> MODE_BITS
        done_w[i >> 6] &= ~(np.uint64(1) << np.uint64(i & 63))


@inner_in_place
def _copy(rows: NodeRows, control: Ints, n: int) -> int:
    """A new node like n, its child; not yet in the heap."""
    # Unpacked once: every field access of a tuple in compiled code counts references.
    fact, bits, running, finish = rows.fact, rows.bits, rows.running, rows.finish
    c: int = control[NUM_NODES]
    control[NUM_NODES] += 1
    for f in range(NUM_FACTS):
        fact[c, f] = fact[n, f]
    for w in range(bits.shape[1]):
        bits[c, w] = bits[n, w]
    fact[c, PARENT] = n
    fact[c, ACTION] = -1
    fact[c, NEXT] = -1
    fact[c, STATE] = OPEN
    fact[c, MARKS] = 0
    for s in range(fact[n, NUM_RUNNING]):
        running[c, s] = running[n, s]
        finish[c, s] = finish[n, s]
    return c


@inner_in_place
def _advance(
    demand: Demand, ancestors_iw: Bits, rows: NodeRows, c: int, used_r: Ints, done_w: Bits, may_change: bool
) -> bool:
    """Bar what was left waiting although it fitted, then go to the next completion, in place.

    Starting such an operator in the same mode before something took its room would be starting it late; so would
    starting it in a mode that holds no less and ends no sooner. False, and nobody's node, if some operator would
    have been done meanwhile. ``used_r`` and ``done_w`` are those of the node; ``may_change``: whether modes are
    compared with each other.
    """
    dur_im, need_imr, cap_r = demand.dur_im, demand.need_imr, demand.cap_r
    fact, bits, running, finish = rows.fact, rows.bits, rows.running, rows.finish
    num_modes, words = dur_im.shape[1], ancestors_iw.shape[1]
    moment = finish[c, 0]
    for s in range(1, fact[c, NUM_RUNNING]):
        moment = min(moment, finish[c, s])
    passed = moment - fact[c, TIME]
    for w in range(words, (1 + num_modes) * words):
        bits[c, w] = np.uint64(0)
    for i in range(dur_im.shape[0]):
        if _is_ready(ancestors_iw, bits, c, i, words, done_w):
            for m in range(num_modes):
                if _fits(dur_im, need_imr, cap_r, used_r, i, m):
                    set_bit(bits, c, (1 + m) * words, i)
                    if may_change:
                        if dur_im[i, m] <= passed:
                            return False
                        for q in range(num_modes):
                            if dur_im[i, m] <= dur_im[i, q] + passed and _holds_no_more(need_imr, i, m, q):
                                set_bit(bits, c, (1 + q) * words, i)
    kept = 0
    for s in range(fact[c, NUM_RUNNING]):
        if finish[c, s] > moment:
            running[c, kept] = running[c, s]
            finish[c, kept] = finish[c, s]
            kept += 1
    fact[c, NUM_RUNNING] = kept
    fact[c, TIME] = moment
    fact[c, MARKS] = ONLY_WAITED if fact[c, LAST] < 0 else 0
    fact[c, LAST] = -1
    return True


@inner_in_place
def _holds_no_more(need_imr: Ints, i: int, m: int, q: int) -> bool:
    """Whether operator i holds no more of anything in mode m than in mode q."""
    for r in range(need_imr.shape[2]):  # noqa: SIM110
        if need_imr[i, m, r] > need_imr[i, q, r]:
            return False
    return True


@inner_in_place
def _is_barred(alone_im: Flags, bits: Bits, n: int, i: int, m: int, words: int) -> bool:
    if has_bit(bits, n, (1 + m) * words, i):
        return True
    return bool(alone_im[i, m]) and has_bit(bits, n, (1 + alone_im.shape[1]) * words, i)


@inner_in_place
def _is_out_of_place(dur_im: Ints, descendants_iw: Bits, bits: Bits, n: int, start: int) -> bool:
    """Whether an operator beside which nothing runs, from its start at node n to its end, need not run like this.

    It may as well run in its fastest mode; and if nothing waits for it, at the end, in index order.
    """
    i, words = start >> MODE_BITS, descendants_iw.shape[1]
    if dur_im[i, start & MODE_MASK] > shortest(dur_im, i):
        return True
    for w in range(words):
        if descendants_iw[i, w] != np.uint64(0):
            return False
    for w in range(i >> 6):
        if ~bits[n, w] != np.uint64(0):
            return True
    below = (np.uint64(1) << np.uint64(i & 63)) - np.uint64(1)
    return bool(~bits[n, i >> 6] & below != np.uint64(0))


@kernel
def search_slice(task: Task, nodes: Nodes, max_expansions: int) -> int:
    """Expand up to so many nodes; return ``PROVEN``, ``FULL`` (no room for more nodes) or ``RUNNING``."""
    # Unpacked once: every field access of a tuple in compiled code counts references.
    dur_im, need_imr, cap_r = task.dur_im, task.need_imr, task.cap_r
    ancestors_iw, descendants_iw = task.ancestors_iw, task.descendants_iw
    tail_i, twin_i, alone_im, exclusive = task.tail_i, task.twin_i, task.alone_im, task.exclusive
    fact, bits, running, finish = nodes.fact, nodes.bits, nodes.running, nodes.finish
    heap, bucket, control = nodes.heap, nodes.bucket, nodes.control
    demand = Demand(dur_im, need_imr, cap_r)
    rows = NodeRows(fact, bits, running, finish)
    sets = WeightSets(nodes.weight, nodes.price)
    size, words = ancestors_iw.shape
    num_modes = dur_im.shape[1]
    used_r = np.zeros(cap_r.shape[0], dtype=np.int64)
    done_w = np.zeros(words, dtype=np.uint64)
    child_r = np.zeros(cap_r.shape[0], dtype=np.int64)
    total_k = np.zeros(MAX_SETS)
    child_k = np.zeros(MAX_SETS)
    room = fact.shape[0]
    root = np.int64(0)
    for _ in range(max_expansions):
        if control[HEAP_SIZE] == 0:
            return PROVEN
        # Each expansion adds at most a child for each mode of each operator and one that waits.
        if control[NUM_NODES] + num_modes * size + 2 >= room:
            return FULL
        if control[SLOPE] == 0 and fact[heap[0], BOUND] >= control[INCUMBENT]:
            return PROVEN
        n = pop(heap, fact, control)
        if fact[n, STATE] != OPEN or fact[n, BOUND] >= control[INCUMBENT]:
            continue
        control[NUM_EXPANDED] += 1
        # Bounds are tuned to node n now and then; the first packing, which comes first, is of the whole part.
        # Written out here: each function around ``pack`` would take seconds more to compile.
        if control[PACKS] == 1 and control[NUM_EXPANDED] >= control[NEXT_PACKING]:
            is_first = control[NUM_SETS] == 1
            control[NUM_SETS] = MAX_SETS
            raised = pack_rest(task, nodes, root if is_first else n)
            # Oftener where it tells more than the weights in use; under rule chip bounds suffer mostly from what
            # no weights can tell. Where it is slow it must not take more than two thirds of the work.
            least = 32 if exclusive else 1
            control[PACKING_STEP] = least if raised else min(2 * control[PACKING_STEP], 16 * least)
            control[NEXT_PACKING] = max(
                control[NUM_EXPANDED] + control[PACKING_STEP],
                nodes.teams.num[WORK_DONE] // (2 * PACKING_WORK_A_NODE),
                control[PACKS_FROM],
            )
            if fact[n, BOUND] >= control[INCUMBENT]:
                continue
            if control[HEAP_SIZE] > 0 and fact[n, BOUND] > fact[heap[0], BOUND]:
                push(heap, fact, control, n)
                continue
        if control[NUM_EXPANDED] >= control[NEXT_TUNING]:
            # It pays while it raises bounds; each time it does not, wait longer.
            control[NUM_SETS] = MAX_SETS
            raised = tune_weights(task, nodes, n)
            control[TUNING_STEP] = 256 if raised else min(2 * control[TUNING_STEP], 4096)
            control[NEXT_TUNING] = control[NUM_EXPANDED] + control[TUNING_STEP]
        num_sets = control[NUM_SETS]
        sharper, longest = price_rest(dur_im, tail_i, rows, sets, num_sets, n, total_k)
        if sharper > fact[n, BOUND]:
            # Weight sets found since it was made say more: back to its true place.
            fact[n, BOUND] = sharper
            if sharper < control[INCUMBENT]:
                push(heap, fact, control, n)
            continue
        fact[n, STATE] = EXPANDED
        now = fact[n, TIME]
        _used(need_imr, fact, running, n, used_r)
        _finished(fact, bits, running, n, words, done_w)
        idle = fact[n, NUM_RUNNING] == 0
        # The first child waits for the next completion; the others start operator i in mode m.
        first = num_modes * (fact[n, LAST] + 1)
        for child in range(first - 1, num_modes * size):
            waits = child == first - 1
            i, m = child // num_modes, child % num_modes
            start = (i << MODE_BITS) | m
            if waits:
                if idle:
                    continue
                if not exclusive and fact[n, NUM_RUNNING] == 1:
                    lone = running[n, 0]
                    if finish[n, 0] - dur_im[lone >> MODE_BITS, lone & MODE_MASK] == now and _is_out_of_place(
                        dur_im, descendants_iw, bits, n, lone
                    ):
                        continue
                bound = bound_of_wait(rows, sets, num_sets, n, longest, total_k)
            else:
                if not _is_ready(ancestors_iw, bits, n, i, words, done_w):
                    continue
                if twin_i[i] >= 0 and not has_bit(bits, n, 0, twin_i[i]):
                    continue
                if _is_barred(alone_im, bits, n, i, m, words) or not _fits(dur_im, need_imr, cap_r, used_r, i, m):
                    continue
                bound = bound_of_start(dur_im, tail_i, fact, sets, num_sets, n, start, total_k)
            if bound >= control[INCUMBENT]:
                continue
            c = _copy(rows, control, n)
            for r in range(cap_r.shape[0]):
                child_r[r] = used_r[r]
            moves_on = True
            if not waits:
                set_bit(bits, c, 0, i)
                s = fact[c, NUM_RUNNING]
                running[c, s] = start
                finish[c, s] = now + dur_im[i, m]
                fact[c, NUM_RUNNING] += 1
                fact[c, LAST] = i
                fact[c, DEPTH] += 1
                fact[c, ACTION] = start
                fact[c, BEGAN] = now
                for r in range(cap_r.shape[0]):
                    child_r[r] += need_imr[i, m, r]
                if exclusive and idle:
                    # An operator that stops the chip does so at the first idle moment it is ready for, and
                    # those of one moment go in index order: any later one could be moved there.
                    for j in range(i if alone_im[i, m] else size):
                        if j != i and _is_ready(ancestors_iw, bits, n, j, words, done_w):
                            set_bit(bits, c, (1 + num_modes) * words, j)
                if fact[c, DEPTH] == size:
                    moves_on = False
                for j in range(i + 1, size):
                    if not moves_on:
                        break
                    if _is_ready(ancestors_iw, bits, c, j, words, done_w):
                        for q in range(num_modes):
                            if not _is_barred(alone_im, bits, c, j, q, words) and _fits(
                                dur_im, need_imr, cap_r, child_r, j, q
                            ):
                                moves_on = False
            # A child that can start nothing more now goes on to the next completion at once.
            if moves_on:
                if not exclusive and idle and _is_out_of_place(dur_im, descendants_iw, bits, c, start):
                    control[NUM_NODES] -= 1
                    continue
                if not _advance(demand, ancestors_iw, rows, c, child_r, done_w, not exclusive):
                    control[NUM_NODES] -= 1
                    continue
            sharper, _ = price_rest(dur_im, tail_i, rows, sets, num_sets, c, child_k)
            bound = max(bound, sharper)
            fact[c, BOUND] = bound
            if bound >= control[INCUMBENT]:
                control[NUM_NODES] -= 1
            elif fact[c, DEPTH] == size:
                # Its bound is its makespan: the last completion.
                control[INCUMBENT] = bound
                control[BEST_NODE] = c
            elif moves_on and not is_new(need_imr, descendants_iw, rows, heap, bucket, control, c):
                control[NUM_NODES] -= 1
            else:
                push(heap, fact, control, c)
    return RUNNING
