"""Bounds of passes are found once a chip, each by its own means."""

from dataclasses import fields, replace

import numpy as np

from rephaze.hardware.presets import preset_chip
from rephaze.measure.known_passes import KnownPasses, Means, chip_keys
from rephaze.types.chip import ChipTable, chip_table

CHIPS = [b"one", b"two", b"three"]
VALUE_OF = {chip: float(len(chip)) for chip in CHIPS}


class Finder:
    """Tells of the chips at some positions, and remembers of which."""

    def __init__(self, chips, factor=1.0):
        self.chips, self.factor, self.asked = chips, factor, []

    def __call__(self, positions):
        self.asked.append([self.chips[c] for c in positions.tolist()])
        return np.array([self.factor * VALUE_OF[self.chips[c]] for c in positions.tolist()])


def test_a_pass_is_bounded_once_on_a_chip_whichever_chips_are_asked_for_with_it():
    known, common = KnownPasses(), object()
    first = Finder(CHIPS[:2])
    assert known.bounds_s(Means.PATHS, common, first.chips, first).tolist() == [3.0, 3.0]
    second = Finder([CHIPS[2], CHIPS[1]])
    assert known.bounds_s(Means.PATHS, common, second.chips, second).tolist() == [5.0, 3.0]
    assert (first.asked, second.asked) == ([CHIPS[:2]], [[CHIPS[2]]])


def test_passes_and_means_do_not_know_of_each_other():
    known, common, other = KnownPasses(), object(), object()
    for means, asked, factor in (
        (Means.PATHS, common, 1.0),
        (Means.PACKING, common, 2.0),
        (Means.PATHS, other, 3.0),
    ):
        finder = Finder(CHIPS, factor)
        assert known.bounds_s(means, asked, CHIPS, finder).tolist() == [3.0 * factor, 3.0 * factor, 5.0 * factor]
        assert finder.asked == [CHIPS]


def test_chips_that_differ_in_anything_are_told_apart():
    chip = preset_chip("tpuv4")
    table = chip_table([chip, chip])
    assert len(set(chip_keys(table))) == 1
    for item in fields(ChipTable):
        column = getattr(table, item.name).copy()
        column[1] += 1
        assert len(set(chip_keys(replace(table, **{item.name: column})))) == 2, item.name
