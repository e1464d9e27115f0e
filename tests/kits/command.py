"""``rephaze`` in this process: the kernels and libraries that are loaded serve every call.

A process of its own takes seconds to load what a call needs; tests that are about processes (kills, locks, the
installed command) start one, all others call this.
"""

import os
import subprocess
from contextlib import chdir
from unittest.mock import patch

from tests.fuzz.harness import call

LONGEST_S = 600.0
"""A call that hangs fails; no test is about this figure."""


def rephaze(*arguments, cwd=".", columns=None):
    """What ``rephaze ARGUMENTS`` in a folder leaves behind, as ``subprocess.run`` tells it.

    Args:
        arguments: Of the command, in whatever type.
        cwd: The folder.
        columns: Of the terminal; None for output that goes into a pipe.
    """
    words = [str(argument) for argument in arguments]
    with chdir(cwd), patch.dict(os.environ):
        os.environ.pop("COLUMNS", None)
        if columns is not None:
            os.environ["COLUMNS"] = str(columns)
        done = call(words, LONGEST_S)
    assert not done.trace, done.trace
    return subprocess.CompletedProcess(words, done.code, done.out, done.err)
