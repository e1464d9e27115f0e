"""The decorators of the mapper's compiled functions: one signature each, compiled once a machine.

A stated signature is compiled when its module is imported, or read from numba's cache beside the source; without
one, numba compiles a caller's first guesses at its types as well. Division by zero gives infinity as in numpy,
which keeps checks out of the loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])

type_like: Callable[[object], Any] = numba.typeof
"""The numba type of an example."""
# Its published types leave out the options on wrappers.
_njit: Callable[..., Any] = numba.njit


def compiled(signature: Any) -> Callable[[F], F]:
    """A function other compiled ones call; Python cannot, which halves the time to compile it."""
    decorate: Callable[[F], F] = _njit(
        signature, cache=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
    )
    return decorate


def entry(signature: Any) -> Callable[[F], F]:
    """A compiled function that Python calls; other threads run meanwhile."""
    decorate: Callable[[F], F] = _njit(
        signature, cache=True, error_model="numpy", nogil=True, no_cfunc_wrapper=True
    )
    return decorate
