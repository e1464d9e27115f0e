"""Everything rephaze raises on purpose.

    RephazeError
    ├── SpecError (ValueError)   a field the user gave: names field, value, rule and fix
    ├── FileError (ValueError)   a file that cannot be read as what it should be
    ├── UnsupportedError         a model, operator or graph outside what is handled; lists all of it at once
    ├── MissingExtraError        an optional dependency is needed for this call
    └── RunError                 a run folder that cannot be made, opened, written or continued

Infeasible is a result with a reason, never an exception. Anything else that escapes is our own bug.
"""

from __future__ import annotations

from typing import Any


class RephazeError(Exception):
    """Base of all errors meant for users; its text is one line."""


class SpecError(RephazeError, ValueError):
    """A value that breaks a rule, told as field, value, rule and fix.

    >>> str(SpecError("clock_hz", 1.05e6, "must be at least 10 MHz", "give hertz, for example 1.05e9"))
    'clock_hz is 1050000.0: must be at least 10 MHz; give hertz, for example 1.05e9'
    """

    def __init__(self, field: str, value: Any, rule: str, fix: str = "") -> None:
        self.field, self.value, self.rule, self.fix = field, value, rule, fix
        super().__init__(f"{field} is {_shown(value)}: {rule}" + (f"; {fix}" if fix else ""))


class FileError(RephazeError, ValueError):
    """A file that is missing, unreadable, or not of the format it should be."""


class UnsupportedError(RephazeError):
    """Something outside what rephaze handles; the message lists all of it, with counts."""


class MissingExtraError(RephazeError):
    """An optional dependency is not installed; the message names the extra to install."""


class RunError(RephazeError):
    """A run folder that cannot be made, opened, written or continued; the message names folder and fix."""


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."
