"""Compiled dominance among the search's nodes: of those with the same operators started, the needless go.

Axis letters: as in ``nodes``.
"""

from __future__ import annotations

import numpy as np

from rephaze.compiled import inner_in_place
from rephaze.schedule.nodes import (
    DEAD,
    EXPANDED,
    MARKS,
    NEXT,
    NUM_RUNNING,
    ON_FILE,
    ONLY_WAITED,
    OPEN,
    STATE,
    TIME,
    hash_bits,
    push,
)
from rephaze.schedule.tables import MODE_BITS, MODE_MASK, Bits, Ints, NodeRows

# Whether one node can do whatever another can, no later; the last: and both have the same future.
_NO, _YES, _YES_AND_ALIKE = range(3)


@inner_in_place
def _dominates(need_imr: Ints, descendants_iw: Bits, rows: NodeRows, a: int, b: int) -> int:
    """Whether node a can do whatever b can, no later.

    Both have started the same operators. From b's moment on, a must hold no more of anything than b at any
    time, what others wait for must end no later in a, and so must the last of all.
    """
    # Unpacked once: every field access of a tuple in compiled code counts references.
    fact, bits, running, finish = rows.fact, rows.bits, rows.running, rows.finish
    moment = fact[b, TIME]
    if fact[a, TIME] > moment:
        return _NO
    num_a, num_b = fact[a, NUM_RUNNING], fact[b, NUM_RUNNING]
    last_a, last_b = moment, moment
    for q in range(num_b):
        last_b = max(last_b, finish[b, q])
    for s in range(num_a):
        last_a = max(last_a, finish[a, s])
    if last_a > last_b:
        return _NO
    same = fact[a, TIME] == moment and num_a == num_b
    for s in range(num_a):
        if finish[a, s] <= moment:
            continue
        code = running[a, s]
        awaited = False
        for w in range(descendants_iw.shape[1]):
            if descendants_iw[code >> MODE_BITS, w] & ~bits[b, w] != np.uint64(0):
                awaited = True
                break
        if not awaited and not same:
            continue
        found = False
        for q in range(num_b):
            if running[b, q] >> MODE_BITS == code >> MODE_BITS:
                found = finish[b, q] >= finish[a, s]
                same = same and running[b, q] == code and finish[b, q] == finish[a, s]
                break
        if not found:
            same = False
            if awaited:
                return _NO
    if same:
        return _YES_AND_ALIKE
    # b's use falls only when something of b ends: enough to compare then, and at its moment.
    for p in range(-1, num_b):
        time = moment if p < 0 else finish[b, p]
        for r in range(need_imr.shape[2]):
            excess = 0
            for s in range(num_a):
                if finish[a, s] > time:
                    excess += need_imr[running[a, s] >> MODE_BITS, running[a, s] & MODE_MASK, r]
            if excess > 0:
                for q in range(num_b):
                    if finish[b, q] > time:
                        excess -= need_imr[running[b, q] >> MODE_BITS, running[b, q] & MODE_MASK, r]
                if excess > 0:
                    return _NO
    return _YES


@inner_in_place
def is_new(
    need_imr: Ints, descendants_iw: Bits, rows: NodeRows, heap: Ints, bucket: Ints, control: Ints, b: int
) -> bool:
    """File a node that has just reached a new moment, unless one on file makes it needless.

    A node on file that takes its place must be free to do all b could: what it was barred from is cleared,
    and if it was expanded under those bars it is opened again.
    """
    fact, bits, words = rows.fact, rows.bits, descendants_iw.shape[1]
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
            how = _NO
            if fact[b, MARKS] & ONLY_WAITED == 0 or fact[a, TIME] == fact[b, TIME]:
                how = _dominates(need_imr, descendants_iw, rows, a, b)
            if how != _NO:
                freed = False
                for w in range(words, bits.shape[1]):
                    kept = bits[a, w] & bits[b, w] if how == _YES_AND_ALIKE else np.uint64(0)
                    if kept != bits[a, w]:
                        bits[a, w] = kept
                        freed = True
                if freed and fact[a, STATE] == EXPANDED:
                    fact[a, STATE] = OPEN
                    push(heap, fact, control, a)
                return False
            if fact[a, STATE] == OPEN and (fact[a, MARKS] & ONLY_WAITED == 0 or fact[a, TIME] == fact[b, TIME]):
                free = True
                for w in range(words, bits.shape[1]):
                    if bits[b, w] != np.uint64(0):
                        free = False
                        break
                if free and _dominates(need_imr, descendants_iw, rows, b, a) != _NO:
                    fact[a, STATE] = DEAD
        a = fact[a, NEXT]
    fact[b, NEXT] = bucket[place]
    fact[b, MARKS] |= ON_FILE
    bucket[place] = b
    return True
