"""``verify`` of runs by boxes: a run passes, and fails once anything of it is tampered with."""

import shutil
import sqlite3
from dataclasses import replace

import pytest

from rephaze.hardware.grid import DesignGrid
from rephaze.store.box_text import ranges_text
from rephaze.store.run_store import RunStore
from rephaze.verify.run_check import verify_run
from tests.kits.long_hunt import seldom
from tests.property.box_cases import box_settings, every_position, slow_start, with_space
from tests.property.box_cases import recorded as run_and_read

SPACE = {
    "num_tensor_cores": [3, 4, 6, 8],
    "tensor_width": [32, 40, 64, 200],
    "tensor_depth": [128],
    "num_vector_cores": [1, 2],
    "vector_lanes": [128, 256],
    "global_buffer_mib": [2, 3],
    "num_hbm_stacks": [1, 2],
    "area_limit_um2": 1e12,
    "constraints": ["num_tensor_cores >= 4"],
}
TRAINING = {"microbatches": [1, 2], "tp_degrees": [1], "global_batch": 12}
ALL = 100
"""Boxes of each reason: all there are."""


def settings_of(**space):
    found = box_settings(4, space=SPACE | space, training=TRAINING)
    grid = DesignGrid(found.scenario.space)
    # No chip with the widest array fits.
    at_cf = every_position(grid)
    widest_um2 = grid.area_um2(at_cf)[grid.chips(at_cf).tensor_width == 200]
    return with_space(found, replace(found.scenario.space, area_limit_um2=float(widest_um2.min()) * 0.999))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("boxes") / "run"
    with slow_start():
        found = run_and_read(settings_of(), folder)
    reasons = {box.closed_by for box in found.closed}
    assert {"area limit", "constraints", "layer bounds", "solved exactly"} <= reasons
    return folder


def failed(folder, sample=1):
    return [check for check in verify_run(folder, sample=sample) if not check.passed]


@pytest.fixture
def tampered(run, tmp_path):
    """The checks that fail once the closed boxes of a copy are what a function makes of them."""

    def change(made_of, sample=1):
        folder = tmp_path / "copy"
        shutil.copytree(run, folder)
        with RunStore.read(folder) as store:
            before = store.closed_boxes()
        after = made_of(before)
        assert after != before, "nothing was changed"
        connection = sqlite3.connect(folder / "run.db")
        ids = {name: at for at, name in connection.execute("SELECT id, name FROM bound_names")}
        connection.execute("DELETE FROM closed_boxes")
        connection.executemany(
            "INSERT INTO closed_boxes (ranges, bound, closed_by) VALUES (?, ?, ?)",
            [(ranges_text(box.first, box.last), box.bound, ids[box.closed_by]) for box in after],
        )
        connection.commit()
        connection.close()
        return {check.name for check in failed(folder, sample)}

    return change


def first_by(boxes, reason):
    return next(at for at, box in enumerate(boxes) if box.closed_by == reason)


def changed(boxes, reason, **fields):
    """The boxes with the first of a reason changed."""
    at = first_by(boxes, reason)
    return [*boxes[:at], replace(boxes[at], **fields), *boxes[at + 1 :]]


def test_a_run_passes(run):
    assert failed(run, sample=ALL) == []
    names = [check.name for check in verify_run(run, sample=1)]
    assert {"cover", "array sides", "bounds", "open", "certificate", "closed by layer bounds"} <= set(names)


def test_a_stopped_run_passes(tmp_path):
    looks = iter(range(10**9))
    with slow_start():
        found = run_and_read(settings_of(), tmp_path / "run", should_stop=lambda: next(looks) > 60)
    assert found.still_open
    assert failed(tmp_path / "run") == []


def test_a_run_that_found_nothing_passes(tmp_path):
    run_and_read(settings_of(constraints=["num_tensor_cores > 8"]), tmp_path / "run")
    assert failed(tmp_path / "run") == []


def test_a_widened_box(tampered):
    def widened(boxes):
        box = boxes[first_by(boxes, "layer bounds")]
        f = next(f for f in (0, 3, 4, 5, 6) if box.last[f] == 0)
        return changed(boxes, "layer bounds", last=(*box.last[:f], 1, *box.last[f + 1 :]))

    assert "cover" in tampered(widened)


def test_a_box_dropped(tampered):
    assert "cover" in tampered(lambda boxes: boxes[1:])


def test_a_box_twice(tampered):
    assert "cover" in tampered(lambda boxes: [*boxes, boxes[0]])


def test_a_box_dropped_and_another_of_its_size_twice(tampered):
    def moved(boxes):
        at = first_by(boxes, "solved exactly")
        other = next(b for b, box in enumerate(boxes) if box.num_points == 1 and b != at)
        return changed(boxes, "solved exactly", first=boxes[other].first, last=boxes[other].last)

    assert "cover" in tampered(moved)


def test_a_box_outside_the_grid(tampered):
    def moved(boxes):
        box = boxes[0]
        return [replace(box, first=(*box.first[:6], 7), last=(*box.last[:6], 7)), *boxes[1:]]

    assert "cover" in tampered(moved)


@pytest.mark.parametrize("part", seldom([0.5, 0.9], lambda part: part == 0.9))
def test_a_bound_lowered(part, tampered):
    def lowered(boxes):
        at = max(
            (b for b, box in enumerate(boxes) if box.closed_by == "layer bounds"), key=lambda b: boxes[b].bound
        )
        return [*boxes[:at], replace(boxes[at], bound=boxes[at].bound * part), *boxes[at + 1 :]]

    assert "closed by layer bounds" in tampered(lowered, sample=ALL)


def test_the_bound_of_a_solved_design_lowered_a_little(tampered):
    def lowered(boxes):
        return changed(boxes, "solved exactly", bound=boxes[first_by(boxes, "solved exactly")].bound * 0.999)

    assert "bounds" in tampered(lowered)


def test_a_bound_above_the_answer(tampered):
    assert "bounds" in tampered(lambda boxes: changed(boxes, "layer bounds", bound=1e9))


def test_reasons_swapped(tampered):
    def swapped(boxes):
        one, other = (boxes[first_by(boxes, reason)] for reason in ("layer bounds", "area limit"))
        exchange = {one: "area limit", other: "layer bounds"}
        return [replace(box, closed_by=exchange.get(box, box.closed_by)) for box in boxes]

    assert "bounds" in tampered(swapped)


def test_reasons_and_bounds_swapped(tampered):
    def swapped(boxes):
        one, other = (boxes[first_by(boxes, reason)] for reason in ("layer bounds", "area limit"))
        exchange = {one: (0.0, "area limit"), other: (one.bound, "layer bounds")}
        found = [exchange.get(box, (box.bound, box.closed_by)) for box in boxes]
        return [replace(box, bound=own[0], closed_by=own[1]) for box, own in zip(boxes, found, strict=True)]

    assert "closed by area limit" in tampered(swapped)


def test_a_limit_said_to_be_another(tampered):
    found = tampered(lambda boxes: changed(boxes, "constraints", closed_by="area limit"))
    assert {"closed by area limit", "certificate"} <= found


def test_a_bound_said_to_be_another(tampered):
    assert "certificate" in tampered(lambda boxes: changed(boxes, "layer bounds", closed_by="hurried schedules"))


def test_an_unsolved_design_said_to_be_solved(tampered):
    assert "bounds" in tampered(lambda boxes: changed(boxes, "layer bounds", closed_by="solved exactly"))


@pytest.mark.parametrize(
    ("statement", "check"),
    [
        ("UPDATE designs SET area_um2 = area_um2 * 1.01", "design space"),
        ("UPDATE designs SET num_tensor_cores = num_tensor_cores + 1", "design space"),
        ("DELETE FROM designs", "design space"),
        ("INSERT INTO open_boxes SELECT id, ranges, bound, '' FROM closed_boxes LIMIT 1", "cover"),
        ("DELETE FROM closed_boxes", "cover"),
        ("DELETE FROM evaluations", "bounds"),
    ],
)
def test_other_tables(run, tmp_path, statement, check):
    shutil.copytree(run, tmp_path / "copy")
    connection = sqlite3.connect(tmp_path / "copy" / "run.db")
    assert connection.execute(statement).rowcount
    connection.commit()
    connection.close()
    assert check in {one.name for one in failed(tmp_path / "copy")}
