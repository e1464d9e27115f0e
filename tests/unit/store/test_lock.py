"""One writer a folder, and none kept out by the children of a writer that was killed."""

import os
import subprocess
import sys
import time
from threading import Timer

import pytest

from rephaze.errors import RunError
from rephaze.store import lock
from rephaze.store.lock import LOCK_NAME, FolderLock

fcntl = pytest.importorskip("fcntl")


@pytest.fixture
def dead_process():
    """The number of a process that has been, and is no more."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait(timeout=30)
    return process.pid


def inherited(folder, number):
    """The lock as a forked child still has it, with the number its driver wrote."""
    descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o666)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, f"{number}\n".encode())
    return descriptor


def test_a_killed_writers_child_that_has_not_run_yet_keeps_nobody_out(tmp_path, dead_process):
    heir = inherited(tmp_path, dead_process)
    Timer(0.2, os.close, [heir]).start()
    FolderLock(tmp_path).release()


def test_a_child_that_never_drops_the_lock_is_waited_for_only_so_long(tmp_path, dead_process, monkeypatch):
    monkeypatch.setattr(lock, "HEIRS_S", 0.1)
    heir = inherited(tmp_path, dead_process)
    with pytest.raises(RunError, match=f"process {dead_process}"):
        FolderLock(tmp_path)
    os.close(heir)


@pytest.mark.parametrize("wrote", ["", "nobody"])
def test_where_no_holder_is_named_none_is_waited_for(tmp_path, wrote):
    heir = inherited(tmp_path, wrote)
    with pytest.raises(RunError, match="of another process"):
        FolderLock(tmp_path)
    os.close(heir)


def test_a_living_writer_is_told_of_at_once(tmp_path):
    held = FolderLock(tmp_path)
    began_s = time.monotonic()
    with pytest.raises(RunError, match=f"process {os.getpid()}"):
        FolderLock(tmp_path)
    assert time.monotonic() - began_s < lock.HEIRS_S / 2
    held.release()
    held.release()
    FolderLock(tmp_path).release()
