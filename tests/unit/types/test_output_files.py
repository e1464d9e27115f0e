"""Writing never costs a file that was read, nor one of another kind, and leaves whole files only."""

import gzip
import os

import pytest

from rephaze.errors import FileError, SpecError
from rephaze.types.output_files import HTML_PAGE, FileKind, check_output, whole_file, write_whole

GRAPH = FileKind(name="a graph", starts=(b'{"format":"g/1"',))


def test_a_new_file_and_its_folder_are_made(tmp_path):
    write_whole(tmp_path / "new" / "a.html", "<html>ü</html>", HTML_PAGE)
    assert (tmp_path / "new" / "a.html").read_text("utf-8") == "<html>ü</html>"


def test_a_file_of_the_kind_is_replaced_and_keeps_its_mode(tmp_path):
    page = tmp_path / "a.html"
    page.write_text("\n <!DOCTYPE HTML><html>old")
    page.chmod(0o640)
    write_whole(page, "<html>new", HTML_PAGE)
    assert page.read_text() == "<html>new"
    assert page.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [page]


def test_packed_files_are_known_by_what_is_in_them(tmp_path):
    mine, other = tmp_path / "a.gz", tmp_path / "b.gz"
    mine.write_bytes(gzip.compress(b'{ "format": "g/1" }'))
    other.write_bytes(gzip.compress(b"{}"))
    check_output(mine, GRAPH)
    with pytest.raises(FileError, match="is not a graph"):
        check_output(other, GRAPH)
    other.write_bytes(b"\x1f\x8bno gzip at all")
    with pytest.raises(FileError, match="is not a graph"):
        check_output(other, GRAPH)


@pytest.mark.parametrize("content", [b"SQLite format 3\x00", b"num_tensor_cores\n1\n", b"{}"])
def test_a_file_of_another_kind_stays(tmp_path, content):
    path = tmp_path / "a.html"
    path.write_bytes(content)
    with pytest.raises(FileError, match="is there and is not an HTML page"):
        write_whole(path, "<html>", HTML_PAGE)
    assert path.read_bytes() == content


def test_an_empty_file_may_be_filled(tmp_path):
    path = tmp_path / "a.html"
    path.touch()
    write_whole(path, "<html>", HTML_PAGE)
    assert path.read_text() == "<html>"


@pytest.mark.parametrize("way", ["itself", "symlink", "hard link", "other spelling"])
def test_a_file_that_is_read_is_not_written(tmp_path, way):
    read = tmp_path / "in.html"
    read.write_text("<html>")
    out = tmp_path / "out.html"
    if way == "symlink":
        out.symlink_to(read)
    elif way == "hard link":
        os.link(read, out)
    elif way == "other spelling":
        (tmp_path / "x").mkdir()
        out = tmp_path / "x" / ".." / "in.html"
    else:
        out = read
    with pytest.raises(FileError, match="is read by this command"):
        check_output(out, HTML_PAGE, reads=["gpt2-xl", "a" * 5000, read])


def test_folders_endings_and_impossible_names_are_told(tmp_path):
    with pytest.raises(FileError, match="is a folder"):
        check_output(tmp_path, HTML_PAGE)
    with pytest.raises(SpecError, match=r"must end in \.html or \.htm"):
        check_output(tmp_path / "run.db-wal", HTML_PAGE)
    for name in ("a" * 300 + ".html", "a\0.html"):
        with pytest.raises(FileError, match="cannot be written"):
            write_whole(tmp_path / name, "", HTML_PAGE)


def test_what_fails_midway_leaves_the_old_file_and_nothing_else(tmp_path):
    page = tmp_path / "a.html"
    page.write_text("<html>old")

    def write_half():
        with whole_file(page, HTML_PAGE) as path:
            path.write_text("<html>half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert page.read_text() == "<html>old"
    assert list(tmp_path.iterdir()) == [page]


def test_devices_are_written_to_as_they_are():
    from pathlib import Path

    write_whole(Path("/dev/null"), "<html>", HTML_PAGE)
    assert Path("/dev/null").is_char_device()
