"""Operators of many runs in columns, each in a segment: one pass of one kind of layer of one run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rephaze.truth.machines import Machine

Column = NDArray[np.float64]


@dataclass(slots=True)
class OpTable:
    """Rows of three kinds: products, attention and moved bytes, collectives; all in lists until ``columns``."""

    machines: list[Machine] = field(default_factory=list)
    """By segment."""
    num_ops: list[float] = field(default_factory=list)
    """By segment: kernels started one after another."""
    num_ranks: list[float] = field(default_factory=list)
    """By segment: ranks that every collective starts operators for."""
    is_waiting: list[bool] = field(default_factory=list)
    """By segment: the host must wait for the device before it can start the next operators."""
    is_eager: list[bool] = field(default_factory=list)
    """By segment: the host starts one operator after another."""
    products: list[tuple[float, ...]] = field(default_factory=list)
    """Segment, m, n, k, count, bits, is grouped."""
    attention: list[tuple[float, ...]] = field(default_factory=list)
    """Segment, flops, kind (see ``ATTENTION_KINDS``), keys a query sees at most."""
    moves: list[tuple[float, ...]] = field(default_factory=list)
    """Segment, bytes, whether an eager code base moves more of them."""
    sends: list[tuple[float, ...]] = field(default_factory=list)
    """Segment, inner bytes, inner messages, outer bytes, outer messages, if it is overlapped, axes of a torus, if
    it fills the network's adapters."""

    def segment(
        self, machine: Machine, num_ops: float, num_ranks: float, *, is_eager: bool, is_waiting: bool
    ) -> int:
        """A new one."""
        self.num_ranks.append(num_ranks)
        self.machines.append(machine)
        self.num_ops.append(num_ops)
        self.is_eager.append(is_eager)
        self.is_waiting.append(is_waiting)
        return len(self.machines) - 1

    def columns(self) -> OpColumns:
        """All of it as arrays."""
        return OpColumns(self)


def _array(rows: list[tuple[float, ...]], width: int) -> Column:
    return np.array(rows, dtype=np.float64).reshape(len(rows), width).T


class OpColumns:
    """The operators as arrays, with the rates of the machine of each."""

    def __init__(self, table: OpTable) -> None:
        self.num_segments = len(table.machines)
        self.num_ops_s = np.array(table.num_ops)
        self.num_ranks_s = np.array(table.num_ranks)
        self.is_waiting_s = np.array(table.is_waiting)
        self.is_eager_s = np.array(table.is_eager)
        self.family_s = [machine.family for machine in table.machines]
        self.is_blackwell_s = np.array([machine.family == "blackwell" for machine in table.machines])
        self.power_s = np.array([machine.power_ratio for machine in table.machines])
        self.is_tpu_s = np.array([machine.is_tpu for machine in table.machines])
        flops = np.array([(m.flops_16, m.flops_8, min(m.flops_4, 2 * m.flops_8)) for m in table.machines]).reshape(
            -1, 3
        )
        rates = np.array([(m.hbm_bytes_per_s, m.link_bytes_per_s, m.network_bytes_per_s) for m in table.machines])
        self.hbm_s, self.link_s, self.network_s = rates.reshape(-1, 3).T
        cores = np.array([machine.cores for machine in table.machines], dtype=float)
        arrays = np.array([machine.arrays for machine in table.machines], dtype=float)
        product = _array(table.products, 7)
        self.product_segment = product[0].astype(int)
        self.m, self.n, self.k, self.count, bits, grouped = product[1:]
        self.is_grouped = grouped > 0
        self.bits = bits.astype(int)
        column = np.where(self.bits == 16, 0, np.where(self.bits == 8, 1, 2))
        self.product_flops_16 = flops[self.product_segment, 0]
        self.product_gain = flops[self.product_segment, column] / self.product_flops_16
        self.product_cores = cores[self.product_segment]
        self.product_arrays = arrays[self.product_segment]
        attention = _array(table.attention, 4)
        self.attention_segment = attention[0].astype(int)
        self.attention_flops, self.attention_kind = attention[1], attention[2].astype(int)
        self.attention_keys = attention[3]
        self.attention_peak = flops[self.attention_segment, 0]
        moves = _array(table.moves, 3)
        self.move_segment, self.move_bytes, self.is_eager_move = moves[0].astype(int), moves[1], moves[2] > 0
        sends = _array(table.sends, 8)
        self.send_segment = sends[0].astype(int)
        self.inner_bytes, self.inner_messages, self.outer_bytes, self.outer_messages = sends[1:5]
        self.is_overlapped = sends[5] > 0
        self.inner_axes = sends[6]
        self.fills_network = sends[7] > 0
