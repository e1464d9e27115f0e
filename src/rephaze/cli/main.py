"""The ``rephaze`` command: one application, one module a command."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from rephaze.cli import (
    area,
    bill,
    calibrate,
    chips,
    compare,
    estimate,
    evaluate,
    export,
    extract,
    graph,
    judge,
    models,
    pareto,
    place,
    report,
    reproduce,
    schedule,
    search,
    sensitivity,
    serve,
    space,
    support,
    validate,
    verify,
)
from rephaze.cli.output import ExitCode, MisuseError, stderr, styled
from rephaze.errors import RephazeError, SpecError

app = typer.Typer(
    name="rephaze",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find the accelerator chip, and the way to spread training over thousands of them, together.",
)

# In the order a user meets them: help lists them so.
_COMMANDS: tuple[ModuleType, ...] = (
    models,
    extract,
    graph,
    chips,
    support,
    area,
    bill,
    space,
    estimate,
    schedule,
    place,
    evaluate,
    search,
    judge,
    compare,
    sensitivity,
    reproduce,
    report,
    verify,
    validate,
    calibrate,
    export,
    pareto,
    serve,
)
for module in _COMMANDS:
    module.register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"rephaze {version('rephaze')}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find the accelerator chip, and the way to spread training over thousands of them, together."""


def run() -> None:
    """Entry point: user errors are one line on stderr, never a traceback."""
    _prepare_streams()
    try:
        sys.exit(app(standalone_mode=False) or ExitCode.FOUND)
    except _ClickError as error:
        usage = error.ctx.get_usage() if getattr(error, "ctx", None) else ""
        if usage:
            with suppress(OSError):
                stderr.print(" ".join(usage.split()), soft_wrap=True)
        _say_error(" ".join(error.format_message().split()))
        sys.exit(error.exit_code)
    except MisuseError as error:
        _say_error(str(error))
        sys.exit(ExitCode.USAGE)
    except SpecError as error:
        _say_error(str(error))
        sys.exit(ExitCode.USAGE if _is_of_option(error.field) else ExitCode.ERROR)
    except RephazeError as error:
        _say_error(str(error))
        sys.exit(ExitCode.ERROR)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not an error, but keep Python from saying so at exit.
        _drop_output()
        sys.exit(ExitCode.FOUND)
    except OSError as error:
        # Readers and writers of files say what they could not do; what is left is our own output: a full disk.
        _say_error(f"cannot go on: {error.strerror or error}")
        _drop_output()
        sys.exit(ExitCode.ERROR)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)


def _is_of_option(field: str) -> bool:
    """Whether an option of this call gave the field its value, not a file: a file's fields come with its name.

    Rules are checked where they hold, for options and files alike, by code that knows of neither.
    """
    name = "--" + field.removeprefix("--").partition(" ")[0].replace("_", "-")
    return name in {argument.partition("=")[0] for argument in sys.argv[1:]}


def _prepare_streams() -> None:
    """Output that can be written whatever the streams are: closed, or of an encoding without our characters."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the shell, as in ``>&-``
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  for the rest of the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Keep Python from failing once more at exit over output that cannot be written."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _say_error(message: str) -> None:
    with suppress(OSError):  # whoever does not hear it still gets the exit code
        stderr.print(styled(("error:", "bold red"), f" {message}"), soft_wrap=True)


_ClickError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
"""Typer brings its own click along, or uses the one that is there; this is the base of its errors in both."""
