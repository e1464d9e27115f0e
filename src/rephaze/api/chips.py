"""The chips of the door: known ones with their sources, and files of your own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rephaze.api.present import Block, Shown
from rephaze.types.chip import Chip

if TYPE_CHECKING:
    from rephaze.hardware.sourced_data import SourcedValue


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class KnownChip(Shown):
    """A chip that exists, each value with grade and source; a value nobody published stays blank."""

    name: str
    title: str
    values: dict[str, SourcedValue]
    blanks: tuple[str, ...]
    """Fields a chip needs that no source gave: using this chip is an error that says so."""
    chip: Chip | None
    """None while there are blanks."""

    def blocks(self) -> Sequence[Block]:
        """Headline, values and sources."""
        from rephaze.api.views import known_chip_blocks

        return known_chip_blocks(self)


def list_chips() -> Sequence[str]:
    """Names of the known chips that ship with rephaze, also those with values nobody published.

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
    """All known chips with their values and sources, in order of the family."""
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


def as_chip(chip: str | Path | Chip) -> Chip:
    """A chip given as a record, by name or as a file."""
    return chip if isinstance(chip, Chip) else load_chip(chip)
