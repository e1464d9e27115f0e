"""The command line in this process: one call, its exit code and what it printed, under a deadline."""

import io
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from typing import Any


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


@cache
def commands() -> Any:
    """Typer's own object for the application: made once, since that takes longer than most calls."""
    import typer

    from rephaze.cli.main import app

    return typer.main.get_command(app)


def call(args: Sequence[str], deadline_s: float = 60.0) -> Outcome:
    """Run ``rephaze ARGS`` here."""
    from rephaze.cli.main import run

    # As a shell gives them: text that is no UTF-8 cannot be written to them.
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True, newline="") for _ in range(2))
    before, sys.argv = sys.argv, ["rephaze", *args]
    code, trace, is_late = 0, "", False
    try:
        with redirect_stdout(out), redirect_stderr(err), _prepared(), _deadline(deadline_s):
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
    told, said = (stream.buffer.getvalue().decode("utf-8", "surrogatepass") for stream in (out, err))  # type: ignore[attr-defined]
    return Outcome(code=code, out=told, err=said, trace=trace, is_late=is_late)


@contextmanager
def _prepared() -> Iterator[None]:
    """Commands as they are, found without making them again, and a server that is told to serve nothing."""
    import typer

    from rephaze.serve import app as serving

    made = commands()
    make, serve = typer.main.get_command, serving.run_server
    typer.main.get_command, serving.run_server = lambda _app: made, lambda _server, _socket: None  # type: ignore[assignment]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # a user meets each for the first time
            yield
    finally:
        typer.main.get_command, serving.run_server = make, serve


@contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    def ring(_signal: int, _frame: object) -> None:
        raise TooLongError

    # Of the processor's time, since others may hold the machine; the clock ends what sleeps.
    timers = ((signal.SIGPROF, signal.ITIMER_PROF, seconds), (signal.SIGALRM, signal.ITIMER_REAL, 10 * seconds))
    before = [signal.signal(number, ring) for number, _, _ in timers]
    for _, timer, limit_s in timers:
        signal.setitimer(timer, limit_s)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)
