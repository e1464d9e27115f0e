"""What travels into the compiled functions of this room: arrays grouped by idea, as named tuples.

Axis letters: i = operator of a part, m = mode (a way to run an operator), r = resource, w = word of a bitset,
n = node of the search, s = slot of a running operator, k = weight set.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int = int | np.int64
Ints = NDArray[np.int64]
ShortInts = NDArray[np.int32]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Bits = NDArray[np.uint64]
"""Bitsets: 64 operators a word."""

MODE_BITS = 3
"""A start as one number: the operator, and in the last bits the mode."""
MODE_MASK = (1 << MODE_BITS) - 1


class Preds(NamedTuple):
    """Immediate predecessors in compressed rows, none implied: those of i are ``start_i[i]`` to the next."""

    start_i: Ints
    pred: Ints


class Demand(NamedTuple):
    """What operators take in each mode, and what there is."""

    dur_im: Ints
    """Cycles, ``NEVER`` for impossible."""
    need_imr: Ints
    """Units of each resource held while running."""
    cap_r: Ints
    """Units there are."""


class Task(NamedTuple):
    """One part on one chip, as arrays."""

    dur_im: Ints
    need_imr: Ints
    cap_r: Ints
    frac_imr: Floats
    """What bounds weigh by: parts of each capacity, then sets that never overlap (``relaxation.relax``)."""
    ancestors_iw: Bits
    descendants_iw: Bits
    pred_start: Ints
    """With the next, as in ``Preds``."""
    pred_index: Ints
    tail_i: Ints
    """The longest path from each operator to the end, in the faster modes."""
    twin_i: Ints
    """Another that may be taken to start no later (``twins``), or -1."""
    alone_im: Flags
    """Modes that stop the whole chip."""
    exclusive: bool
    """Whether there may be such modes."""


class NodeRows(NamedTuple):
    """The search's nodes, a row each (``nodes.Nodes``)."""

    fact: Ints
    """What columns mean is in ``nodes``."""
    bits: Bits
    """Started, then barred from each mode, and from stopping the chip for good: W words each."""
    running: ShortInts
    """running[n, s]: operator and mode of each that runs (``MODE_BITS``)."""
    finish: Ints
    """finish[n, s]: when it ends."""


class WeightSets(NamedTuple):
    """The weight sets in use."""

    weight_kim: Floats
    price_ki: Floats
    """The cheapest mode's duration times its weight."""
