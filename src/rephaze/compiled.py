"""The decorators of compiled functions: compiled once a machine, then read from numba's cache beside the source.

With a signature (``compiled``, ``entry``) a function is compiled when its module is imported; without one
(``inner``, ``kernel``) at its first call. Functions only other compiled ones call need no way in from Python,
which halves the time to compile them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

type_like: Callable[[object], Any] = numba.typeof
"""The numba type of an example."""
# Its published types leave out the options on wrappers.
_njit: Callable[..., Any] = numba.njit


def compiled(signature: Any) -> Callable[[F], F]:
    """A function other compiled ones call; division by zero gives infinity, which keeps checks out of loops."""
    return _decorator((signature,), error_model="numpy", no_cpython_wrapper=True)


def entry(signature: Any) -> Callable[[F], F]:
    """A compiled function that Python calls; other threads run meanwhile."""
    return _decorator((signature,), error_model="numpy", nogil=True)


def inner(function: F) -> F:
    """As ``compiled``, with whatever types it is first called with."""
    return _decorator((), no_cpython_wrapper=True)(function)


def kernel(function: F) -> F:
    """As ``entry``, with whatever types it is first called with."""
    return _decorator(())(function)


def _decorator(signature: tuple[Any, ...], **options: bool | str) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        # numba looks for changes only in the file of a function, not in those of the functions compiled into it:
        # without this in the name of its cache file, it would run old code after an update.
        source = sys.modules[function.__module__].__file__
        assert source is not None
        function.__qualname__ += f"_{_digest_of_room(Path(source))}"
        made: F = _njit(*signature, cache=True, no_cfunc_wrapper=True, **options)(function)
        return made

    return decorate


def _digest_of_room(source: Path) -> str:
    """Of this file and of all a compiled function may take a constant from: its room, and the records."""
    package = Path(__file__).parent
    return _digest_of(package / source.relative_to(package).parts[0])


@cache
def _digest_of(room: Path) -> str:
    folders = (room, room.parent / "types")
    sources = [Path(__file__), *(source for folder in folders for source in folder.rglob("*.py"))]
    return sha256(b"".join(source.read_bytes() for source in sorted(sources))).hexdigest()[:12]
