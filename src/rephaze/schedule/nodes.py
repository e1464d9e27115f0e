"""The memory of the best-first search: nodes as rows of arrays, a heap of open ones, a table by started set.

Axis letters: n = node, i = operator, m = mode (a way to run an operator), r = resource, w = word of a bitset,
k = weight set, s = slot of a running operator.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place, kernel_in_place
from rephaze.schedule.relaxation import NEVER
from rephaze.schedule.tables import MODE_BITS, Bits, Floats, Int, Ints, ShortInts, Task
from rephaze.schedule.teams import Teams, no_teams

MAX_MODES = 1 << MODE_BITS
# Columns of Nodes.fact: one row a node.
TIME, NUM_RUNNING, LAST, PARENT, ACTION, BEGAN, BOUND, STATE, NEXT, DEPTH, MARKS = range(11)
NUM_FACTS = 11
# Bits of column MARKS: it did nothing but wait for its moment; it is in the table by started set.
ONLY_WAITED, ON_FILE = 1, 2
# Node states.
OPEN, EXPANDED, DEAD = 0, 1, 2
# Entries of Nodes.control.
NUM_NODES, HEAP_SIZE, INCUMBENT, BEST_NODE, NUM_EXPANDED, NUM_SETS = range(6)
NEXT_TUNING, TUNING_STEP, NUM_TUNINGS = range(6, 9)
NEXT_PACKING, PACKING_STEP, NUM_PACKINGS, PACKS_FROM, PACKS = range(9, 14)
SLOPE = 14
"""What a cycle left to the end adds to the order of the heap, in parts of a cycle: 0 proves, more dives."""
STEEPNESS_BITS = 10
"""Parts of a cycle, as a power of two."""
NUM_CONTROLS = 15
# Weight sets: the first relaxation, the first packing, then the latest of either.
FIRST_RELAXED_SET, FIRST_PACKED_SET = 0, 1
RELAXED_SETS, PACKED_SETS = (2, 3, 4), (5, 6)
MAX_SETS = 7
NUM_SPARE_MEASURES = 3
"""Last measures of ``Task.frac_imr``, empty until packings fill them: the first, then the latest."""
# Expansions before weights are first tuned, to the whole part and to one node: most parts are proven by then.
FIRST_TUNING = 64
# Expansions before single nodes are packed.
FIRST_PACKING = 2000
PACKING_WORK_A_NODE = 10_000
"""Work on packings (``teams.Teams.num``) that takes as long as a node of the search, some five microseconds."""
_MAX_TEAMS = 256
_MAX_PACKED_OPS = 128
"""Larger parts are tuned by ``relaxation.relax`` alone: the simplex method would take too long."""


class Nodes(NamedTuple):
    """The search's memory; arrays are replaced by longer ones when full."""

    fact: Ints
    """With the next three, as in ``tables.NodeRows``."""
    bits: Bits
    running: ShortInts
    finish: Ints
    heap: Ints
    """Open nodes."""
    bucket: Ints
    """The first node on file of each hash of a started set; the next one is in column NEXT."""
    weight: Floats
    """With the next, as in ``tables.WeightSets``."""
    price: Floats
    teams: Teams
    """What weight sets are tuned with."""
    control: Ints


def new_nodes(task: Task, width: int, capacity: int) -> Nodes:
    """Empty memory for a search, with its root.

    Args:
        task: The part.
        width: Most operators that can run at once.
        capacity: Nodes to make room for.
    """
    size, words = task.ancestors_iw.shape
    num_modes = task.dur_im.shape[1]
    nodes = Nodes(
        fact=np.zeros((capacity, NUM_FACTS), dtype=np.int64),
        bits=np.zeros((capacity, (2 + num_modes) * words), dtype=np.uint64),
        running=np.zeros((capacity, width), dtype=np.int32),
        finish=np.zeros((capacity, width), dtype=np.int64),
        heap=np.zeros(capacity, dtype=np.int64),
        bucket=np.full(2 * capacity, -1, dtype=np.int64),
        weight=np.zeros((MAX_SETS, size, num_modes)),
        price=np.zeros((MAX_SETS, size)),
        teams=no_teams(task.ancestors_iw, task.descendants_iw, width, _MAX_TEAMS),
        control=np.zeros(NUM_CONTROLS, dtype=np.int64),
    )
    nodes.fact[0, [LAST, PARENT, ACTION, NEXT]] = -1
    nodes.control[[NUM_NODES, HEAP_SIZE, NUM_SETS]] = 1
    nodes.control[[NEXT_TUNING, TUNING_STEP, NEXT_PACKING, PACKING_STEP]] = FIRST_TUNING, 1, FIRST_TUNING, 1
    nodes.control[PACKS_FROM] = FIRST_PACKING
    nodes.control[PACKS] = int(size <= _MAX_PACKED_OPS)
    nodes.control[BEST_NODE] = -1
    return nodes


def enlarged(nodes: Nodes, words: int, capacity: int) -> Nodes:
    """The same search with room for more nodes; ``words`` is that of one bitset."""
    used = int(nodes.control[NUM_NODES])

    def longer(array: NDArray[Any]) -> NDArray[Any]:
        fresh = np.zeros((capacity, *array.shape[1:]), dtype=array.dtype)
        fresh[: len(array)] = array
        return fresh

    grown = nodes._replace(
        fact=longer(nodes.fact),
        bits=longer(nodes.bits),
        running=longer(nodes.running),
        finish=longer(nodes.finish),
        heap=longer(nodes.heap),
        bucket=np.full(2 * capacity, -1, dtype=np.int64),
    )
    _file_again(grown.fact, grown.bits, grown.bucket, words, used)
    return grown


@kernel_in_place
def put_weights(task: Task, nodes: Nodes, weight_im: Floats, k: int) -> None:
    """Make this the k-th weight set in use."""
    for i in range(task.dur_im.shape[0]):
        lowest = 1e300
        for m in range(task.dur_im.shape[1]):
            nodes.weight[k, i, m] = weight_im[i, m]
            if task.dur_im[i, m] < NEVER:
                lowest = min(lowest, weight_im[i, m] * task.dur_im[i, m])
        nodes.price[k, i] = lowest


@inner_in_place
def has_bit(bits: Bits, n: Int, offset: int, i: int) -> bool:
    """Whether bit i of the bitset that begins at word ``offset`` of row n is set."""
    is_set: bool = (bits[n, offset + (i >> 6)] >> np.uint64(i & 63)) & np.uint64(1) != np.uint64(0)
    return is_set


@inner_in_place
def set_bit(bits: Bits, n: int, offset: int, i: int) -> None:
    """Set bit i of the bitset that begins at word ``offset`` of row n."""
    bits[n, offset + (i >> 6)] |= np.uint64(1) << np.uint64(i & 63)


@inner_in_place
def hash_bits(bits: Bits, n: int, words: int) -> np.int64:
    """A number from 0 up that mixes the first words of row n."""
    mixed = np.uint64(0x9E3779B97F4A7C15)
    for w in range(words):
        mixed ^= bits[n, w]
        mixed *= np.uint64(0xFF51AFD7ED558CCD)
        mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed >> np.uint64(2))


@kernel_in_place
def _file_again(fact: Ints, bits: Bits, bucket: Ints, words: int, used: int) -> None:
    for n in range(used):
        if fact[n, MARKS] & ON_FILE:
            b = hash_bits(bits, n, words) % bucket.shape[0]
            fact[n, NEXT] = bucket[b]
            bucket[b] = n


@inner_in_place
def _comes_first(fact: Ints, slope: int, a: int, b: int) -> bool:
    # A part of what is left is added to the bound: of two nodes of one bound the later is nearer its end.
    key_a = fact[a, BOUND] + (slope * (fact[a, BOUND] - fact[a, TIME]) >> STEEPNESS_BITS)
    key_b = fact[b, BOUND] + (slope * (fact[b, BOUND] - fact[b, TIME]) >> STEEPNESS_BITS)
    if key_a != key_b:
        return bool(key_a < key_b)
    if fact[a, DEPTH] != fact[b, DEPTH]:
        return bool(fact[a, DEPTH] > fact[b, DEPTH])
    return a > b


@inner_in_place
def push(heap: Ints, fact: Ints, control: Ints, n: int) -> None:
    """Put node n into the heap."""
    at, slope = control[HEAP_SIZE], control[SLOPE]
    control[HEAP_SIZE] += 1
    while at > 0:
        up = (at - 1) >> 1
        if not _comes_first(fact, slope, n, heap[up]):
            break
        heap[at] = heap[up]
        at = up
    heap[at] = n


@inner_in_place
def pop(heap: Ints, fact: Ints, control: Ints) -> int:
    """Take the node of least bound, and of those the deepest, from the heap."""
    top: int = heap[0]
    slope = control[SLOPE]
    control[HEAP_SIZE] -= 1
    size = control[HEAP_SIZE]
    moved = heap[size]
    at = 0
    while True:
        low = 2 * at + 1
        if low >= size:
            break
        if low + 1 < size and _comes_first(fact, slope, heap[low + 1], heap[low]):
            low += 1
        if not _comes_first(fact, slope, heap[low], moved):
            break
        heap[at] = heap[low]
        at = low
    heap[at] = moved
    return top


@kernel_in_place
def reorder(nodes: Nodes, slope: int) -> None:
    """Order the heap anew by this slope, without what the incumbent makes needless."""
    heap, fact, control = nodes.heap, nodes.fact, nodes.control
    size = control[HEAP_SIZE]
    control[SLOPE] = slope
    control[HEAP_SIZE] = 0
    for at in range(size):
        n = heap[at]
        if fact[n, STATE] == OPEN and fact[n, BOUND] < control[INCUMBENT]:
            push(heap, fact, control, n)
