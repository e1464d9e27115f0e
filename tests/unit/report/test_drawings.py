"""Figures draw what they are given: areas to scale, bars that add up, fronts nothing beats."""

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rephaze.hardware.area import chip_items
from rephaze.hardware.presets import preset_chip
from rephaze.report.chip_drawing import ITEMS, blocks_of
from rephaze.report.figure import csv_text
from rephaze.report.memory_bars import memory_figure
from rephaze.report.progress import progress_figure
from rephaze.report.svg import CHAR_WIDTH, Scale, log_ticks, number, round_ticks, rows_of, tag
from rephaze.report.time_bars import TimeRow, parts_of, time_figure
from rephaze.report.timeline import timeline_figure
from rephaze.report.tradeoffs import AGAINST, Unsolved, _names, front_of, tradeoff_figure
from rephaze.types.pareto import ChipPoint, ChipPoints, PointKind
from rephaze.types.run_record import Incumbent, minute_of
from rephaze.types.space import AreaModel
from rephaze.units import UM2_PER_MM2

NEAR_CHIPS = {"a100-80gb": 27_041.0, "a100-40gb": 25_530.0}


@pytest.fixture
def chip_point():
    def made(name, area_mm2, samples_per_s):
        kind = PointKind.KNOWN if name else PointKind.SOLVED
        return ChipPoint(
            name=name, kind=kind, objective=samples_per_s, samples_per_s=samples_per_s,
            area_um2=area_mm2 * UM2_PER_MM2, energy_per_sample_j=1.0, chip_usd=1.0, fits_limits=True,
        )  # fmt: skip

    return made


@given(
    cores=st.integers(1, 130),
    vectors=st.integers(1, 9),
    stacks=st.integers(1, 9),
    model=st.sampled_from(list(AreaModel)),
)
def test_a_chip_is_drawn_to_scale_without_gaps_or_overlaps(cores, vectors, stacks, model):
    chip = replace(preset_chip("tpuv4"), num_tensor_cores=cores, num_vector_cores=vectors, num_hbm_stacks=stacks)
    items = chip_items(chip, model)
    blocks = list(blocks_of(items))
    for name, _, _ in ITEMS:
        drawn = sum(block.box.wide * block.box.high for block in blocks if block.item == name)
        assert drawn == pytest.approx(getattr(items, name) / UM2_PER_MM2, rel=1e-9, abs=1e-9)
    side = math.sqrt(items.total_um2 / UM2_PER_MM2)
    for block in blocks:
        box = block.box
        assert -1e-9 <= box.x <= box.x + box.wide <= side + 1e-9
        assert -1e-9 <= box.y <= box.y + box.high <= side + 1e-9
    # All inside the square and as large together as it is: so none lies on another.
    arrays = [block.box for block in blocks if block.item == "arrays_um2"]
    assert len(arrays) == cores
    assert max(box.wide * box.high for box in arrays) == pytest.approx(min(box.wide * box.high for box in arrays))


@given(count=st.integers(1, 400), wide=st.floats(0.1, 100), high=st.floats(0.1, 100))
def test_rows_hold_every_cell(count, wide, high):
    rows = rows_of(count, wide, high)
    assert sum(rows) == count
    assert max(rows) - min(rows) <= 1


@given(low=st.floats(-1e6, 1e6), span=st.floats(1e-6, 1e9))
def test_ticks_are_within_and_few(low, span):
    ticks = round_ticks(low, low + span)
    assert len(ticks) <= 8
    near = 1e-6 * span + 4 * math.ulp(abs(low) + span)  # steps may be finer than doubles are at these numbers
    assert all(low - near <= one <= low + span + near for one in ticks)


def test_logarithmic_scales_place_powers_evenly():
    scale = Scale(low=1.0, high=100.0, begin=0.0, end=10.0, is_log=True)
    assert scale(10.0) == pytest.approx(5.0)
    assert log_ticks(1.0, 100.0) == pytest.approx([1, 2, 5, 10, 20, 50, 100])
    assert number(-0.001) == "0"


def test_attributes_are_escaped():
    assert tag("a", data_t='<"x">', x=1.0, y=None) == '<a data-t="&lt;&quot;x&quot;&gt;" x="1"/>'


def test_the_parts_of_a_batch_add_up(make_records):
    account = make_records().plans[0].account
    assert sum(part_s for *_, part_s in parts_of(account)) == pytest.approx(account.causes.total_s)
    bare = replace(account, bound_by_fractions={})
    assert [key for key, *_ in parts_of(bare)] == ["compute", "replay", "bubble", "sync"]
    figure = time_figure("m", [TimeRow(name="one", account=account)], as_share=True)
    assert sum(row[4] for row in figure.rows) == pytest.approx(1.0)
    widths = [float(wide) for wide in re.findall(r'<rect[^>]* width="([^"]*)"', figure.svg)]
    assert sum(widths) == pytest.approx(760 - 190 - 66, abs=0.1)


def test_memory_is_drawn_to_the_line_or_says_that_it_is_far(make_records):
    account = make_records().plans[0].account
    near, far = memory_figure(account, 2**35), memory_figure(account, 2**38)
    assert 'class="limit"' in near.svg
    assert 'class="limit"' not in far.svg
    assert "256 GiB, far above" in far.svg
    assert "holds 16 of 32 GiB: 16 GiB, 50%, are free" in near.note


def test_a_timeline_has_every_pass_in_its_data_and_its_paths(make_records):
    timeline = make_records().plans[0].timeline
    figure = timeline_figure("m", timeline)
    assert figure.rows[0] == [1, "forward", 1, 0.0, 100.0]
    assert figure.rows[-1] == [1, "sync", None, 450.0, 500.0]
    assert sum(path.count("M") for path in re.findall(r'<path[^>]* d="([^"]*)"', figure.svg)) == len(figure.rows)
    cut = replace(timeline, left_out_from_s=0.1, left_out_to_s=0.2)
    assert "left out" in timeline_figure("m", cut).note


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), max_size=30))
def test_nothing_beats_a_point_of_a_front(points):
    front = front_of(points)
    assert set(front) <= set(points)
    for x, y in front:
        assert not any(a <= x and b >= y and (a, b) != (x, y) for a, b in points)
    for x, y in points:
        assert any(a <= x and b >= y for a, b in front)


def test_tradeoffs_draw_all_chips_or_those_near_the_limit(make_records):
    points = make_records().points
    unsolved = [
        Unsolved(kind="dropped", places=((300.0, 250.0), (9.0, 9.0))),
        Unsolved(kind="open", places=((310.0, 280.0),)),
    ]
    whole, near, *_ = (tradeoff_figure(points, one, "samples/s", unsolved) for one in AGAINST)
    assert len(whole.rows) == 7
    assert {row[0] for row in near.rows} == {"known", "dropped", "open"}
    assert [one.key for one in near.legend if one.key in ("dropped", "open")] == ["dropped", "open"]
    assert whole.svg.count("hollow") == 1  # over the limit


def test_a_die_that_no_wafer_holds_has_no_place_along_cost(chip_point):
    known = replace(chip_point("huge", area_mm2=300.0, samples_per_s=5.0), chip_usd=math.inf)
    points = ChipPoints(
        points=(known, chip_point("", 100.0, 3.0)), known_names=(), area_limit_um2=350 * UM2_PER_MM2
    )
    area, _, _, cost = (tradeoff_figure(points, one, "samples/s") for one in AGAINST)
    assert len(area.rows) == 2
    assert "no cost: no such die fits a wafer" in area.svg
    assert len(cost.rows) == 1
    assert "inf" not in area.svg + cost.svg


def test_time_runs_on_over_sessions(make_records):
    result = make_records().result
    steps = [
        Incumbent(elapsed_s=2.0, objective=1.0, bound=math.inf, design=0),
        Incumbent(elapsed_s=8.0, objective=2.0, bound=9.0, design=1),
        Incumbent(elapsed_s=3.0, objective=3.0, bound=8.0, design=2),
    ]
    figure = progress_figure(steps, replace(result, search_s=5.0), "samples/s")
    assert [row[0] for row in figure.rows] == [2.0, 8.0, 11.0, 13.0]
    assert [row[1] for row in figure.rows] == [1.0, 2.0, 3.0, 300.0]


def test_data_is_written_as_it_is():
    assert csv_text(("a", "b"), [["x, y", None], ['"', 0.1]]) == 'a,b\n"x, y",\n"""",0.1\n'


def test_names_of_chips_that_lie_close_stay_beside_their_marks(chip_point):
    """Two chips of one area with designs to their right: each name near its own diamond, none over another."""
    known = [chip_point(name, area_mm2=292.0, samples_per_s=speed) for name, speed in NEAR_CHIPS.items()]
    points = [(292.0, speed, one) for speed, one in zip(NEAR_CHIPS.values(), known, strict=True)]
    points += [(292.0 + 6 * at, 25_000.0, chip_point("", 292.0 + 6 * at, 25_000.0)) for at in range(1, 8)]
    across, up = Scale(low=0, high=900, begin=60, end=880), Scale(low=0, high=75_000, begin=400, end=20)
    found = {
        name: (float(x), float(y))
        for x, y, name in re.findall(r'x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]+)<', _names(points, across, up))
    }
    assert found.keys() == NEAR_CHIPS.keys()
    for name, (left, base) in found.items():
        wide = 0.9 * CHAR_WIDTH * len(name)
        right_of = max(left - across(292.0), across(292.0) - left - wide)
        assert right_of < 20
        assert abs(base - 4 - up(NEAR_CHIPS[name])) <= 24
    (_, one), (_, other) = found.values()
    assert abs(one - other) >= 12


def test_moments_are_told_to_the_minute():
    assert minute_of("2026-11-17T23:09:18.774632+00:00") == "2026-11-17 23:09 UTC"
