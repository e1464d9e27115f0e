"""The command line in this process: one call, its exit code and what it printed, under a deadline."""

import io
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass


class TooLongError(BaseException):
    """The deadline is over; no handler of ours may take it for its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a call left behind."""

    code: int
    out: str
    err: str
    trace: str = ""
    """Of what escaped; empty if nothing did."""
    is_late: bool = False


def call(args: Sequence[str], deadline_s: float = 60.0) -> Outcome:
    """Run ``rephaze ARGS`` here."""
    from rephaze.cli.main import run

    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["rephaze", *args]
    code, trace, is_late = 0, "", False
    try:
        with redirect_stdout(out), redirect_stderr(err), _deadline(deadline_s):
            run()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except TooLongError:
        code, is_late = -1, True
        trace = traceback.format_exc()
    except BaseException:
        code, trace = -1, traceback.format_exc()
    finally:
        sys.argv = before
    return Outcome(code=code, out=out.getvalue(), err=err.getvalue(), trace=trace, is_late=is_late)


@contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    def ring(_signal: int, _frame: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
