"""The paper's area is exact; the corrected one is anchored on silicon."""

import numpy as np
import pytest

from rephaze.hardware.area import chip_area, lane_um2
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.sram import banked_um2, sram_um2
from rephaze.hardware.template import build_chips, load_template
from rephaze.types.chip import chip_table
from rephaze.types.space import AreaModel
from rephaze.units import KIB, MIB, UM2_PER_MM2


def design(t, v, w, d, g_mib, *, template="paper", lanes=None, stacks=1):
    def column(value):
        return np.array([value], dtype=np.int64)

    return build_chips(
        num_tensor_cores=column(t),
        num_vector_cores=column(v),
        tensor_width=column(w),
        tensor_depth=column(d),
        vector_lanes=column(lanes or w),
        global_buffer_bytes=column(g_mib * MIB),
        num_hbm_stacks=column(stacks),
        template=load_template(template),
    )


def test_the_papers_tpuv4_has_the_published_limit():
    area = chip_area(design(8, 2, 128, 128, 128), AreaModel.PAPER)
    assert area.total_um2_c[0] == pytest.approx(278_826_676.31, abs=0.01)
    assert area.global_buffer_um2_c[0] == 175_423_000.0
    assert area.arrays_um2_c[0] / UM2_PER_MM2 == pytest.approx(99.6, abs=0.05)


def test_the_papers_area_by_hand():
    # One 2 x 2 core (scratchpad at its 1 KiB minimum), one vector core of 2 lanes, 2 MiB of buffer.
    by_hand = 4 * 760.041386 + 6133.98 + 2 * 759.823853 + 6133.98 + 3338220.0
    assert chip_area(design(1, 1, 2, 2, 2), AreaModel.PAPER).total_um2_c[0] == pytest.approx(by_hand, rel=1e-14)


def test_sram_returns_the_table_exactly_and_grows_between_its_sizes():
    assert sram_um2(np.array([KIB, 256 * KIB, 128 * MIB])).tolist() == [6133.98, 446565.0, 175423000.0]
    sizes = np.unique(np.geomspace(512, 1024 * MIB, 500).astype(np.int64))
    assert (np.diff(sram_um2(sizes)) > 0).all()


def test_more_banks_never_take_less_area():
    banks = np.arange(1, 2049)
    areas = banked_um2(np.full(len(banks), 64 * MIB), banks)
    assert (np.diff(areas) >= 0).all()


def test_the_corrected_model_meets_its_silicon_anchors():
    tpuv4i = chip_area(chip_table([preset_chip("tpuv4i")]), AreaModel.CORRECTED)
    assert tpuv4i.global_buffer_um2_c[0] / UM2_PER_MM2 == pytest.approx(112, rel=1e-12)
    assert tpuv4i.arrays_um2_c[0] / 4 / UM2_PER_MM2 == pytest.approx(14, rel=1e-4)


def test_corrected_areas_stay_below_the_published_dies():
    # The model leaves out control, host interface and spare area, so it must come out below the whole die.
    for name, die_mm2 in {"tpuv4": 600, "tpuv4i": 400, "a100-80gb": 826, "h100": 814}.items():
        area = chip_area(chip_table([preset_chip(name)]), AreaModel.CORRECTED).total_um2_c[0]
        assert 0.3 * die_mm2 < area / UM2_PER_MM2 < die_mm2


def test_a_lane_costs_several_multipliers():
    assert 3 * 854.5 < lane_um2() < 10 * 854.5


def test_memory_stacks_cost_area_only_in_the_corrected_model():
    few, many = (design(8, 2, 128, 128, 64, template="default", stacks=s) for s in (1, 5))
    assert chip_area(few, AreaModel.PAPER).total_um2_c == chip_area(many, AreaModel.PAPER).total_um2_c
    extra = chip_area(many, AreaModel.CORRECTED).total_um2_c - chip_area(few, AreaModel.CORRECTED).total_um2_c
    assert extra[0] / UM2_PER_MM2 == pytest.approx(4 * 16.19, rel=1e-3)
