"""Core shapes as columns: what a mapping of model ``default`` depends on of many chips.

Axis letters: s = core shape.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from rephaze.estimate.arrays import Floats, Ints, Rows
from rephaze.estimate.gemm_default.records import SHAPE_ROW

BUFFERED_WORD_BYTES = 4.0
"""What an element takes of scratchpad and buffer: an input of 2 B is held twice (one in use, one on its way), an
output is summed in 4 B."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CoreShapes:
    """What the mapper needs of chips, one entry a shape."""

    num_cores: Floats
    width: Floats
    depth: Floats
    scratchpad_bytes: Floats
    global_buffer_bytes: Floats
    scratchpad_bytes_per_cycle: Floats
    global_buffer_bytes_per_cycle: Floats
    hbm_bytes_per_cycle: Floats
    multicast: Floats
    scratchpad_j_per_byte: Floats
    global_buffer_j_per_byte: Floats
    hbm_j_per_byte: Floats

    def __len__(self) -> int:
        return len(self.num_cores)

    @property
    def scratchpad_words(self) -> Floats:
        """Elements a scratchpad has room for."""
        return np.floor(self.scratchpad_bytes / BUFFERED_WORD_BYTES)

    @property
    def buffer_words(self) -> Floats:
        """Elements the global buffer has room for."""
        return np.floor(self.global_buffer_bytes / BUFFERED_WORD_BYTES)

    def rows(self) -> Rows:
        """The shapes as compiled functions take them."""
        rows_s = np.empty(len(self), SHAPE_ROW)
        rows_s["cores"] = self.num_cores
        rows_s["width"] = self.width
        rows_s["depth"] = self.depth
        rows_s["scratchpad_words"] = self.scratchpad_words
        rows_s["buffer_words"] = self.buffer_words
        rows_s["scratchpad_rate"] = self.scratchpad_bytes_per_cycle
        rows_s["buffer_rate"] = self.global_buffer_bytes_per_cycle
        rows_s["hbm_rate"] = self.hbm_bytes_per_cycle
        rows_s["multicast"] = self.multicast
        rows_s["near_j"] = self.scratchpad_j_per_byte
        rows_s["middle_j"] = self.global_buffer_j_per_byte
        rows_s["far_j"] = self.hbm_j_per_byte
        return rows_s

    def distinct(self) -> tuple[CoreShapes, Ints]:
        """The shapes without repetitions, and which of them each one is."""
        table, of_shape = np.unique(self._table(), axis=0, return_inverse=True)
        return _of_table(table), of_shape.reshape(-1)

    def take(self, wanted: Ints) -> CoreShapes:
        """The shapes at these places."""
        return CoreShapes(**{name: np.ascontiguousarray(getattr(self, name)[wanted]) for name in _NAMES})

    def keys(self) -> list[bytes]:
        """One key a shape: equal for equal shapes."""
        return [row.tobytes() for row in self._table()]

    def _table(self) -> Floats:
        table = np.empty((len(self), len(_NAMES)))
        for column, name in enumerate(_NAMES):
            table[:, column] = getattr(self, name)
        return table


_NAMES = tuple(field.name for field in fields(CoreShapes))


def _of_table(table: Floats) -> CoreShapes:
    return CoreShapes(**{name: np.ascontiguousarray(column) for name, column in zip(_NAMES, table.T, strict=True)})
