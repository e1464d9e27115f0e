"""Sums of one value of each of two lists, counted without forming them.

Two lists of 30,000 values have a billion sums. One list in order, a binary search for every value of the other
says how many are below a limit; for two sums at once, a tree of sorted blocks does.

Axis letters: k = value of the first list, j = value of the second, p = pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Pairs(NamedTuple):
    """Positions in both lists."""

    k_p: Ints
    j_p: Ints


class PairSums:
    """The sums of two lists.

    Args:
        first_k: One list; it is the one put in order.
        second_j: The other.
    """

    def __init__(self, first_k: Floats, second_j: Floats) -> None:
        self.second_j = second_j
        self.order_k: Ints = np.argsort(first_k, kind="stable").astype(np.int64)
        self.sorted_k = first_k[self.order_k]

    def num_below_j(self, limit: float) -> Ints:
        """For each of the second list, how many of the first, by rising value, give no more than the limit."""
        return np.searchsorted(self.sorted_k, limit - self.second_j, side="right").astype(np.int64)

    def num_up_to(self, limit: float) -> int:
        """Sums of no more than the limit, but for rounding."""
        return int(self.num_below_j(limit).sum())

    def num_between(self, low: float, high: float) -> int:
        """Sums above one limit and up to another, but for rounding."""
        return self.num_up_to(high) - self.num_up_to(low)

    def between(self, low: float, high: float) -> Pairs:
        """The pairs that ``num_up_to`` counts for the second limit and not for the first."""
        start_j, end_j = self.num_below_j(low), self.num_below_j(high)
        num_j = np.maximum(end_j - start_j, 0)
        j_p = np.repeat(np.arange(len(num_j), dtype=np.int64), num_j)
        within_p = np.arange(len(j_p), dtype=np.int64) - np.repeat(np.cumsum(num_j) - num_j, num_j)
        return Pairs(self.order_k[np.repeat(start_j, num_j) + within_p], j_p)


def num_both_up_to(one: PairSums, other: PairSums, limit_one: float, limit_other: float) -> int:
    """Pairs whose sum keeps to a limit in one respect and, of the same pair, to another in the other.

    The first list is put in order of the one respect. A number of its values from the start is a few blocks whose
    sizes are the powers of two it adds up from; in each the values of the other respect are sorted.
    """
    num_k = len(one.sorted_k)
    rank_k = np.empty(num_k, dtype=np.int64)
    rank_k[other.order_k] = np.arange(num_k)
    rank_k = rank_k[one.order_k]
    ahead_j, below_j = one.num_below_j(limit_one), other.num_below_j(limit_other)
    total = 0
    for bit in range(num_k.bit_length()):
        asks_j = (ahead_j >> bit) & 1 == 1
        if not asks_j.any():
            continue
        keys_k = np.sort((np.arange(num_k, dtype=np.int64) >> bit) * num_k + rank_k)
        block_j = (ahead_j[asks_j] >> (bit + 1)) << 1
        found_j = np.searchsorted(keys_k, block_j * num_k + below_j[asks_j], side="left")
        total += int((found_j - (block_j << bit)).sum())
    return total
