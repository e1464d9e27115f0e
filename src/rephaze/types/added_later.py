"""Fields that records got after runs with them had been recorded."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ADDED_LATER: Mapping[str, bool] = MappingProxyType({"added_later": True})
"""As a field's metadata: documents leave it out where it has its default, so that older ones stay equal."""
