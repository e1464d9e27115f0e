"""Runs whose database is damaged or edited: every command tells it in one line, and none tells wrong numbers."""

import random
import shutil
import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from rephaze.cli.main import app
from rephaze.errors import RephazeError
from rephaze.search.cosearch import run_search
from rephaze.store.schema import DB_NAME
from tests.kits.long_hunt import examples
from tests.kits.old_runs import edited
from tests.tampering.forging import recompute_chain
from tests.tampering.runs import KINDS, make_run, settings_of

FRACTIONS = (0.0, 0.1, 0.5, 0.9, 0.99)
NUM_FLIPS = 24
NUM_ROW_FLIPS = examples(60, 1000)
TABLE_LEAF, LEAF_HEADER = 0x0D, 8
"""Of SQLite's file format: the kind of a page that holds rows, and the bytes before the list of its cells."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(KINDS[0], tmp_path_factory.mktemp("damaged") / "run")


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / "run")


def invoked(*arguments):
    """Exit code, after checking that an error is one of ours, in one line."""
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        assert isinstance(done.exception, RephazeError), repr(done.exception)
        assert "\n" not in str(done.exception)
        return 1
    return done.exit_code


def commands(folder, out):
    """What reads a run, quickest first."""
    for table in ("evaluations", "designs", "bounds", "incumbents"):
        yield ("export", folder, "--table", table, "--out", out / f"{table}.csv")
    for target in ("megatron", "json", "perfetto"):
        yield ("export", folder, "--to", target, "--out", out / f"{target}.csv")
    yield ("pareto", folder, "--coarse")
    yield ("judge", "--run", folder, "--chip", "tpuv2")
    yield ("report", folder, "--out", out / "page.html")
    yield ("verify", folder, "--sample", 0)


def check_all_refuse(folder, tmp_path):
    for one in commands(folder, tmp_path):
        assert invoked(*one) == 1, one
    assert not list(tmp_path.glob("*.csv"))
    assert not list(tmp_path.glob("*.html"))
    with pytest.raises(RephazeError) as told:
        run_search(settings_of("list"), folder=folder, resume=True)
    assert "\n" not in str(told.value).split("give the settings")[0]


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_a_database_cut_short(copy, tmp_path, fraction):
    content = (copy / DB_NAME).read_bytes()
    (copy / DB_NAME).write_bytes(content[: int(len(content) * fraction)])
    for one in commands(copy, tmp_path):
        assert invoked(*one) == 1, one
    assert not list(tmp_path.glob("*.csv"))


def test_flipped_bits(run, copy, tmp_path):
    """One may lie where nothing is: then what is exported is as it was."""
    draw, content = random.Random(24), (run / DB_NAME).read_bytes()
    for table in ("evaluations", "designs"):
        assert invoked("export", run, "--table", table, "--out", tmp_path / f"{table}-whole.csv") == 0
    for _ in range(NUM_FLIPS):
        at = draw.randrange(len(content))
        flipped = bytes([content[at] ^ (1 << draw.randrange(8))])
        (copy / DB_NAME).write_bytes(content[:at] + flipped + content[at + 1 :])
        for table in ("evaluations", "designs"):
            out = tmp_path / f"{table}.csv"
            if invoked("export", copy, "--table", table, "--out", out) == 0:
                assert out.read_bytes() == (tmp_path / f"{table}-whole.csv").read_bytes()
        invoked("pareto", copy, "--coarse")


def free_room(content):
    """Of each page of rows, where its free room begins and ends: between the list of its cells and the cells."""
    size = int.from_bytes(content[16:18], "big")
    for start in range(size, len(content), size):
        if content[start] == TABLE_LEAF:
            num_cells = int.from_bytes(content[start + 3 : start + 5], "big")
            first = start + LEAF_HEADER + 2 * num_cells
            end = start + int.from_bytes(content[start + 5 : start + 7], "big")
            if num_cells and end > first:
                yield first, end


def all_rows(path):
    with closing(sqlite3.connect(path)) as connection:
        return [line for line in connection.iterdump() if line.startswith("INSERT")]


def test_a_bit_that_no_row_holds_harms_nothing(run, copy, tmp_path):
    """SQLite never reads a page's free room: what is flipped there changes no row, so no digest and no answer."""
    content = (run / DB_NAME).read_bytes()
    whole, rooms = all_rows(run / DB_NAME), list(free_room(content))
    assert rooms
    for first, end in rooms[:: max(1, len(rooms) // 4)]:
        at = (first + end) // 2
        (copy / DB_NAME).write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        assert all_rows(copy / DB_NAME) == whole
        assert invoked("pareto", copy, "--coarse") == 0
        assert invoked("report", copy, "--out", tmp_path / "page.html") == 0


def test_no_bit_that_a_row_holds_passes(run, copy, tmp_path):
    """Drawn over the whole file: a command that answers has read the rows that were recorded."""
    content, whole, draw, num_told = (run / DB_NAME).read_bytes(), all_rows(run / DB_NAME), random.Random(9000), 0
    for _ in range(NUM_ROW_FLIPS):
        at = draw.randrange(len(content))
        flipped = bytes([content[at] ^ (1 << draw.randrange(8))])
        (copy / DB_NAME).write_bytes(content[:at] + flipped + content[at + 1 :])
        code = invoked("export", copy, "--table", "incumbents", "--out", tmp_path / "table.csv")
        if code == 0:
            assert all_rows(copy / DB_NAME) == whole, at
        else:
            num_told += 1
    assert num_told > 0


@pytest.mark.parametrize("name", [b"evaluations", b"TABLE bounds", b"incumbents"])
def test_a_name_that_is_no_text(run, copy, tmp_path, name):
    """SQLite says it in its message, which is no text then either."""
    content = (run / DB_NAME).read_bytes()
    assert name in content
    (copy / DB_NAME).write_bytes(content.replace(name, b"\x83" + name[1:]))
    for one in commands(copy, tmp_path):
        assert invoked(*one) == 1, one


EDITS = {
    "no run": ("DELETE FROM run",),
    "text as area": ("UPDATE designs SET area_um2 = 'large' WHERE design = 3",),
    "nothing as a bound's name": ("DELETE FROM bound_names WHERE id = 2",),
    "no such optimizer": ("""UPDATE run SET settings = replace(settings, '"optimizer":"', '"optimizer":"x')""",),
    "a shorter list": (
        "UPDATE run SET settings = replace(settings, '\"num_hbm_stacks\":[1,2]', '\"num_hbm_stacks\":[1]')",
    ),
    "settings that are no settings": ("UPDATE run SET settings = '[]'",),
    "text that is none": ("UPDATE evaluations SET evaluation = CAST(x'fffe00' AS TEXT) WHERE design % 2 = 0",),
    "a table gone": ("DROP TABLE evaluations",),
    "a number too large": ("UPDATE designs SET num_tensor_cores = 9223372036854775807 WHERE design = 1",),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edited_run_is_refused_in_one_line(copy, tmp_path, edit):
    edited(copy, *edit)
    check_all_refuse(copy, tmp_path)


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_verify_tells_it_though_the_digests_were_recomputed(copy, edit):
    edited(copy, *edit)
    recompute_chain(copy)
    assert invoked("verify", copy, "--sample", 0) == 1


def test_a_noted_digest_passes_no_change(run, copy):
    from rephaze import open_run

    def wrong(digest):
        return {one.name for one in open_run(copy).verify(0, digest=digest).checks if not one.passed}

    (found,) = [one for one in open_run(run).verify(0).checks if one.name == "digests"]
    noted = found.detail.rsplit(" ", 1)[1]
    assert wrong(noted[:12]) == set()
    edited(copy, "UPDATE sessions SET pid = pid + 1")
    recompute_chain(copy)
    assert wrong(None) == set()
    assert wrong(noted[:12]) == {"digests"}
