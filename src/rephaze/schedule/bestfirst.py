"""Compiled best-first search for an optimal schedule of one part (``docs/scheduling.md``, section 4).

A node is a partial schedule at a moment: which operators have started, which still run and until when. Its
children start one more operator now (those of one moment in index order) or go on to the next completion.

Axis letters: as in ``nodes``.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from rephaze.schedule.nodes import (
    ACTION,
    BEGAN,
    BEST_NODE,
    BOUND,
    DEAD,
    DEPTH,
    EXPANDED,
    HEAP_SIZE,
    INCUMBENT,
    LAST,
    NEXT,
    NEXT_RELAX,
    NUM_EXPANDED,
    NUM_FACTS,
    NUM_NODES,
    NUM_RUNNING,
    NUM_SETS,
    OPEN,
    PARENT,
    RELAX_STEP,
    STATE,
    TIME,
    WAITED,
    Nodes,
    Task,
    add_weights,
    has_bit,
    hash_bits,
    pop,
    push,
    set_bit,
)
from rephaze.schedule.relaxation import NEVER, ceil_safely, relax

# What a slice of the search ended with.
RUNNING, PROVEN, FULL = 0, 1, 2


@nb.njit(cache=True)
def _price_rest(
    dur_im: Any,
    tail_i: Any,
    fact: Any,
    bits: Any,
    running: Any,
    finish: Any,
    weight: Any,
    price: Any,
    num_sets: int,
    n: int,
    total_k: Any,
) -> tuple[int, int]:
    """Fill the price of what is left at a node under each weight set; return a bound and its longest tail."""
    now = fact[n, TIME]
    longest = 0
    for k in range(num_sets):
        total_k[k] = 0.0
    for i in range(dur_im.shape[0]):
        if not has_bit(bits, n, 0, i):
            longest = max(longest, tail_i[i])
            for k in range(num_sets):
                total_k[k] += price[k, i]
    bound = now + longest
    for s in range(fact[n, NUM_RUNNING]):
        code = running[n, s]
        i = code >> 1
        bound = max(bound, finish[n, s] + tail_i[i] - min(dur_im[i, 0], dur_im[i, 1]))
        for k in range(num_sets):
            total_k[k] += weight[k, i, code & 1] * (finish[n, s] - now)
    for k in range(num_sets):
        bound = max(bound, now + ceil_safely(total_k[k]))
    return bound, longest


@nb.njit(cache=True)
def _bound_of_start(
    dur_im: Any,
    tail_i: Any,
    fact: Any,
    weight: Any,
    price: Any,
    num_sets: int,
    n: int,
    i: int,
    m: int,
    total_k: Any,
) -> Any:
    """A bound on node n with one more start, from n's totals alone: most children end here, unmade."""
    length = dur_im[i, m]
    now = fact[n, TIME]
    best = max(fact[n, BOUND], now + length + tail_i[i] - min(dur_im[i, 0], dur_im[i, 1]))
    for k in range(num_sets):
        best = max(best, now + ceil_safely(total_k[k] - price[k, i] + weight[k, i, m] * length))
    return best


@nb.njit(cache=True)
def _bound_of_wait(
    fact: Any, running: Any, finish: Any, weight: Any, num_sets: int, n: int, longest: int, total_k: Any
) -> Any:
    """A bound on node n gone on to its next completion."""
    now = fact[n, TIME]
    moment = finish[n, 0]
    for s in range(1, fact[n, NUM_RUNNING]):
        moment = min(moment, finish[n, s])
    best = max(fact[n, BOUND], moment + longest)
    for k in range(num_sets):
        busy = 0.0
        for s in range(fact[n, NUM_RUNNING]):
            busy += weight[k, running[n, s] >> 1, running[n, s] & 1]
        best = max(best, now + ceil_safely(total_k[k] + (1.0 - busy) * (moment - now)))
    return best


@nb.njit(cache=True)
def _dominates(
    need_imr: Any,
    descendants_iw: Any,
    fact: Any,
    bits: Any,
    running: Any,
    finish: Any,
    a: int,
    b: int,
    words: int,
) -> int:
    """Whether node a can do whatever b can, no later: 0 no, 1 yes, 2 yes and both have the same future.

    Both have started the same operators. From b's moment on, a must hold no more of anything than b at any
    time, what others wait for must end no later in a, and so must the last of all.
    """
    moment = fact[b, TIME]
    if fact[a, TIME] > moment:
        return 0
    num_a, num_b = fact[a, NUM_RUNNING], fact[b, NUM_RUNNING]
    last_a, last_b = moment, moment
    for q in range(num_b):
        last_b = max(last_b, finish[b, q])
    for s in range(num_a):
        last_a = max(last_a, finish[a, s])
    if last_a > last_b:
        return 0
    same = fact[a, TIME] == moment and num_a == num_b
    for s in range(num_a):
        if finish[a, s] <= moment:
            continue
        code = running[a, s]
        awaited = False
        for w in range(words):
            if descendants_iw[code >> 1, w] & ~bits[b, w] != np.uint64(0):
                awaited = True
                break
        if not awaited and not same:
            continue
        found = False
        for q in range(num_b):
            if running[b, q] >> 1 == code >> 1:
                found = finish[b, q] >= finish[a, s]
                same = same and running[b, q] == code and finish[b, q] == finish[a, s]
                break
        if not found:
            same = False
            if awaited:
                return 0
    if same:
        return 2
    # b's use falls only when something of b ends: enough to compare then, and at its moment.
    for p in range(-1, num_b):
        time = moment if p < 0 else finish[b, p]
        for r in range(need_imr.shape[2]):
            excess = 0
            for s in range(num_a):
                if finish[a, s] > time:
                    excess += need_imr[running[a, s] >> 1, running[a, s] & 1, r]
            if excess > 0:
                for q in range(num_b):
                    if finish[b, q] > time:
                        excess -= need_imr[running[b, q] >> 1, running[b, q] & 1, r]
                if excess > 0:
                    return 0
    return 1


@nb.njit(cache=True)
def _is_new(
    need_imr: Any,
    descendants_iw: Any,
    fact: Any,
    bits: Any,
    running: Any,
    finish: Any,
    heap: Any,
    bucket: Any,
    control: Any,
    b: int,
    words: int,
) -> bool:
    """File a node that has just reached a new moment, unless one on file makes it needless.

    A node on file that takes its place must be free to do all b could: what it was barred from is cleared,
    and if it was expanded under those bars it is opened again.
    """
    place = hash_bits(bits, b, words) % bucket.shape[0]
    a = bucket[place]
    while a >= 0:
        alike = fact[a, STATE] != DEAD
        for w in range(words):
            if bits[a, w] != bits[b, w]:
                alike = False
                break
        if alike:
            # A node that merely waited may rest only on one of the same moment: else two could rest on each
            # other.
            how = 0
            if fact[b, WAITED] % 2 == 0 or fact[a, TIME] == fact[b, TIME]:
                how = _dominates(need_imr, descendants_iw, fact, bits, running, finish, a, b, words)
            if how > 0:
                freed = False
                for w in range(words, 4 * words):
                    kept = bits[a, w] & bits[b, w] if how == 2 else np.uint64(0)
                    if kept != bits[a, w]:
                        bits[a, w] = kept
                        freed = True
                if freed and fact[a, STATE] == EXPANDED:
                    fact[a, STATE] = OPEN
                    push(heap, fact, control, a)
                return False
            if fact[a, STATE] == OPEN and (fact[a, WAITED] % 2 == 0 or fact[a, TIME] == fact[b, TIME]):
                free = True
                for w in range(words, 4 * words):
                    if bits[b, w] != np.uint64(0):
                        free = False
                        break
                if free and _dominates(need_imr, descendants_iw, fact, bits, running, finish, b, a, words) > 0:
                    fact[a, STATE] = DEAD
        a = fact[a, NEXT]
    fact[b, NEXT] = bucket[place]
    fact[b, WAITED] += 2
    bucket[place] = b
    return True


@nb.njit(cache=True)
def _used(need_imr: Any, fact: Any, running: Any, n: int, used_r: Any) -> None:
    for r in range(used_r.shape[0]):
        used_r[r] = 0
    for s in range(fact[n, NUM_RUNNING]):
        code = running[n, s]
        for r in range(used_r.shape[0]):
            used_r[r] += need_imr[code >> 1, code & 1, r]


@nb.njit(cache=True)
def _fits(dur_im: Any, need_imr: Any, cap_r: Any, used_r: Any, i: int, m: int) -> bool:
    if dur_im[i, m] >= NEVER:
        return False
    for r in range(used_r.shape[0]):  # noqa: SIM110 - compiled: a generator would be slower
        if used_r[r] + need_imr[i, m, r] > cap_r[r]:
            return False
    return True


@nb.njit(cache=True)
def _is_ready(ancestors_iw: Any, bits: Any, n: int, i: int, words: int, done_w: Any) -> bool:
    if has_bit(bits, n, 0, i):
        return False
    for w in range(words):  # noqa: SIM110
        if ancestors_iw[i, w] & ~done_w[w] != np.uint64(0):
            return False
    return True


@nb.njit(cache=True)
def _finished(fact: Any, bits: Any, running: Any, n: int, words: int, done_w: Any) -> None:
    for w in range(words):
        done_w[w] = bits[n, w]
    for s in range(fact[n, NUM_RUNNING]):
        i = running[n, s] >> 1
        done_w[i >> 6] &= ~(np.uint64(1) << np.uint64(i & 63))


@nb.njit(cache=True)
def _copy(fact: Any, bits: Any, running: Any, finish: Any, control: Any, n: int) -> Any:
    """A new node like n, its child; not yet in the heap."""
    c = control[NUM_NODES]
    control[NUM_NODES] += 1
    for f in range(NUM_FACTS):
        fact[c, f] = fact[n, f]
    for w in range(bits.shape[1]):
        bits[c, w] = bits[n, w]
    fact[c, PARENT] = n
    fact[c, ACTION] = -1
    fact[c, NEXT] = -1
    fact[c, STATE] = OPEN
    fact[c, WAITED] = 0
    for s in range(fact[n, NUM_RUNNING]):
        running[c, s] = running[n, s]
        finish[c, s] = finish[n, s]
    return c


@nb.njit(cache=True)
def _advance(
    dur_im: Any,
    need_imr: Any,
    cap_r: Any,
    ancestors_iw: Any,
    fact: Any,
    bits: Any,
    running: Any,
    finish: Any,
    c: int,
    words: int,
    used_r: Any,
    done_w: Any,
) -> None:
    """Bar what was left waiting although it fitted, then go to the next completion, in place.

    Starting such an operator in the same mode before something took its room would be starting it late.
    ``used_r`` and ``done_w`` are those of the node.
    """
    for w in range(words, 3 * words):
        bits[c, w] = np.uint64(0)
    for i in range(dur_im.shape[0]):
        if _is_ready(ancestors_iw, bits, c, i, words, done_w):
            for m in range(2):
                if _fits(dur_im, need_imr, cap_r, used_r, i, m):
                    set_bit(bits, c, (1 + m) * words, i)
    moment = finish[c, 0]
    for s in range(1, fact[c, NUM_RUNNING]):
        moment = min(moment, finish[c, s])
    kept = 0
    for s in range(fact[c, NUM_RUNNING]):
        if finish[c, s] > moment:
            running[c, kept] = running[c, s]
            finish[c, kept] = finish[c, s]
            kept += 1
    fact[c, NUM_RUNNING] = kept
    fact[c, TIME] = moment
    fact[c, WAITED] = 1 if fact[c, LAST] < 0 else 0
    fact[c, LAST] = -1


@nb.njit(cache=True)
def _is_barred(bits: Any, n: int, i: int, m: int, words: int) -> Any:
    return has_bit(bits, n, (1 + m) * words, i) or (m == 1 and has_bit(bits, n, 3 * words, i))


@nb.njit(cache=True)
def _relax_here(task: Task, nodes: Nodes, n: int, num_rounds: int) -> bool:
    """Tune a weight set to what is left at node n; take it into use, and say so, if it tells more."""
    size = task.dur_im.shape[0]
    left_im = task.dur_im.copy()
    for i in range(size):
        if has_bit(nodes.bits, n, 0, i):
            left_im[i, 0] = 0
            left_im[i, 1] = NEVER
    now = nodes.fact[n, TIME]
    for s in range(nodes.fact[n, NUM_RUNNING]):
        code = nodes.running[n, s]
        left_im[code >> 1, code & 1] = nodes.finish[n, s] - now
        left_im[code >> 1, 1 - (code & 1)] = NEVER
    weight_im = np.zeros((size, 2))
    pick_i = np.zeros(size, dtype=np.int64)
    found = relax(
        left_im,
        task.frac_imr,
        task.exclusive,
        task.pred_start,
        task.pred_index,
        num_rounds,
        1e-7,
        weight_im,
        pick_i,
    )
    if now + ceil_safely(found) <= nodes.fact[n, BOUND]:
        return False
    add_weights(task, nodes, weight_im)
    return True


@nb.njit(cache=True)
def search_slice(task: Task, nodes: Nodes, max_expansions: int) -> int:
    """Expand up to so many nodes; return ``PROVEN``, ``FULL`` (no room for more nodes) or ``RUNNING``."""
    # Unpacked once: every field access of a tuple in compiled code counts references.
    dur_im, need_imr, cap_r = task.dur_im, task.need_imr, task.cap_r
    ancestors_iw, descendants_iw = task.ancestors_iw, task.descendants_iw
    tail_i, twin_i, exclusive = task.tail_i, task.twin_i, task.exclusive
    fact, bits, running, finish = nodes.fact, nodes.bits, nodes.running, nodes.finish
    heap, bucket, weight, price, control = nodes.heap, nodes.bucket, nodes.weight, nodes.price, nodes.control
    size, words = ancestors_iw.shape
    used_r = np.zeros(cap_r.shape[0], dtype=np.int64)
    done_w = np.zeros(words, dtype=np.uint64)
    child_r = np.zeros(cap_r.shape[0], dtype=np.int64)
    total_k = np.zeros(weight.shape[0])
    child_k = np.zeros(weight.shape[0])
    room = fact.shape[0]
    for _ in range(max_expansions):
        if control[HEAP_SIZE] == 0:
            return PROVEN
        # Each expansion adds at most two children an operator and one that waits.
        if control[NUM_NODES] + 2 * size + 2 >= room:
            return FULL
        if fact[heap[0], BOUND] >= control[INCUMBENT]:
            return PROVEN
        n = pop(heap, fact, control)
        if fact[n, STATE] != OPEN:
            continue
        control[NUM_EXPANDED] += 1
        if control[NUM_EXPANDED] >= control[NEXT_RELAX]:
            # Tuning pays while it raises bounds; each time it does not, wait longer before the next.
            if _relax_here(task, nodes, n, 200):
                control[RELAX_STEP] = 256
            else:
                control[RELAX_STEP] = min(2 * control[RELAX_STEP], 4096)
            control[NEXT_RELAX] = control[NUM_EXPANDED] + control[RELAX_STEP]
        num_sets = min(control[NUM_SETS], weight.shape[0])
        sharper, longest = _price_rest(
            dur_im, tail_i, fact, bits, running, finish, weight, price, num_sets, n, total_k
        )
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
        # Child -1 waits for the next completion; child 2i + m starts operator i in mode m.
        first = 2 * (fact[n, LAST] + 1)
        for child in range(first - 1, 2 * size):
            waits = child == first - 1
            i, m = child >> 1, child & 1
            if waits:
                if idle:
                    continue
                bound = _bound_of_wait(fact, running, finish, weight, num_sets, n, longest, total_k)
            else:
                if not _is_ready(ancestors_iw, bits, n, i, words, done_w):
                    continue
                if twin_i[i] >= 0 and not has_bit(bits, n, 0, twin_i[i]):
                    continue
                if _is_barred(bits, n, i, m, words) or not _fits(dur_im, need_imr, cap_r, used_r, i, m):
                    continue
                bound = _bound_of_start(dur_im, tail_i, fact, weight, price, num_sets, n, i, m, total_k)
            if bound >= control[INCUMBENT]:
                continue
            c = _copy(fact, bits, running, finish, control, n)
            for r in range(cap_r.shape[0]):
                child_r[r] = used_r[r]
            moves_on = True
            if not waits:
                set_bit(bits, c, 0, i)
                s = fact[c, NUM_RUNNING]
                running[c, s] = child
                finish[c, s] = now + dur_im[i, m]
                fact[c, NUM_RUNNING] += 1
                fact[c, LAST] = i
                fact[c, DEPTH] += 1
                fact[c, ACTION] = child
                fact[c, BEGAN] = now
                for r in range(cap_r.shape[0]):
                    child_r[r] += need_imr[i, m, r]
                if exclusive and idle:
                    # An operator that stops the chip does so at the first idle moment it is ready for, and
                    # those of one moment go in index order: any later one could be moved there.
                    for j in range(i if m == 1 else size):
                        if j != i and _is_ready(ancestors_iw, bits, n, j, words, done_w):
                            set_bit(bits, c, 3 * words, j)
                if fact[c, DEPTH] == size:
                    moves_on = False
                for j in range(i + 1, size):
                    if not moves_on:
                        break
                    if _is_ready(ancestors_iw, bits, c, j, words, done_w):
                        for q in range(2):
                            if not _is_barred(bits, c, j, q, words) and _fits(
                                dur_im, need_imr, cap_r, child_r, j, q
                            ):
                                moves_on = False
            # A child that can start nothing more now goes on to the next completion at once.
            if moves_on:
                _advance(
                    dur_im,
                    need_imr,
                    cap_r,
                    ancestors_iw,
                    fact,
                    bits,
                    running,
                    finish,
                    c,
                    words,
                    child_r,
                    done_w,
                )
            sharper, _ = _price_rest(
                dur_im, tail_i, fact, bits, running, finish, weight, price, num_sets, c, child_k
            )
            bound = max(bound, sharper)
            fact[c, BOUND] = bound
            if bound >= control[INCUMBENT]:
                control[NUM_NODES] -= 1
            elif fact[c, DEPTH] == size:
                # Its bound is its makespan: the last completion.
                control[INCUMBENT] = bound
                control[BEST_NODE] = c
            elif moves_on and not _is_new(
                need_imr, descendants_iw, fact, bits, running, finish, heap, bucket, control, c, words
            ):
                control[NUM_NODES] -= 1
            else:
                push(heap, fact, control, c)
    return RUNNING
