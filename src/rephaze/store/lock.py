"""One writer a run folder: a lock of the operating system, so that a killed writer frees it."""

from __future__ import annotations

import os
import sys
import weakref
from pathlib import Path

from rephaze.errors import RunError
from rephaze.store.failures import reported

LOCK_NAME = "run.lock"

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
else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class FolderLock:
    """The right to write to a run folder, held until ``release`` or the end of the process, however it ends.

    The file stays behind, since deleting it would let two writers lock two files of one name.
    """

    def __init__(self, folder: Path) -> None:
        """Take the lock; ``RunError`` names the holder if another process, or this one, has it."""
        with reported(folder, "lock the run folder"):
            self._descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                if not _try_lock(self._descriptor):
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


def _holder(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    number = os.read(descriptor, 32).decode("ascii", "replace").strip()
    return f"process {number}" if number.isdigit() else "of another process"
