import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_python_m_rephaze_is_the_command():
    run = subprocess.run([sys.executable, "-m", "rephaze", "--help"], capture_output=True, text=True, check=True)
    assert "search" in run.stdout


def test_importing_the_module_runs_nothing():
    code = "import rephaze.__main__"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == ""


def _ended(*args: str, redirected: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """The command through a shell's redirection."""
    line = ["/bin/sh", "-c", f'exec "$0" -m rephaze "$@" {redirected}', sys.executable, *args]
    return subprocess.run(line, capture_output=True, text=True, check=False, env=os.environ | environment)


posix_only = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")


@posix_only
@pytest.mark.parametrize("args", [("chips",), ("chips", "--json"), ("--help",)])
def test_a_full_disk_under_the_output_is_told_in_one_line(args):
    done = _ended(*args, redirected=">/dev/full")
    assert (done.returncode, done.stderr) == (1, "error: cannot go on: No space left on device\n")


@posix_only
@pytest.mark.parametrize("redirected", [">&-", "2>&-", ">&- 2>&-", "2>/dev/full"])
def test_streams_that_are_closed_change_no_exit_code(redirected):
    for args, code in ((("chips", "--json"), 0), (("nope",), 2), (("place", "nowhere.json"), 1)):
        done = _ended(*args, redirected=redirected)
        assert done.returncode == code
        assert "Traceback" not in done.stderr


def test_an_encoding_without_our_characters_loses_no_output():
    done = _ended("chips", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "mm\\xb2" in done.stdout
