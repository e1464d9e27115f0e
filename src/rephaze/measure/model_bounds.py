"""What is known of one model on many chips: records of lower bounds.

Axis letters: c = chip, t = layer type, u = unit, k = class of passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from rephaze.measure.model_work import ModelWork

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class ModelBounds:
    """Lower bounds of one model on some chips: batch times by unit, and the layer times they come from."""

    batch_s_uc: Floats
    forward_s_kct: Floats
    backward_s_kct: Floats
    input_s_kct: Floats
    """The part of the backward pass that earlier layers wait for; zero where it was not looked at."""
    is_mapped_kc: Floats
    """1 where the times are those of mapped products, else 0."""

    @property
    def is_bounded_kc(self) -> Flags:
        """Where layers were bounded, which all take some time; elsewhere units have coarser times alone."""
        found: Flags = np.asarray((self.forward_s_kct > 0).any(axis=2))
        return found

    def chip(self, c: int) -> ModelBounds:
        """Those of one chip."""
        return self.chips(slice(c, c + 1))

    def chips(self, only: slice) -> ModelBounds:
        """Those of some of the chips."""
        return ModelBounds(**{item.name: getattr(self, item.name)[:, only] for item in fields(self)})


def joined_bounds(pieces: Sequence[ModelBounds]) -> ModelBounds:
    """Bounds of several sets of chips as one, in the order given."""
    names = [item.name for item in fields(ModelBounds)]
    return ModelBounds(
        **{name: np.concatenate([getattr(piece, name) for piece in pieces], axis=1) for name in names}
    )


def no_bounds(work: ModelWork, num_chips: int) -> ModelBounds:
    """What is known of any chips: nothing is faster than no time at all."""
    shape_kct = (len(work.classes), num_chips, len(work.passes(work.cuts[0])))
    return ModelBounds(
        batch_s_uc=np.zeros((len(work.units), num_chips)),
        forward_s_kct=np.zeros(shape_kct),
        backward_s_kct=np.zeros(shape_kct),
        input_s_kct=np.zeros(shape_kct),
        is_mapped_kc=np.zeros(shape_kct[:2]),
    )
