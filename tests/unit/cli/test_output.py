"""What all commands share: JSON a line, errors a line, no line at all when quiet."""

import json

import numpy as np
import pytest

from rephaze.cli.output import PlainConsole, print_json, show_error, step_status


def test_a_record_is_one_line_of_json_numpy_included(capsys):
    print_json({"a": np.float64(1.5), "b": np.arange(2), "c": None})
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert json.loads(printed) == {"a": 1.5, "b": [0, 1], "c": None}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_what_json_lacks_is_no_record(value):
    with pytest.raises((ValueError, TypeError)):
        print_json({"a": value})


def test_an_error_shows_the_message_as_it_is(capsys):
    show_error("problem 3", "field [bold]x[/] is wrong")
    assert capsys.readouterr().err == "error: problem 3: field [bold]x[/] is wrong\n"


def test_quiet_steps_say_nothing(capsys):
    with step_status("one", quiet=True) as on_step:
        on_step("two")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("columns", "num_lines"), [(None, 1), ("40", 4)])
def test_a_table_in_a_pipe_is_as_wide_as_it_is(columns, num_lines, capsys, monkeypatch):
    from rich.table import Table

    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    table = Table(box=None, show_header=False)
    table.add_row(" ".join(["word"] * 23))
    PlainConsole().print(table)
    assert len(capsys.readouterr().out.splitlines()) == num_lines
