"""What fixed weight sets charge for every pass of a model on many chips (docs/proof.md, 4.1 and 5.11).

Axis letters: c = chip, o = operator, m = mode, i = item, h = way to do an item, p = pass, w = weight set,
r = resource.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner_in_place, kernel_in_place
from rephaze.measure.pass_items import PassItems
from rephaze.types.chip import ChipTable
from rephaze.types.latency import IMPOSSIBLE_CYCLES, Engine, ModeBounds
from rephaze.types.schedule import Exclusion

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

CHIPS_ABREAST = 8
"""As many numbers of eight bytes come at once from memory."""

WEIGHT_SETS = np.array(
    [
        # path, tensor cores, vector cores, link, HBM
        (1.0, 0.0, 0.0, 0.0, 0.0),
        (0.0, 1.0, 0.0, 0.0, 0.0),
        (0.0, 0.0, 1.0, 0.0, 0.0),
        (0.0, 0.0, 0.0, 1.0, 0.0),
        (0.0, 0.0, 0.0, 0.0, 1.0),
        (0.25, 0.0, 0.0, 0.0, 0.75),
        (0.5, 0.0, 0.0, 0.0, 0.5),
        (0.25, 0.75, 0.0, 0.0, 0.0),
        (0.0, 0.25, 0.0, 0.0, 0.75),
        (0.0, 0.5, 0.0, 0.0, 0.5),
        (0.0, 0.75, 0.0, 0.0, 0.25),
        (0.0, 0.0, 0.5, 0.0, 0.5),
    ]
)
"""Chosen by how near they come to layer bounds: on average a third of a percent below (mixtral-8x7b)."""


def pass_cycles(items: PassItems, table: ModeBounds, chips: ChipTable, exclusion: Exclusion) -> Floats:
    """Passes x chips: cycles no schedule of a pass goes below; infinite where it cannot run.

    Args:
        items: The passes.
        table: Their operators on the chips.
        chips: The chips.
        exclusion: What all-cores operators exclude.
    """
    cycles_pc = np.empty((items.num_passes, len(chips)))
    on_chips = _OnChips(
        cycles_moc=table.cycles_moc,
        all_cores_m=table.all_cores_m,
        hbm_share_om=table.hbm_share_om,
        num_tensor_c=chips.num_tensor_cores,
        num_vector_c=chips.num_vector_cores,
    )
    num_ops, num_items, num_sets = len(items.block), len(items.first_chain_i) - 1, len(WEIGHT_SETS)
    room = _Room(
        cycles_com=np.empty((CHIPS_ABREAST, num_ops, len(table.all_cores_m))),
        op_ow=np.empty((num_ops, 2, num_sets)),
        item_iw=np.empty((num_items, 2, num_sets)),
        total_w=np.empty(num_sets),
    )
    is_alone = exclusion is Exclusion.CHIP
    _fill_cycles(on_chips, _tables_of(items), np.ascontiguousarray(WEIGHT_SETS.T), is_alone, room, cycles_pc)
    return cycles_pc


class _OnChips(NamedTuple):
    """Operators on chips, and the chips' cores."""

    cycles_moc: Ints
    all_cores_m: Flags
    hbm_share_om: Floats
    num_tensor_c: Ints
    num_vector_c: Ints


class _Tables(NamedTuple):
    """``PassItems`` as the kernel takes them."""

    uses_or: Flags
    """Tensor cores, vector cores, link."""
    first_chain_i: Ints
    first_op_h: Ints
    op_of_h: Ints
    first_item_p: Ints
    item_of_p: Ints
    is_on_path_p: Flags


class _Room(NamedTuple):
    """Memory to work in: what each weight set charges off and on the path."""

    cycles_com: Floats
    op_ow: Floats
    item_iw: Floats
    total_w: Floats


def _tables_of(items: PassItems) -> _Tables:
    uses = [
        (
            engine in (Engine.TENSOR, Engine.FUSED),
            engine in (Engine.VECTOR, Engine.FUSED),
            engine is Engine.LINK,
        )
        for engine in items.engine_o
    ]
    return _Tables(
        uses_or=np.array(uses, dtype=np.bool_).reshape(-1, 3),
        first_chain_i=items.first_chain_i,
        first_op_h=items.first_op_h,
        op_of_h=items.op_of_h,
        first_item_p=items.first_item_p,
        item_of_p=items.item_of_p,
        is_on_path_p=items.is_on_path_p,
    )


@kernel_in_place
def _fill_cycles(
    chips: _OnChips, tables: _Tables, weight_rw: Floats, is_alone: bool, room: _Room, cycles_pc: Floats
) -> None:
    """The most that any weight set charges for each pass on each chip."""
    first_item_p, item_of_p, is_on_path_p = tables.first_item_p, tables.item_of_p, tables.is_on_path_p
    item_iw, total_w = room.item_iw, room.total_w
    num_modes, num_ops, num_chips = chips.cycles_moc.shape
    num_sets, num_abreast = weight_rw.shape[1], len(room.cycles_com)
    for c in range(num_chips):
        if c % num_abreast == 0:
            # Chips lie side by side in the table: taken one by one, every number would be fetched from afar.
            for o in range(num_ops):
                for m in range(num_modes):
                    for at in range(min(num_abreast, num_chips - c)):
                        room.cycles_com[at, o, m] = float(chips.cycles_moc[m, o, c + at])
        _charge_ops(chips, c, room.cycles_com[c % num_abreast], tables.uses_or, weight_rw, is_alone, room.op_ow)
        _charge_items(tables, room.op_ow, item_iw)
        for p in range(len(first_item_p) - 1):
            for w in range(num_sets):
                total_w[w] = 0.0
            for at in range(first_item_p[p], first_item_p[p + 1]):
                i, on = item_of_p[at], 1 if is_on_path_p[at] else 0
                for w in range(num_sets):
                    total_w[w] += item_iw[i, on, w]
            most = 0.0
            for w in range(num_sets):
                most = max(most, total_w[w])
            cycles_pc[p, c] = most


@inner_in_place
def _charge_ops(
    chips: _OnChips, c: int, cycles_om: Floats, uses_or: Flags, weight_rw: Floats, is_alone: bool, op_ow: Floats
) -> None:
    """What each weight set charges for each operator, off and on the path, in the mode it charges least for."""
    all_cores_m, hbm_share_om = chips.all_cores_m, chips.hbm_share_om
    num_ops, num_modes = cycles_om.shape
    num_sets = weight_rw.shape[1]
    a_tensor, a_vector = 1.0 / chips.num_tensor_c[c], 1.0 / chips.num_vector_c[c]
    for o in range(num_ops):
        off_w, on_w = op_ow[o, 0], op_ow[o, 1]
        for w in range(num_sets):
            off_w[w], on_w[w] = np.inf, np.inf
        for m in range(num_modes):
            cycles = cycles_om[o, m]
            if cycles >= IMPOSSIBLE_CYCLES:
                continue
            # Under rule ``chip`` nothing runs beside it: every measure counts it in full.
            alone = cycles if is_alone and all_cores_m[m] else 0.0
            rest = cycles - alone
            tensor = (1.0 if all_cores_m[m] else a_tensor) * rest if uses_or[o, 0] else 0.0
            vector = (1.0 if all_cores_m[m] else a_vector) * rest if uses_or[o, 1] else 0.0
            link = rest if uses_or[o, 2] else 0.0
            hbm = hbm_share_om[o, m] * rest
            for w in range(num_sets):
                off = (
                    alone
                    + weight_rw[1, w] * tensor
                    + weight_rw[2, w] * vector
                    + weight_rw[3, w] * link
                    + weight_rw[4, w] * hbm
                )
                on = off + weight_rw[0, w] * rest
                off_w[w] = off if off < off_w[w] else off_w[w]
                on_w[w] = on if on < on_w[w] else on_w[w]


@inner_in_place
def _charge_items(tables: _Tables, op_ow: Floats, item_iw: Floats) -> None:
    """The same for items: of the ways to do one, the way that is charged least for."""
    first_chain_i, first_op_h, op_of_h = tables.first_chain_i, tables.first_op_h, tables.op_of_h
    num_sets = item_iw.shape[2]
    for i in range(len(first_chain_i) - 1):
        for on in range(2):
            for h in range(first_chain_i[i], first_chain_i[i + 1]):
                first, end = first_op_h[h], first_op_h[h + 1]
                for w in range(num_sets):
                    charged = op_ow[op_of_h[first], on, w]
                    for at in range(first + 1, end):
                        charged += op_ow[op_of_h[at], on, w]
                    if h == first_chain_i[i] or charged < item_iw[i, on, w]:
                        item_iw[i, on, w] = charged
