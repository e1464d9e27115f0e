"""Compiled dominance among the search's nodes: of those with the same operators started, the needless go.

Axis letters: as in ``nodes``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rephaze.compiled import inner
from rephaze.schedule.nodes import (
    DEAD,
    EXPANDED,
    NEXT,
    NUM_RUNNING,
    OPEN,
    STATE,
    TIME,
    WAITED,
    hash_bits,
    push,
)
from rephaze.schedule.packing import MODE_BITS, MODE_MASK


@inner
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
                    excess += need_imr[running[a, s] >> MODE_BITS, running[a, s] & MODE_MASK, r]
            if excess > 0:
                for q in range(num_b):
                    if finish[b, q] > time:
                        excess -= need_imr[running[b, q] >> MODE_BITS, running[b, q] & MODE_MASK, r]
                if excess > 0:
                    return 0
    return 1


@inner
def is_new(
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
                for w in range(words, bits.shape[1]):
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
                for w in range(words, bits.shape[1]):
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
