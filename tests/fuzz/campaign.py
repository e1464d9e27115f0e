"""Case after case from one seed: what went wrong, told once for each kind."""

import os
import random
import re
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.cases import Case, draw, write_sources
from tests.fuzz.harness import Outcome, call

DEADLINE_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One case that ended as none may."""

    kind: str
    seed: str
    case: Case
    detail: str

    def __str__(self) -> str:
        called = " ".join(map(repr, self.case.args))
        return f"{self.kind}\n  seed {self.seed}\n  rephaze {called}\n  {self.case.how}\n{self.detail}"


@dataclass(slots=True)
class Tally:
    """Of a campaign."""

    num_cases: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    slowest_s: float = 0.0
    """Of the processor's time."""


def run_cases(
    seed: int, num_cases: int, *, first: int = 0, run: Path | None = None, until: float = float("inf")
) -> Tally:
    """So many cases, or as many as there is time for; the same for the same seed.

    Args:
        seed: Decides every case, together with its number.
        num_cases: How many.
        first: Number of the first of them.
        run: A recorded run to break copies of.
        until: When to stop, in ``time.monotonic`` seconds.
    """
    tally = Tally()
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="rephaze-fuzz-") as root:
        folder = Path(root) / "case"
        folder.mkdir()
        write_sources(folder, run)
        sound = _contents(folder)
        try:
            os.chdir(folder)
            for number in range(first, first + num_cases):
                if time.monotonic() > until:
                    break
                _run_one(f"{seed}:{number}", folder, run is not None, tally)
                _restore(folder, sound)
        finally:
            os.chdir(before)
    return tally


def _restore(folder: Path, sound: dict[str, bytes]) -> None:
    """The folder as it was: what was changed, written again, what was added, removed."""
    for path in sorted(folder.rglob("*"), reverse=True):
        name = str(path.relative_to(folder))
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()) and not any(Path(one).is_relative_to(name) for one in sound):
                path.rmdir()
        elif name not in sound:
            path.unlink()
    for name, content in sound.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)


def _run_one(seed: str, folder: Path, has_run: bool, tally: Tally) -> None:
    case = draw(random.Random(seed), folder, has_run)
    held = _contents(folder)
    began = time.process_time()
    found = call(case.args, DEADLINE_S)
    tally.slowest_s = max(tally.slowest_s, time.process_time() - began)
    tally.num_cases += 1
    tally.codes[found.code] += 1
    for kind, detail in _wrong(case, found, held, _contents(folder)):
        tally.findings.append(Finding(kind=kind, seed=seed, case=case, detail=detail))


def _wrong(case: Case, found: Outcome, before: dict[str, bytes], after: dict[str, bytes]) -> list[tuple[str, str]]:
    if found.is_late:
        return [(f"hang: {case.args[0]}", found.trace[-1500:])]
    if found.trace:
        return [(f"traceback: {_place(found.trace)}", found.trace[-1500:])]
    wrong = []
    if found.code not in range(5):
        wrong.append((f"exit code {found.code}", found.err[-300:]))
    for name, text in (("stdout", found.out), ("stderr", found.err)):
        raw = re.search(r"[^\n]", "".join(c for c in text if not c.isprintable() and c != "\n"))
        if raw:
            wrong.append((f"raw {raw.group()!a} on {name}: {case.args[0]}", text[:300]))
    if found.code == 0 and case.is_nonsense:
        wrong.append(
            (f"nonsense answered: {case.args[0]}, {re.sub(r'[0-9]+', 'N', case.how)[:60]}", found.out[:300])
        )
    figure = re.search(r"[^\w.\"'](inf|nan)\b", found.out)
    # Other tools' formats may say inf; names in tables may be anything.
    is_ours = case.args[0] not in ("export", "validate", "calibrate") and "--to" not in case.args
    if found.code == 0 and figure and is_ours:
        shown = found.out[max(0, figure.start() - 80) : figure.end() + 40]
        wrong.append((f"a figure without a value: {case.args[0]}", shown))
    # What does not hold is the answer of verify, not an error.
    is_told = "--json" in case.args or (case.args[0] == "verify" and " fail" in found.out)
    if found.code in (1, 2) and not found.err.strip() and not is_told:
        wrong.append((f"no word on an error: {case.args[0]}", found.out[-300:]))
    if "error: cannot go on: " in found.err:
        wrong.append((f"an error of the machine that nobody foresaw: {case.args[0]}", found.err[-300:]))
    if re.search(r"\.py:\d+: \w*Warning: ", found.err):
        wrong.append((f"a warning of a library: {case.args[0]}", found.err[-600:]))
    # An export tells on stderr, line by line, what its format cannot say.
    elif found.code != 0 and len(found.err.strip().splitlines()) > 3:
        wrong.append((f"an error of many lines: {case.args[0]}", found.err[-600:]))
    for name, content in before.items():
        if after.get(name) != content and Path(name).parts[0] not in case.changes:
            wrong.append((f"input changed: {name}", f"{len(content)} bytes before"))
    return wrong


def _place(trace: str) -> str:
    frames = re.findall(r'File "[^"]*rephaze/([^"]+)", line (\d+), in (\w+)', trace)
    return f"{trace.strip().splitlines()[-1][:100]} at {':'.join(frames[-1][:2]) if frames else '?'}"


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
