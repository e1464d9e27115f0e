"""Numbers and names as people read them: no powers of ten, no names of fields."""

from __future__ import annotations

import re

FIELD_WORDS = {
    "num_tensor_cores": "tensor cores",
    "tensor_width": "rows of an array",
    "tensor_depth": "columns of an array",
    "num_vector_cores": "vector cores",
    "vector_lanes": "lanes of a vector core",
    "global_buffer_bytes": "global buffer",
    "num_hbm_stacks": "HBM stacks",
    "hbm": "kind of HBM",
    "clock_hz": "clock",
    "num_inside_links": "links inside a node",
    "num_outside_links": "links outside a node",
    "node_size": "chips of a node",
    "num_chips": "chips",
}
"""What a search varies, by its name in files."""
KNOB_WORDS = {
    "hbm": "HBM bandwidth",
    "buffer": "global buffer bandwidth",
    "inner-links": "links inside a node",
    "outer-links": "links between nodes",
    "area": "area limit",
    "power-budget": "power budget",
    "usd-budget": "cost budget",
    "silicon-budget": "silicon budget",
}
"""Assumptions that a sensitivity study changes, by their names on the command line."""
_FIELD = re.compile(rf"\b({'|'.join(FIELD_WORDS)})\b")


def amount(value: float, num_digits: int = 4) -> str:
    """A number that people read: so many digits, whole from as many on, never a power of ten above one."""
    return f"{value:,.0f}" if abs(value) >= 10 ** (num_digits - 1) else f"{value:,.{num_digits}g}"


def rounded_amount(value: float, num_digits: int = 4) -> str:
    """As ``amount``, but no digit beyond so many is told: a page's figure that is only so exact, 11,880."""
    return amount(float(f"{value:.{num_digits}g}"), num_digits)


def fields_in_words(text: str) -> str:
    """A sentence that names fields, such as what holds a winner back, with words for them."""
    return _FIELD.sub(lambda found: FIELD_WORDS[found[0]], text)
