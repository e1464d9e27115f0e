"""When long work must end early: at a moment of the clock, or when asked to.

Work that is cut so has no result: what it would have written to a memo or a record must stay unwritten, since the
same work, given the time, would end otherwise.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class StoppedError(Exception):
    """Work was cut by its ``StopSignal``; no error of anyone's, so it never reaches a user."""


class StopSignal:
    """Says when to stop; once it has said so, it stays with it.

    Args:
        deadline_s: Of ``time.perf_counter``, which all processes of a machine share.
        is_asked: Whether somebody wants the work to end now.
    """

    def __init__(self, deadline_s: float = math.inf, is_asked: Callable[[], bool] = lambda: False) -> None:
        self.deadline_s = deadline_s
        self._is_asked = is_asked
        self._is_over = False

    def is_over(self) -> bool:
        """Whether the work must end."""
        if not self._is_over:
            self._is_over = time.perf_counter() >= self.deadline_s or self._is_asked()
        return self._is_over

    def time_left_s(self) -> float:
        """Wall time to the deadline, 0 when the work must end."""
        return 0.0 if self.is_over() else max(self.deadline_s - time.perf_counter(), 0.0)

    def check(self) -> None:
        """Raise ``StoppedError`` if the work must end."""
        if self.is_over():
            raise StoppedError

    def later(self, grace_s: float) -> StopSignal:
        """The same with a deadline later by so much."""
        return StopSignal(self.deadline_s + grace_s, self._is_asked)


UNSTOPPED = StopSignal()
"""Never stops."""
