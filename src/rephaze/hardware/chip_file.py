"""A user's chip: a TOML or JSON file with the fields of ``Chip``, or with a preset as its base."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rephaze.errors import SpecError
from rephaze.hardware.presets import CHIP_FIELDS, STATED_FIELDS, complete_chip, find_preset, preset_chip
from rephaze.types.checks import check_count, did_you_mean, under
from rephaze.types.chip import Chip
from rephaze.types.files import is_file, read_mapping

FLOAT_FIELDS = ("hbm_bytes_per_s", "clock_hz", "scratchpad_bytes_per_cycle", "global_buffer_bytes_per_cycle")

WHOLE_FIELDS = tuple(field for field in STATED_FIELDS if field not in FLOAT_FIELDS)


def load_chip(name_or_path: str) -> Chip:
    """The chip of a preset's name, or of a ``.toml`` or ``.json`` file."""
    path = Path(name_or_path)
    if path.suffix in (".toml", ".json") or is_file(path):
        return chip_from_mapping(read_mapping(path), default_name=path.stem, source=path.name)
    return preset_chip(name_or_path)


def chip_from_mapping(data: dict[str, Any], *, default_name: str, source: str = "") -> Chip:
    """The chip in a file's contents; refuses unknown, missing, non-numeric and absurd fields by name.

    Args:
        data: The file's fields; ``base`` may name a preset that fills the ones not given.
        default_name: The chip's name if the file gives none.
        source: Shown before the field in errors.
    """
    prefix = f"{source}: " if source else ""
    values: dict[str, Any] = {}
    given = dict(data)
    name = given.pop("name", default_name)
    base = given.pop("base", None)
    for field, text in (("name", name), ("base", base)):
        if not isinstance(text, str) and not (field == "base" and text is None):
            raise SpecError(prefix + field, text, "must be text")
    if base is not None:
        with under(f"{prefix}base: "):
            preset = find_preset(base)
        values = {field: given.value for field, given in preset.values.items() if field in CHIP_FIELDS}
    for field, value in given.items():
        if field not in CHIP_FIELDS:
            raise SpecError(prefix + field, value, "is not a field of a chip", did_you_mean(field, CHIP_FIELDS))
        values[field] = float(value) if field in FLOAT_FIELDS and type(value) is int else value
    missing = [field for field in STATED_FIELDS if field not in values]
    if missing:
        rule = "is required and missing" + (f" (so are {', '.join(missing[1:])})" if missing[1:] else "")
        raise SpecError(
            prefix + missing[0], None, rule, 'give it, or a preset as base, for example base = "tpuv4"'
        )
    with under(prefix):
        for field in WHOLE_FIELDS:
            # The derived fields are computed from these before Chip itself checks them.
            check_count(field, values[field])
        return complete_chip(name, values)
