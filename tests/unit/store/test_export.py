"""Exported files hold what the run holds, cell for cell."""

import csv
import json
import math
import os
import stat
import sys

import pyarrow.parquet
import pytest

from rephaze.errors import FileError, MissingExtraError
from rephaze.hardware.space import enumerate_designs
from rephaze.store.export import FileFormat, export_table
from rephaze.store.tables import TableName, flat_table
from rephaze.types.boxes import ClosedBox, OpenBox
from rephaze.types.run_record import Incumbent
from rephaze.types.system import ListedSystem

CSV, PARQUET = FileFormat.CSV, FileFormat.PARQUET
TRICKY = '=1+2, "quoted"\nnext line; -inf'


@pytest.fixture
def filled(store, settings, make_evaluation, make_bounds):
    census = enumerate_designs(settings.scenario.space)
    store.record_designs(census.chips.take(slice(0, 50)), census.area_um2_c[:50])
    store.record_evaluations(
        [make_evaluation(1, text=TRICKY), make_evaluation(2, is_exact=False), make_evaluation(3)]
    )
    store.record_bounds(make_bounds(), make_bounds("llama2-7b", num_designs=2))
    store.record_boxes(
        [ClosedBox(first=(0,) * 7, last=(1, 2, 0, 3, 0, 1, 0), bound=5.0, closed_by="layer bounds")],
        [OpenBox(first=(2,) + (0,) * 6, last=(3,) + (0,) * 6, upper=math.inf, bounded_by="", times=())],
    )
    one = ListedSystem(
        clock_hz=1e9,
        hbm="hbm3",
        hbm_layers=8,
        num_inside_links=4.0,
        num_outside_links=2.0,
        node_size=8,
        num_chips=64,
    )
    store.record_systems([one])
    store.record_incumbent(Incumbent(elapsed_s=0.1, objective=-math.inf, bound=math.inf, design=None))
    return store


def cell(text, kind):
    if text == "":
        return "" if kind is str else None
    return {"true": True, "false": False}[text] if kind is bool else kind(text)


@pytest.mark.parametrize("name", list(TableName))
def test_csv_and_parquet_hold_the_tables_cells(filled, tmp_path, name):
    columns = flat_table(filled, name).columns
    names = [column.name for column in columns]
    rows = [tuple(row) for row in flat_table(filled, name).rows]
    assert rows

    assert export_table(filled, name, tmp_path / "t.csv", CSV) == len(rows)
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    assert header == names
    found = [tuple(cell(t, c.kind) for t, c in zip(line, columns, strict=True)) for line in lines]
    # CSV has one blank for both a missing text and an empty one.
    assert found == [
        tuple("" if v is None and c.kind is str else v for v, c in zip(row, columns, strict=True)) for row in rows
    ]

    assert export_table(filled, name, tmp_path / "t.parquet", PARQUET) == len(rows)
    table = pyarrow.parquet.read_table(tmp_path / "t.parquet")
    assert table.column_names == names
    assert [tuple(row.values()) for row in table.to_pylist()] == rows


def test_boxes_are_ranges_of_values(filled, settings):
    table = flat_table(filled, TableName.BOXES)
    closed, still_open = (dict(zip([c.name for c in table.columns], row, strict=True)) for row in table.rows)
    space = settings.scenario.space
    cores, widths = sorted(space.num_tensor_cores), sorted(space.tensor_width)
    assert (closed["least_num_tensor_cores"], closed["most_num_tensor_cores"]) == tuple(cores[:2])
    assert (closed["least_tensor_width"], closed["most_tensor_width"]) == (widths[0], widths[2])
    assert closed["most_global_buffer_bytes"] == sorted(space.global_buffer_bytes)[1]
    assert "least_vector_lanes" not in closed  # as wide as an array
    assert (closed["num_points"], closed["bound_samples_per_s"], closed["closed_by"]) == (48, 5.0, "layer bounds")
    assert (still_open["num_points"], still_open["bound_samples_per_s"]) == (2, math.inf)
    assert still_open["closed_by"] is None


def test_designs_of_a_search_by_boxes_keep_their_numbers(store, settings, make_evaluation):
    census = enumerate_designs(settings.scenario.space)
    store.record_looked_at([7_000_000, 9], census.chips.take(slice(0, 2)), census.area_um2_c[:2])
    store.record_evaluations([make_evaluation(9), make_evaluation(7_000_000)])
    assert [row[0] for row in flat_table(store, TableName.DESIGNS).rows] == [9, 7_000_000]
    first, second = flat_table(store, TableName.EVALUATIONS).rows
    assert first[:2] == (9, int(census.chips.num_tensor_cores[1]))
    assert second[:2] == (7_000_000, int(census.chips.num_tensor_cores[0]))


def test_rows_are_what_was_recorded(filled, settings):
    evaluations = {row[0]: row for row in flat_table(filled, TableName.EVALUATIONS).rows}
    names = [column.name for column in flat_table(filled, TableName.EVALUATIONS).columns]
    second = dict(zip(names, evaluations[2], strict=True))
    chip = enumerate_designs(settings.scenario.space).chips.chip(2)
    assert second["tensor_width"] == chip.tensor_width
    assert second["hbm_bytes_per_s"] == chip.hbm_bytes_per_s
    assert (second["is_exact"], second["objective_samples_per_s"]) == (False, -math.inf)
    assert second["reason"] == "dropped"
    assert len(list(flat_table(filled, TableName.PLANS).rows)) == 2 * 2
    assert len(list(flat_table(filled, TableName.STAGES).rows)) == 2 * 2 * 2
    bounds = list(flat_table(filled, TableName.BOUNDS).rows)
    assert bounds[1] == (None, 1, 1 / 3, "work")
    assert bounds[5:] == [("llama2-7b", 0, 0.0, None), ("llama2-7b", 1, 1 / 3, "work")]


def test_without_recorded_designs_chips_are_blank(store, tmp_path, make_evaluation):
    store.record_evaluations([make_evaluation(4)])
    row = next(flat_table(store, TableName.EVALUATIONS).rows)
    names = [column.name for column in flat_table(store, TableName.EVALUATIONS).columns]
    assert dict(zip(names, row, strict=True))["area_um2"] is None
    assert export_table(store, TableName.EVALUATIONS, tmp_path / "t.parquet", PARQUET) == 1
    assert export_table(store, TableName.DESIGNS, tmp_path / "t.parquet", PARQUET) == 0


def test_parquet_says_what_run_it_is_from(filled, tmp_path):
    export_table(filled, TableName.PLANS, tmp_path / "t.parquet", PARQUET)
    facts = json.loads(pyarrow.parquet.read_schema(tmp_path / "t.parquet").metadata[b"rephaze"])
    assert facts["settings"]["seed"] == 7
    assert facts["versions"]["estimator"] == "estimator-1"


def test_without_pyarrow_the_extra_is_named_and_nothing_written(filled, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rephaze\[parquet\]'"):
        export_table(filled, TableName.PLANS, tmp_path / "t.parquet", PARQUET)
    assert not list(tmp_path.glob("*t.parquet*"))


def test_a_failed_export_leaves_the_old_file(filled, tmp_path):
    target = tmp_path / "out" / "t.csv"
    target.parent.mkdir()
    target.write_text("design,old")
    filled._connection.execute("UPDATE evaluations SET evaluation = '{' WHERE design = 3")
    with pytest.raises(Exception, match="damaged"):
        export_table(filled, TableName.PLANS, target, CSV)
    assert target.read_text() == "design,old"
    assert list(target.parent.iterdir()) == [target]


def test_a_link_is_written_through(filled, tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "target.csv")
    export_table(filled, TableName.DESIGNS, tmp_path / "link.csv", CSV)
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "target.csv").stat().st_size


def test_a_pipe_or_device_is_written_to_not_replaced(filled, tmp_path):
    reader = None
    os.mkfifo(tmp_path / "pipe")
    try:
        reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        export_table(filled, TableName.INCUMBENTS, tmp_path / "pipe", CSV)
        assert os.read(reader, 100).startswith(b"elapsed_s,objective_samples_per_s")
    finally:
        os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_full_device_is_told_in_one_line(filled, tmp_path):
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(FileError, match="No space left"):
        export_table(filled, TableName.DESIGNS, tmp_path / "full", CSV)


@pytest.mark.parametrize(
    ("out", "said"),
    [("run.db", "is read by this command"), ("missing/t.csv", "cannot be written"), (".", "is a folder")],
)
def test_where_nothing_can_be_written_is_told_in_one_line(filled, folder, out, said):
    with pytest.raises(FileError, match=said):
        export_table(filled, TableName.PLANS, folder / out, CSV)
    assert filled.num_evaluations() == 3


def test_bytes_that_are_no_text_are_kept_or_told(store, tmp_path, make_evaluation):
    name = os.fsdecode(b"model-\xff.json")
    store.record_evaluations([make_evaluation(1, text=name)])
    assert next(store.evaluations()).plans[0].stages[0].first_layer == name
    export_table(store, TableName.STAGES, tmp_path / "t.csv", CSV)
    assert b"model-\xff.json" in (tmp_path / "t.csv").read_bytes()
    with pytest.raises(FileError, match="not valid text"):
        export_table(store, TableName.STAGES, tmp_path / "t.parquet", PARQUET)
    assert not (tmp_path / "t.parquet").exists()
