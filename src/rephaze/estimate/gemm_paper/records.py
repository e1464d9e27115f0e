"""What the search of model ``paper`` works on: a chip as the paper counts it, and what its arrays can do.

Axis letters: d = dimension (0 rows n, 1 reduction c, 2 features k), r = point of a Pareto front, s = way to spread
over the array.
"""

from __future__ import annotations

from typing import NamedTuple

from rephaze.estimate.arrays import Floats, Ints

N, C, K = range(3)
"""The dimensions of a product: rows, reduction, features."""
WEIGHT, OUTPUT, INPUT = TENSORS = N, C, K
"""The tensors, each by the dimension it does not have."""
TENSOR_NAMES = ("weight", "output", "input")


class Array(NamedTuple):
    """The array of one core, its register files and what feeds it; the longer side first."""

    long_side: int
    short_side: int
    register_words: int
    """Of one register file."""
    scratchpad_words: float
    """Of each of the three scratchpads of a core."""
    words_per_cycle: float
    """Between all scratchpads and arrays."""
    register_pj: float
    """An access, as all energies here."""
    scratchpad_pj: float


class Machine(NamedTuple):
    """A chip: its cores on a grid, and what lies above their scratchpads."""

    array: Array
    long_grid_side: int
    short_grid_side: int
    buffer_words: float
    buffer_words_per_cycle: float
    dram_words_per_cycle: float
    buffer_pj: float
    dram_pj: float
    mac_pj: float
    """One multiply-accumulate."""


ENERGY, CYCLES, LANES = range(3)
"""First columns of all rows of what arrays do: pJ, cycles, multipliers in use."""
NUM_MEASURES = 3
WAY, KEPT, FIRST, SECOND = range(3, 7)
"""Further columns of ``array_front``: the way to spread, the tensor kept, the sides of its register tile."""
NUM_COLUMNS = 7


class ArrayOptions(NamedTuple):
    """What an array can do with a problem, whatever the scratchpad tile: bounds of what any tile allows."""

    unroll_sd: Ints
    """Ways to spread over the array."""
    least_sf: Floats
    """Least energy, least cycles and lanes of each."""
    front_rf: Floats
    """Energy, cycles and lanes that none of all the ways beats."""


class Prospects(NamedTuple):
    """What is known of everything outside the array while ways to use it are sifted."""

    promise_s: Floats
    """No way leads below this energy-delay product."""
    order_s: Ints
    """Ways by rising promise."""
    rest_pj: float
    """Least energy of everything else."""
    rest_cycles: float
    """Least cycles of everything else."""
    most_cores: float
    """Most cores in use."""


class Traffic(NamedTuple):
    """Words over one boundary: those that fill the tiles below it, and those read or written above it."""

    cycles: float
    fills_w: float
    fills_o: float
    fills_i: float
    above_w: float
    above_o: float
    above_i: float


class Found(NamedTuple):
    """The mapping of least energy-delay product; cycles are infinite if nothing fits."""

    cycles: float
    energy_pj: float
    tiles_ld: Ints
    """Tiles of registers, array, scratchpad, all cores and global buffer."""
    kept_b: Ints
    """Tensors kept over the boundaries of array, scratchpads and global buffer."""
