"""What differs between two JSON documents, one readable line a field."""

from __future__ import annotations

import json
import re
from typing import Any

from rephaze.store.record_json import canonical_text

_ABSENT = object()
_SHOWN_CHARS = 60
"""A value longer than this is shown only where it differs."""
_NUM_SHOWN, _NUM_NAMED = 2, 5
"""Fields told with their values, and those after them told by name."""


def differences(before: Any, after: Any, path: str = "") -> list[str]:
    """One line for each field in which the documents differ, in the order of ``before``; empty if equal."""
    if _same(before, after):
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        lines = []
        for key in [*before, *(key for key in after if key not in before)]:
            step = f"{path}.{key}" if path else str(key)
            lines += differences(before.get(key, _ABSENT), after.get(key, _ABSENT), step)
        return lines
    if isinstance(before, list) and isinstance(after, list) and _is_worth_entering(before, after):
        lines = []
        if len(before) != len(after):
            lines.append(f"{path}: {len(before)} entries in the run, {len(after)} now")
        for position, (old, new) in enumerate(zip(before, after, strict=False)):
            lines += differences(old, new, f"{path}[{position}]")
        return lines or [f"{path}: differs"]
    return [f"{path}: {_shown(before, after)} in the run, {_shown(after, before)} now"]


def shortened(lines: list[str]) -> list[str]:
    """The first difference of the first fields, the other fields by name on the last line.

    Of a run file for something else dozens of fields differ, and of a list in one of them hundreds of entries.
    """
    first_of: dict[str, str] = {}
    for line in lines:
        first_of.setdefault(re.split(r"\[\d+\]|: ", line, maxsplit=1)[0], line)
    shown, others = list(first_of.values())[:_NUM_SHOWN], list(first_of)[_NUM_SHOWN:]
    if not others:
        return shown
    names = ", ".join(others[:_NUM_NAMED]) + (", ..." if len(others) > _NUM_NAMED else "")
    return [*shown[:-1], f"{shown[-1]}; and {len(others):,} more: {names}"]


def _same(before: Any, after: Any) -> bool:
    if before is _ABSENT or after is _ABSENT:
        return before is after
    # As text: True equals 1 in Python, but not as a setting.
    return canonical_text(before) == canonical_text(after)


def _is_worth_entering(before: list[Any], after: list[Any]) -> bool:
    is_long = max(len(json.dumps(before)), len(json.dumps(after))) > _SHOWN_CHARS
    return is_long or any(isinstance(item, dict | list) for item in [*before, *after])


def _shown(value: Any, other: Any) -> str:
    if value is _ABSENT:
        return "absent"
    text, against = json.dumps(value, ensure_ascii=False), json.dumps(other, default=str, ensure_ascii=False)
    if len(text) <= _SHOWN_CHARS:
        return text
    # Long texts often share their beginning: show from shortly before the first difference.
    pairs = enumerate(zip(text, against, strict=False))
    first = next((i for i, (a, b) in pairs if a != b), min(len(text), len(against)))
    start = max(0, min(first - 10, len(text) - _SHOWN_CHARS))
    end = start + _SHOWN_CHARS
    return ("..." if start else "") + text[start:end] + ("..." if end < len(text) else "")
