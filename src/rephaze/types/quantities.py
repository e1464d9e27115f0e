"""Numbers as files may give them: finite, of the right sign, and small enough that no sum of them overflows."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

MAX_BYTES = 1e24
"""Also of bytes a second: a million million of what one chip has."""
MAX_SECONDS = 1e12

Bytes = Annotated[float, Field(ge=0.0, le=MAX_BYTES)]
Rate = Annotated[float, Field(ge=1e-9, le=MAX_BYTES)]
"""Bytes a second; or a memory, which nothing fits if it is empty."""
Seconds = Annotated[float, Field(ge=0.0, le=MAX_SECONDS)]
Name = Annotated[str, Field(min_length=1, max_length=500)]
