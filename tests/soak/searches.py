"""One small search by each method as a user runs it, what it must answer, and what of a run is compared."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rephaze.errors import RunError
from rephaze.store.run_store import RunStore
from rephaze.verify.run_check import verify_run
from tests.kits.processor_time import processor_s

DATA = Path(__file__).parents[1] / "data"
REPHAZE = (sys.executable, "-m", "rephaze")
CONFIG = """
scenario = "coarse"
[search]
models = ["{model}"]
method = "{method}"
[space]
num_tensor_cores = [1, 2, 4, 8]
tensor_width = [32, 64]
tensor_depth = [64]
num_vector_cores = [1, 2]
vector_lanes = [128, 512]
global_buffer_mib = [8]
num_hbm_stacks = [1, 2]
[cluster]
num_devices = 8
levels = [{{ num_devices = 8, bytes_per_s = 50e9, latency_s = 1e-6 }}]
[training]
global_batch = 32
microbatches = [1, 4]
tp_degrees = [1]
"""
METHODS = ("list", "boxes")
LONGEST_S = 300.0
"""Without work, or of work."""
LEAST_WORK_S = 1.0
"""Of a processor in that time, by which a search is not hanging but starved by others on the machine."""
STACKS_S = 20.0
"""To write where it is."""
NUM_WAITS = 6
"""A search that still has not ended then hangs, whatever it does."""


class SoakError(AssertionError):
    """Something differs from an undisturbed search, is lost, or ended in more than one line."""


@dataclass
class Search:
    """One search, to be run undisturbed once and disturbed many times."""

    method: str
    folder: Path
    """For everything about it."""
    answer: dict = field(default_factory=dict)
    records: dict = field(default_factory=dict)
    took_s: float = 0.0

    @property
    def config(self) -> Path:
        return self.folder / f"{self.method}.toml"

    def prepare(self) -> None:
        """Run it undisturbed."""
        text = CONFIG.format(model=DATA / "tiny-gpt-fused.json.gz", method=self.method)
        self.config.write_text(text)
        began = time.monotonic()
        process = self.start(self.folder / f"{self.method}-undisturbed", workers=1)
        self.answer = self.finished(process)
        self.took_s = time.monotonic() - began
        self.records = recorded(self.folder / f"{self.method}-undisturbed")

    def start(self, run: Path, *, workers: int, dask: str | None = None, **how) -> subprocess.Popen:
        """Begin the search, or go on with it; what it prints goes to files beside the configuration."""
        where = ("--dask", dask) if dask else ("--workers", str(workers))
        command = [
            *REPHAZE,
            "search",
            "--config",
            str(self.config),
            "--json",
            "--resume",
            "--out",
            str(run),
            *where,
        ]
        # Not beside the run: its disk may be full.
        out = tempfile.NamedTemporaryFile("w+", dir=self.folder, suffix=".out", delete=False)  # noqa: SIM115
        errors = tempfile.NamedTemporaryFile("w+", dir=self.folder, suffix=".err", delete=False)  # noqa: SIM115
        # One that hangs is made to say where.
        settings = os.environ | {"PYTHONFAULTHANDLER": "1"}
        process = subprocess.Popen(command, stdout=out, stderr=errors, env=settings, **how)
        process.files = (out, errors)
        return process

    def finished(self, process: subprocess.Popen) -> dict:
        """The answer of a search that is left alone from now on."""
        code, out, errors = ended(process)
        if code != 0:
            raise SoakError(f"{self.method}: exit code {code}: {errors[-400:]}")
        return json.loads(out)

    def check(self, run: Path, answer: dict) -> None:
        """Raise unless a run that was disturbed is as the undisturbed one, and verifies."""
        for name in compared(self.method):
            if answer[name] != self.answer[name]:
                raise SoakError(f"{self.method}: {name} is {answer[name]!r:.200}, not {self.answer[name]!r:.200}")
        if self.method == "list" and recorded(run) != self.records:
            raise SoakError("list: other designs were solved, or with other plans")
        failed = [check for check in verify_run(run, sample=0) if not check.passed]
        if failed:
            raise SoakError(f"{self.method}: verify fails: {[(check.name, check.detail) for check in failed]}")


def compared(method: str) -> tuple[str, ...]:
    """What of an answer is the same however often a search was stopped.

    By boxes the answer is; which box a bound closed depends on how good the answer was when it was looked at.
    """
    common = ("status", "objective", "bound", "gap", "chip", "area_um2", "plans", "num_designs", "reason")
    return (*common, "certificate") if method == "list" else common


def ended(process: subprocess.Popen) -> tuple[int, str, str]:
    """Exit code and what was printed, once a process has ended; one line of error at most."""
    code = wait_for(process)
    texts = []
    for file in process.files:
        file.seek(0)
        texts.append(file.read())
        file.close()
        Path(file.name).unlink()
    if "Traceback" in texts[1]:
        raise SoakError(f"a traceback: {texts[1][-2000:]}")
    return code, texts[0], texts[1]


def wait_for(process: subprocess.Popen) -> int:
    """Its exit code; raise if it hangs."""
    worked_s = 0.0
    for _ in range(NUM_WAITS):
        with suppress(subprocess.TimeoutExpired):
            return process.wait(LONGEST_S)
        before_s, worked_s = worked_s, processor_s(process.pid)
        if worked_s < before_s + LEAST_WORK_S or worked_s > LONGEST_S:
            break
    process.send_signal(signal.SIGABRT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STACKS_S)
    process.kill()
    process.wait()
    where = Path(process.files[1].name).read_text()[-3000:]
    raise SoakError(f"a search hangs: it has not ended after {worked_s:.1f} s of a processor; {where}")


def recorded(run: Path) -> dict:
    """Every evaluation of a run, by design."""
    with RunStore.read(run) as store:
        return {item.design: item for item in store.evaluations()}


def check_rows(run: Path) -> None:
    """Raise unless what is on record by now is whole; a run that has no record yet is."""
    try:
        with RunStore.read(run) as store:
            store.check_whole()
    except RunError as error:
        if not any(
            said in str(error) for said in ("holds no run yet", "not a run", "no such folder", "read-only")
        ):
            raise SoakError(f"after a disturbance: {error}") from error
