"""The decorators of the mapper's compiled functions: one signature each, compiled once a machine.

A stated signature is compiled when its module is imported, or read from numba's cache beside the source; without
one, numba compiles a caller's first guesses at its types as well. Division by zero gives infinity as in numpy,
which keeps checks out of the loops.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

type_like: Callable[[object], Any] = numba.typeof
"""The numba type of an example."""
# Its published types leave out the options on wrappers.
_njit: Callable[..., Any] = numba.njit


def _digest_of_sources() -> str:
    here = Path(__file__)
    sources = [here, here.with_name("ladders.py"), *sorted(here.parent.glob("padded_*.py"))]
    return sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]


# numba looks for changes only in the file of a function, not in those of the functions compiled into it: without
# this in the name of its cache file, it would run old code after an update.
_SOURCES = _digest_of_sources()


def compiled(signature: Any) -> Callable[[F], F]:
    """A function other compiled ones call; Python cannot, which halves the time to compile it."""
    return _decorator(signature, no_cpython_wrapper=True)


def entry(signature: Any) -> Callable[[F], F]:
    """A compiled function that Python calls; other threads run meanwhile."""
    return _decorator(signature, nogil=True)


def _decorator(signature: Any, **options: bool) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        function.__qualname__ += f"_{_SOURCES}"
        made: F = _njit(signature, cache=True, error_model="numpy", no_cfunc_wrapper=True, **options)(function)
        return made

    return decorate
