"""One writer a run folder: a lock of the operating system, so that a killed writer frees it."""

from __future__ import annotations

import os
import sys
import time
import weakref
from pathlib import Path

from rephaze.errors import RunError
from rephaze.store.failures import reported

LOCK_NAME = "run.lock"
HEIRS_S = 10.0
"""How long children of a killed writer may take to drop the lock they inherited, on a machine that is busy."""
POLL_S = 0.01

if sys.platform == "win32":
    import msvcrt

    # A locked byte cannot be read by others there, so lock one far behind the holder's number.
    _LOCKED_OFFSET = 2**20

    def _try_lock(descriptor: int) -> bool:
        os.lseek(descriptor, _LOCKED_OFFSET, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _is_gone(number: int) -> bool:  # noqa: ARG001  nothing is forked there, so nothing is inherited
        return False
else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_gone(number: int) -> bool:
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return True
        except OSError:  # it lives, and belongs to somebody else
            pass
        return False


class FolderLock:
    """The right to write to a run folder, held until ``release`` or the end of the process, however it ends.

    The file stays behind, since deleting it would let two writers lock two files of one name.
    """

    def __init__(self, folder: Path) -> None:
        """Take the lock; ``RunError`` names the holder if another process, or this one, has it."""
        with reported(folder, "lock the run folder"):
            self._descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                if not (_try_lock(self._descriptor) or _outwait_heirs(self._descriptor)):
                    raise RunError(
                        f"{folder}: another search ({_holder(self._descriptor)}) is writing to this run; "
                        "wait for it to end, or give this one a folder of its own"
                    )
                os.ftruncate(self._descriptor, 0)
                os.lseek(self._descriptor, 0, os.SEEK_SET)
                os.write(self._descriptor, f"{os.getpid()}\n".encode())
            except BaseException:
                os.close(self._descriptor)
                raise
        _held.add(self)

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        _held.discard(self)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


_held: weakref.WeakSet[FolderLock] = weakref.WeakSet()


def _drop_inherited() -> None:
    """Close locks that a forked worker inherits: one that outlives its killed driver must not keep them."""
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_inherited)


def _outwait_heirs(descriptor: int) -> bool:
    """Whether the lock came free because its holder is dead.

    A child that its driver forked just before it was killed has the lock until it first runs and drops it, or
    until it becomes another program: moments, however long the system lets it wait for them.
    """
    end_s = time.monotonic() + HEIRS_S
    while time.monotonic() < end_s:
        number = _holder_number(descriptor)
        if number is None or not _is_gone(number):
            return False
        time.sleep(POLL_S)
        if _try_lock(descriptor):
            return True
    return False


def _holder(descriptor: int) -> str:
    number = _holder_number(descriptor)
    return "of another process" if number is None else f"process {number}"


def _holder_number(descriptor: int) -> int | None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    text = os.read(descriptor, 32).decode("ascii", "replace").strip()
    return int(text) if text.isdecimal() else None
