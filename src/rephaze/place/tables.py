"""What travels into the compiled functions of this room: arrays grouped by idea, as named tuples.

Axis letters: e = stage (edge between ideals), r = recompute mode, v = layer, k = ideal, c = candidate degree,
l = network level, o = option (a depth and a degree), s = number of stages, z = stages of the rarer width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.types.placement import Recompute

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ShortInts = NDArray[np.int32]
Flags = NDArray[np.uint8]
"""0 or 1 each."""

Plain = tuple[Any, ...]
"""A group below as ``tuple(...)`` gives it, named again inside the function it goes to.

numba finds the type of a plain tuple at once and that of a named one field by field, in Python: 20 microseconds a
call for the searches, which Python calls thousands of times a second. Where calls are rare they go in named.
"""

# Recompute modes as columns of the tables [e, r].
NONE, BLOCK, STAGE = range(3)
NUM_MODES = 3
RECOMPUTE_R = (Recompute.NONE, Recompute.BLOCK, Recompute.STAGE)
MODES_BY_LOAD = (NONE, STAGE, BLOCK)
"""Least load first: block and stage replay the same work, stage hides more transfers."""


class LayerBytes(NamedTuple):
    """What each layer of a graph holds, in topological order."""

    param_bytes_v: Floats
    activation_bytes_v: Floats
    input_bytes_v: Floats
    working_bytes_v: Floats
    source_bytes_v: Floats
    """Input of layers that no link enters: the model's own input."""
    wide_v: Flags
    """1 where a layer runs on the whole tensor-parallel group."""


class LayerTimes(NamedTuple):
    """How long each layer of a graph takes for a microbatch, in topological order."""

    forward_s_v: Floats
    backward_s_v: Floats


class LinkRows(NamedTuple):
    """Links in compressed rows: those that enter, or those that leave, layer v are ``start_v[v]`` to the next."""

    start_v: Ints
    other: Ints
    """The layer at the other end."""
    payload_bytes: Floats


class TieRows(NamedTuple):
    """Tied weights in compressed rows: the groups that layer v belongs to."""

    start_v: Ints
    group: Ints
    is_owner: Flags
    param_bytes: Floats
    num_groups: int


class MemoryRules(NamedTuple):
    """How bytes add up in a cost model."""

    memory_bytes: float
    resident_ratio: float
    """Weights, gradients and optimizer state in units of the weights."""
    is_paper: bool
    """Replay keeps a tensor once for every link that brings it, not once in all; neither the model's input,
    working sets nor tied weights count."""
    mode_limit_r: tuple[int, int, int]
    """Most microbatches in flight with which each recompute mode may be used."""


class Widths(NamedTuple):
    """Devices a stage can take, one or the tensor-parallel group, and how many there are.

    Of the two widths the one that fewer layers ask for is the rarer: tables count stages of it only.
    """

    common_devices: int
    """Devices of most stages."""
    rare_devices: int
    """Devices of the others."""
    num_rare_most: int
    """Most stages that can be of the rarer width."""
    num_devices: int
    """In the cluster."""


class StageTable(NamedTuple):
    """Candidate stages by the ideal they start at; those that never fit are left out.

    On a line, row k is every interval that starts at layer k, shortest first, without holes.
    """

    start_k: Ints
    """Stages of ideal k are ``start_k[k]`` to ``start_k[k + 1]``."""
    end_e: ShortInts
    """The ideal each ends at."""
    limit_er: ShortInts
    """Most microbatches in flight with which the stage fits, by recompute mode; 0: never."""
    param_bytes_e: Floats
    rare_e: Flags
    """1 where a stage has the rarer of the two widths."""
    is_line: bool
    """Ideals are prefixes of a line of layers."""


class Loads(NamedTuple):
    """Times of a table's stages for one microbatch, with transfers at one network level."""

    load_er: Floats
    """Of a stage in each recompute mode, transfers included."""
    work_e: Floats
    """Forward and backward work alone."""
    busy_e: Floats
    """The same with the replay that every stage but the last must do."""
    tied_s_e: Floats
    """Once a batch: what tied weights add; empty in the paper's model, which has none."""
    total_work_s: float
    """Of all layers."""
    transfer_s: float
    """Least time of a transfer between two stages."""


class Degrees(NamedTuple):
    """Data-parallel degrees worth trying, by rising microbatches."""

    count_c: Ints
    """Microbatches a pipeline works through."""
    dp_c: Ints


class Depths(NamedTuple):
    """Which pipelines one search covers."""

    stages_least: int
    stages_most: int
    flight_cap: int
    """A stage never has more microbatches in flight."""
    at_least_depth: bool
    """Only plans with at least as many microbatches as stages count."""


class Links(NamedTuple):
    """A cluster's levels as arrays, innermost first.

    What crosses a level also passes those inside it: bandwidths are the least, latencies the greatest so far.
    """

    num_devices_l: Ints
    bytes_per_s_l: Floats
    latency_s_l: Floats

    @property
    def num_levels(self) -> int:
        """Number of levels."""
        return len(self.num_devices_l)


class Wire(NamedTuple):
    """One network level as a transfer meets it."""

    bytes_per_s: float
    latency_s: float


class UpdateRates(NamedTuple):
    """What the end of a batch takes by weight: gradients to be summed, and the optimizer's step."""

    gradient_ratio: float
    """Gradient bytes a weight byte."""
    step_s_per_byte: float
    """Seconds of the optimizer's step a weight byte."""


class BatchEnd(NamedTuple):
    """Seconds of gradient sync and optimizer step of a plan: for each byte of its largest stage, and fixed."""

    s_per_byte: float
    fixed_s: float


class Options(NamedTuple):
    """Depths and degrees a plan of a graph can have, with the least time of what happens once a batch."""

    depth_o: Ints
    count_o: Ints
    """Microbatches a pipeline works through."""
    once_s_o: Floats


class Remainders(NamedTuple):
    """What the last s stages of a pipeline take at least from ideal k on, z of them of the rarer width.

    Each table is the least for itself; together they bound every plan from below.
    """

    sum_szk: Floats
    """Loads and tied weights, summed."""
    slow_szk: Floats
    """The slowest load; infinite where no stages fit."""
    heavy_szk: Floats
    """The most parameters of a stage."""
