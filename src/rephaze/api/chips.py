"""The chips of the door: known ones with their sources, files of your own, and what follows from a chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rephaze.api.present import Block, Shown
from rephaze.types.chip import Chip, chip_table
from rephaze.types.space import AreaModel

if TYPE_CHECKING:
    from rephaze.hardware.sourced_data import SourcedValue


@dataclass(frozen=True, kw_only=True, slots=True)
class ChipFacts:
    """What follows from a chip: its area under each area model, peak, power and cost."""

    area_um2: dict[str, float]
    """By area model."""
    peak_flops_per_s: float
    full_power_w: float
    """With every unit busy, by the corrected area."""
    cost_usd: float
    """Die and memory."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class KnownChip(Shown):
    """A chip that exists, each figure with grade and source; a figure nobody published stays blank."""

    name: str
    title: str
    values: dict[str, SourcedValue]
    blanks: tuple[str, ...]
    """Fields a chip needs that no source gave: using this chip is an error that says so."""
    chip: Chip | None
    """None while there are blanks."""

    def blocks(self) -> Sequence[Block]:
        """Headline, figures and sources."""
        from rephaze.api.views import known_chip_blocks

        return known_chip_blocks(self)


def list_chips() -> Sequence[str]:
    """Names of the known chips that ship with rephaze, also those with figures nobody published.

    Example:
        >>> import rephaze
        >>> rephaze.list_chips()[:3]
        ('tpuv2', 'tpuv3', 'tpuv4')
    """
    from rephaze.hardware.presets import load_presets

    return tuple(load_presets())


def load_chip(name_or_path: str | Path) -> Chip:
    """The chip of a name of ``list_chips``, or of a ``.toml`` or ``.json`` chip file.

    Example:
        >>> import rephaze
        >>> chip = rephaze.load_chip("tpuv4")
        >>> chip.in_words
        '8 x 128x128, 2 x 2048 lanes, 128 MiB, 4 stacks'

    Args:
        name_or_path: A file holds the fields of ``Chip``, or ``base = "tpuv4"`` and those that differ.
    """
    from rephaze.hardware.chip_file import load_chip as read_chip

    return read_chip(str(name_or_path))


def known_chips() -> tuple[KnownChip, ...]:
    """All known chips with their figures and sources, in order of the family."""
    from rephaze.hardware.presets import load_presets, preset_chip

    return tuple(
        KnownChip(
            name=preset.name,
            title=preset.title,
            values=preset.values,
            blanks=preset.blanks,
            chip=None if preset.blanks else preset_chip(preset.name),
        )
        for preset in load_presets().values()
    )


def chip_facts(chip: Chip) -> ChipFacts:
    """Area, peak, power and cost of a chip."""
    from rephaze.hardware.area import chip_area
    from rephaze.hardware.cost import chip_cost
    from rephaze.hardware.energy import full_power

    table = chip_table([chip])
    corrected_um2_c = chip_area(table, AreaModel.CORRECTED).total_um2_c
    return ChipFacts(
        area_um2={str(model): float(chip_area(table, model).total_um2_c[0]) for model in AreaModel},
        peak_flops_per_s=chip.peak_flops_per_s,
        full_power_w=float(full_power(table, AreaModel.CORRECTED).total_w_c[0]),
        cost_usd=float(chip_cost(corrected_um2_c, table.hbm_bytes).total_usd_c[0]),
    )


def as_chip(chip: str | Path | Chip) -> Chip:
    """A chip given as a record, by name or as a file."""
    return chip if isinstance(chip, Chip) else load_chip(chip)
