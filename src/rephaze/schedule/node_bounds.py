"""Compiled bounds of the search's nodes, and weight sets tuned to what is left at one of them.

Axis letters: as in ``nodes``.
"""

from __future__ import annotations

import numpy as np

from rephaze.compiled import inner, inner_in_place
from rephaze.schedule.nodes import (
    BOUND,
    FIRST_PACKED_SET,
    NUM_PACKINGS,
    NUM_RUNNING,
    NUM_SPARE_MEASURES,
    NUM_TUNINGS,
    PACKED_SETS,
    PACKS,
    RELAXED_SETS,
    TIME,
    Nodes,
    has_bit,
    put_weights,
)
from rephaze.schedule.packing import pack
from rephaze.schedule.relaxation import NEVER, ceil_safely, relax, shortest
from rephaze.schedule.tables import MODE_BITS, MODE_MASK, Floats, Int, Ints, NodeRows, Preds, Task, WeightSets
from rephaze.schedule.teams import NUM_TEAMS

_NUM_PIVOTS, _NUM_ROUNDS = 400, 200


@inner_in_place
def price_rest(
    dur_im: Ints, tail_i: Ints, rows: NodeRows, sets: WeightSets, num_sets: int, n: int, total_k: Floats
) -> tuple[int, int]:
    """Fill the price of what is left at a node under each weight set; return a bound and its longest tail."""
    # Unpacked once: every field access of a tuple in compiled code counts references.
    fact, bits, running, finish = rows.fact, rows.bits, rows.running, rows.finish
    weight, price = sets.weight_kim, sets.price_ki
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
        i = code >> MODE_BITS
        bound = max(bound, finish[n, s] + tail_i[i] - shortest(dur_im, i))
        for k in range(num_sets):
            total_k[k] += weight[k, i, code & MODE_MASK] * (finish[n, s] - now)
    for k in range(num_sets):
        bound = max(bound, now + ceil_safely(total_k[k]))
    return bound, longest


@inner_in_place
def bound_of_start(
    dur_im: Ints, tail_i: Ints, fact: Ints, sets: WeightSets, num_sets: int, n: int, start: int, total_k: Floats
) -> int:
    """A bound on node n with one more start, from n's totals alone: most children end here, unmade."""
    weight, price = sets.weight_kim, sets.price_ki
    i, m = start >> MODE_BITS, start & MODE_MASK
    length = dur_im[i, m]
    now = fact[n, TIME]
    best: int = max(fact[n, BOUND], now + length + tail_i[i] - shortest(dur_im, i))
    for k in range(num_sets):
        best = max(best, now + ceil_safely(total_k[k] - price[k, i] + weight[k, i, m] * length))
    return best


@inner_in_place
def bound_of_wait(rows: NodeRows, sets: WeightSets, num_sets: int, n: int, longest: int, total_k: Floats) -> int:
    """A bound on node n gone on to its next completion."""
    fact, running, finish, weight = rows.fact, rows.running, rows.finish, sets.weight_kim
    now = fact[n, TIME]
    moment = finish[n, 0]
    for s in range(1, fact[n, NUM_RUNNING]):
        moment = min(moment, finish[n, s])
    best: int = max(fact[n, BOUND], moment + longest)
    for k in range(num_sets):
        busy = 0.0
        for s in range(fact[n, NUM_RUNNING]):
            busy += weight[k, running[n, s] >> MODE_BITS, running[n, s] & MODE_MASK]
        best = max(best, now + ceil_safely(total_k[k] + (1.0 - busy) * (moment - now)))
    return best


@inner
def _left(task: Task, nodes: Nodes, n: Int) -> Ints:
    """Durations of what is left at node n; all else is impossible."""
    left_im = task.dur_im.copy()
    for i in range(left_im.shape[0]):
        if has_bit(nodes.bits, n, 0, i):
            left_im[i] = NEVER
    for s in range(nodes.fact[n, NUM_RUNNING]):
        code = nodes.running[n, s]
        left_im[code >> MODE_BITS, code & MODE_MASK] = nodes.finish[n, s] - nodes.fact[n, TIME]
    return left_im


@inner
def tune_weights(task: Task, nodes: Nodes, n: int) -> bool:
    """Mix all measures into a weight set for what is left at node n; use it, and say so, if it tells more."""
    size, num_modes = task.dur_im.shape
    left_im = _left(task, nodes, n)
    for i in range(size):
        if shortest(left_im, i) >= NEVER:
            left_im[i, 0] = 0
    weight_im = np.zeros((size, num_modes))
    found = relax(
        left_im,
        task.frac_imr,
        task.alone_im,
        Preds(task.pred_start, task.pred_index),
        np.int64(_NUM_ROUNDS),  # a literal would be a type of its own, and compiled again
        1e-7,
        weight_im,
        np.zeros(size, dtype=np.int64),
    )
    if nodes.fact[n, TIME] + ceil_safely(found) <= nodes.fact[n, BOUND]:
        return False
    count = nodes.control[NUM_TUNINGS]
    nodes.control[NUM_TUNINGS] += 1
    put_weights(task, nodes, weight_im, RELAXED_SETS[0] + count % len(RELAXED_SETS))
    return True


@inner
def pack_rest(task: Task, nodes: Nodes, n: Int) -> bool:
    """Raise node n's bound to the best any weights give; say if that is more than before.

    The weights are used for other nodes too, and as a measure for ``tune_weights``. Those of the root stay.
    """
    control = nodes.control
    size, num_modes = task.dur_im.shape
    weight_im = np.zeros((size, num_modes))
    left_im = _left(task, nodes, n)
    if 2 * nodes.teams.num[NUM_TEAMS] > len(nodes.teams.size):
        # Teams of nodes long past only cost time.
        nodes.teams.num[NUM_TEAMS] = 0
    found = pack(left_im, task.need_imr, task.cap_r, task.ancestors_iw, nodes.teams, _NUM_PIVOTS, weight_im)
    if found == 0.0:
        control[PACKS] = 0
        return False
    bound = nodes.fact[n, TIME] + ceil_safely(found)
    if bound <= nodes.fact[n, BOUND]:
        return False
    nodes.fact[n, BOUND] = bound
    count = control[NUM_PACKINGS]
    control[NUM_PACKINGS] += 1
    latest = PACKED_SETS[0] + count % len(PACKED_SETS)
    put_weights(task, nodes, weight_im, FIRST_PACKED_SET if n == 0 else latest)
    at = task.frac_imr.shape[2] - NUM_SPARE_MEASURES + (0 if n == 0 else 1 + count % (NUM_SPARE_MEASURES - 1))
    for i in range(size):
        for m in range(num_modes):
            task.frac_imr[i, m, at] = weight_im[i, m]
    return True
