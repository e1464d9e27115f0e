"""Searches started from the browser: processes of their own, one at a time, that can be stopped and may die."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from io import SEEK_END
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO

from rephaze.errors import SpecError
from rephaze.types.checks import check_choice
from rephaze.types.search import Objective

SCENARIOS = ("default", "coarse", "paper")
MOST_WORDS = 2000
"""Bytes from the end of what a search said that are looked at."""


class Searches:
    """Those of this server."""

    def __init__(self) -> None:
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._errors: dict[str, IO[bytes]] = {}
        self._asked_to_stop: set[str] = set()
        self._lock = Lock()

    def start(self, name: str, folder: Path, asked: Mapping[str, str]) -> None:
        """Start a search that records into a folder; ``SpecError`` if what is asked makes no sense."""
        arguments = search_arguments(asked)
        with self._lock:
            if any(process.poll() is None for process in self._running.values()):
                raise SpecError("search", name, "another search is running", "stop it, or wait")
            command = [sys.executable, "-m", "rephaze", "search", *arguments, "--out", str(folder), "--json"]
            self._errors[name] = errors = TemporaryFile()  # noqa: SIM115 -- open as long as the server is
            self._running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
            )

    def stop(self, name: str) -> bool:
        """End a search with the best it has, as Ctrl-C does; whether there was one."""
        process = self._running.get(name)
        if process is None or process.poll() is not None:
            return False
        process.send_signal(signal.SIGINT)
        self._asked_to_stop.add(name)
        return True

    def state(self, name: str) -> str:
        """How it stands, in a word; empty of runs not started here.

        ``running``, ``stopping``, ``stopped``, ``ended``, ``failed`` or ``killed``.
        """
        process = self._running.get(name)
        if process is None:
            return ""
        code = process.poll()
        if code is None:
            return "stopping" if name in self._asked_to_stop else "running"
        # 3 and 4 are answers: nothing fits, or stopped before anything was found.
        if code in (0, 3, 4):
            return "stopped" if name in self._asked_to_stop else "ended"
        return "killed" if code < 0 else "failed"

    def last_words(self, name: str) -> str:
        """The last line that a search wrote on standard error; empty if there is none."""
        errors = self._errors.get(name)
        if errors is None:
            return ""
        end = errors.seek(0, SEEK_END)
        errors.seek(max(0, end - MOST_WORDS))
        lines = errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def stop_all(self) -> None:
        """When the server ends."""
        for name in list(self._running):
            self.stop(name)
        for errors in self._errors.values():
            errors.close()
        self._errors.clear()


def search_arguments(asked: Mapping[str, str]) -> list[str]:
    """Arguments of ``rephaze search``; models are of the zoo alone, so that no form names a file."""
    from rephaze.api.models import list_models

    models = asked.get("models", "").replace(",", " ").split()
    if not models:
        raise SpecError("models", "", "must name a model", "for example gpt2-xl")
    for model in models:
        check_choice("models", model, list_models())
    scenario = asked.get("scenario") or "default"
    check_choice("scenario", scenario, SCENARIOS)
    objective = asked.get("objective") or str(Objective.THROUGHPUT)
    check_choice("objective", objective, [str(one) for one in Objective])
    arguments = [*models, "--scenario", scenario, "--objective", objective]
    for field, option in (("time_limit", "--time-limit"), ("area_limit_mm2", "--area-limit-mm2")):
        if text := asked.get(field, "").strip():
            try:
                number = float(text)
            except ValueError:
                raise SpecError(field, text, "must be a number") from None
            if not 0 < number < 1e9:
                raise SpecError(field, text, "must be above 0")
            arguments += [option, repr(number)]
    return arguments
