"""How this room's loops are compiled: kept on disk beside the source, entered from Python only where needed."""

from __future__ import annotations

from typing import Any

import numba as nb

# Ways in from C, which nothing here has, and from Python are a sixth of the time compiling takes.
_FROM_PYTHON: dict[str, Any] = {"cache": True, "no_cfunc_wrapper": True}
_FROM_COMPILED: dict[str, Any] = {**_FROM_PYTHON, "no_cpython_wrapper": True}

kernel: Any = nb.njit(**_FROM_PYTHON)
"""Decorates what Python calls."""
inner: Any = nb.njit(**_FROM_COMPILED)
"""Decorates what only compiled code calls."""
