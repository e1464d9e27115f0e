"""Tiles of model ``paper``: divisors of a problem, factors that fit a grid, tiles that fit a memory.

Axis letters: d = dimension (0 rows n, 1 reduction c, 2 features k), i = divisor, s = way to spread.
"""

from __future__ import annotations

import numpy as np

from rephaze.compiled import inner
from rephaze.estimate.arrays import Ints
from rephaze.estimate.gemm_paper.records import C, K, N


@inner
def divisors_of(value: int) -> Ints:
    """All divisors of ``value``, ascending."""
    low = []
    high = []
    i = 1
    while i * i <= value:
        if value % i == 0:
            low.append(i)
            if i != value // i:
                high.append(value // i)
        i += 1
    out = np.empty(len(low) + len(high), dtype=np.int64)
    for j in range(len(low)):
        out[j] = low[j]
    for j in range(len(high)):
        out[len(low) + j] = high[len(high) - 1 - j]
    return out


@inner
def largest_within(divisors_i: Ints, limit: float) -> int:
    """The largest divisor of at most ``limit``, 0 if there is none."""
    low, high = 0, len(divisors_i)
    while low < high:
        middle = (low + high) // 2
        if divisors_i[middle] <= limit:
            low = middle + 1
        else:
            high = middle
    return divisors_i[low - 1] if low > 0 else 0


@inner
def smallest_prime_factor(value: int) -> int:
    """The smallest prime that divides ``value``; 0 for 1."""
    if value == 1:
        return 0
    i = 2
    while i * i <= value:
        if value % i == 0:
            return i
        i += 1
    return value


@inner
def splits_over_grid(total: int, x_size: int, y_size: int) -> bool:
    """Whether ``total`` is a product of two whole numbers, one at most ``x_size``, the other ``y_size``."""
    x = min(total, x_size)
    while x >= 1 and (total + x - 1) // x <= y_size:
        if total % x == 0:
            return True
        x -= 1
    return False


@inner
def unrolls(dims_d: Ints, x_size: int, y_size: int) -> Ints:
    """Every vector of factors of the dimensions that fits a grid of ``x_size`` by ``y_size``."""
    limit = x_size * y_size
    found = []
    n_i = divisors_of(dims_d[N])
    c_i = divisors_of(dims_d[C])
    k_i = divisors_of(dims_d[K])
    for n in n_i:
        if n > limit:
            break
        for c in c_i:
            if n * c > limit:
                break
            for k in k_i:
                if n * c * k > limit:
                    break
                if splits_over_grid(n * c * k, x_size, y_size):
                    found.append((n, c, k))
    out = np.empty((len(found), 3), dtype=np.int64)
    for j in range(len(found)):
        out[j, N], out[j, C], out[j, K] = found[j]
    return out


@inner
def maximal_tiles(dims_d: Ints, limit: float, pairwise: bool) -> Ints:
    """Tiles dividing ``dims_d`` that fit and of which no multiple (dividing ``dims_d``) fits.

    Args:
        dims_d: What the tiles divide.
        limit: Capacity in words.
        pairwise: Each of the three tensors alone must fit (three buffers), rather than their sum (one buffer).
    """
    found = []
    n_i = divisors_of(dims_d[N])
    c_i = divisors_of(dims_d[C])
    k_i = divisors_of(dims_d[K])
    for n in n_i:
        if not _fits(n, 1, 1, limit, pairwise):
            break
        up_n = n * smallest_prime_factor(dims_d[N] // n)
        for c in c_i:
            if not _fits(n, c, 1, limit, pairwise):
                break
            up_c = c * smallest_prime_factor(dims_d[C] // c)
            # Ascending, so the feasible k are a prefix; any of them may be maximal (2 and 3 of 6, say).
            for k in k_i:
                if not _fits(n, c, k, limit, pairwise):
                    break
                up_k = k * smallest_prime_factor(dims_d[K] // k)
                if (
                    (up_n == 0 or not _fits(up_n, c, k, limit, pairwise))
                    and (up_c == 0 or not _fits(n, up_c, k, limit, pairwise))
                    and (up_k == 0 or not _fits(n, c, up_k, limit, pairwise))
                ):
                    found.append((n, c, k))
    out = np.empty((len(found), 3), dtype=np.int64)
    for j in range(len(found)):
        out[j, N], out[j, C], out[j, K] = found[j]
    return out


@inner
def _fits(n: int, c: int, k: int, limit: float, pairwise: bool) -> bool:
    if pairwise:
        return n * c <= limit and c * k <= limit and n * k <= limit
    return n * c + c * k + n * k <= limit
