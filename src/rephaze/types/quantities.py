"""Numbers as files may give them: finite, of the right sign, and small enough that no sum of them overflows."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

MAX_BYTES = 1e24
"""Also of bytes a second: a million million of what one chip has."""
MAX_SECONDS = 1e12

MAX_LAYERS = 4096
"""Of a model: placement grows with their square and more."""
MAX_CUTS = 4096
"""Graphs of a placement problem: one for each tp, microbatch size and so on."""
MAX_LINKS = 65_536
"""Edges between the layers of a graph."""
MAX_OPS = 20_000
"""Operators of one pass of one layer."""
MAX_OP_EDGES = 200_000

Bytes = Annotated[float, Field(ge=0.0, le=MAX_BYTES)]
Rate = Annotated[float, Field(ge=1e-9, le=MAX_BYTES)]
"""Bytes a second; or a memory, which nothing fits if it is empty."""
Seconds = Annotated[float, Field(ge=0.0, le=MAX_SECONDS)]
Name = Annotated[str, Field(min_length=1, max_length=500)]
