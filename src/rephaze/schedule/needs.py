"""How much of each resource the operators of a part hold on one chip, mode by mode.

Both exclusion rules and every shared thing are cumulative resources: cores, the link, bandwidths, and (rule
``chip``) the chip itself, of which an all-cores operator takes everything.

Axis letters: i = operator of a part, m = mode (a way to run it: cores and bandwidth), r = resource.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rephaze.schedule.relaxation import NEVER
from rephaze.schedule.structure import Part
from rephaze.schedule.tables import Flags, Ints
from rephaze.types.schedule import Exclusion


@dataclass(frozen=True, kw_only=True, slots=True)
class Cores:
    """A chip's cores, and what an operator on all of them excludes."""

    num_tensor_cores: int
    num_vector_cores: int
    exclusion: Exclusion


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class PartModes:
    """What the operators of a part take on one chip, mode by mode. At most ``MAX_MODES`` modes."""

    cycles_im: Ints
    """Positive durations; ``NEVER`` for an impossible mode."""
    all_cores_im: Flags
    """Which modes take all cores of an engine; the others take one."""
    hbm_units_im: Ints | None = None
    """HBM bandwidth held, in units of which there are ``share_units``; None for none."""
    buffer_units_im: Ints | None = None
    """Likewise for the global buffer."""
    share_units: int
    """Units of each bandwidth."""


def needs_of(part: Part, modes: PartModes, cores: Cores) -> tuple[Ints, Ints]:
    """What every mode holds, operators x modes x resources, and how much there is; none that can never run out.

    Args:
        part: Its structure.
        modes: Its operators on the chip.
        cores: Of the chip.
    """
    exclusive = cores.exclusion is Exclusion.CHIP
    all_cores_im, share_units = modes.all_cores_im, modes.share_units
    shape = size, _ = modes.cycles_im.shape
    possible_im = modes.cycles_im < NEVER
    needs: list[Ints] = []
    caps: list[int] = []

    def add(need_im: Ints, cap: int) -> None:
        needs.append(need_im)
        caps.append(cap)

    for users, width, num_cores in (
        (part.uses_tensor, part.tensor_width, cores.num_tensor_cores),
        (part.uses_vector, part.vector_width, cores.num_vector_cores),
    ):
        cap = min(num_cores, width)
        if cap < width or (width > 0 and not exclusive):
            add(np.where(users[:, None], np.where(all_cores_im, cap, 1), 0), cap)
    if part.link_width > 1:
        need_im = np.zeros(shape, dtype=np.int64)
        need_im[part.uses_link] = 1
        add(need_im, 1)
    for units_im in _binding([modes.hbm_units_im, modes.buffer_units_im], possible_im):
        if np.where(possible_im, units_im, 0).max(axis=1).sum() > share_units:
            divisor = int(np.gcd.reduce(units_im, axis=None, initial=share_units))
            add(units_im // divisor, share_units // divisor)
    if exclusive:
        add(np.where(all_cores_im, size, 1), size)
    need_imr = np.ascontiguousarray(np.stack(needs, axis=2)) if needs else np.zeros((*shape, 0), np.int64)
    return need_imr, np.array(caps, dtype=np.int64)


def _binding(bandwidths: list[Ints | None], possible_im: Flags) -> list[Ints]:
    """Needs of the bandwidths that can bind: one of which every mode holds no more than of another never does."""
    kept: list[Ints] = []
    for units_im in bandwidths:
        if units_im is None:
            continue
        if any((units_im <= other)[possible_im].all() for other in kept):
            continue
        kept = [other for other in kept if not (other <= units_im)[possible_im].all()]
        kept.append(units_im)
    return kept
