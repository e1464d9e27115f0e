"""A Dask scheduler and workers as separate processes on this machine, for tests."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

from tests.kits.processor_time import processor_s

_ADDRESS = re.compile(r"Scheduler at:\s+(tcp://\S+)")
_JOINED = "Registered to:"
_PATIENCE_S, _LEAST_WORK_S, _NUM_WAITS = 60.0, 0.2, 10
"""So long, and again while it works at coming up: others on the machine may leave it little."""


class DaskCluster:
    """One scheduler and workers of one thread each, logging to files."""

    def __init__(self, folder):
        self.folder = folder
        self.workers = []
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-jupyter")
        self.address = self._await("scheduler", self.scheduler, _ADDRESS).group(1)

    def add_worker(self):
        name = f"worker-{len(self.workers)}"
        process = self._start(name, self.address, "--nthreads", "1", "--no-nanny", module="worker")
        self.workers.append(process)
        self._await(name, process, re.compile(_JOINED))
        return process

    def _start(self, name, *arguments, module="scheduler"):
        # One death of a worker is enough for this scheduler to give a task up: the driver must insist.
        settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0", "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, "-m", f"distributed.cli.dask_{module}", *arguments, "--no-dashboard"]
        with (self.folder / f"{name}.log").open("w") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=os.environ | settings, stdout=log, stderr=subprocess.STDOUT
            )

    def _await(self, name, process, pattern):
        began, worked_s = time.monotonic(), 0.0
        deadline = began + _PATIENCE_S
        while True:
            text = (self.folder / f"{name}.log").read_text()
            if found := pattern.search(text):
                return found
            assert process.poll() is None, text
            if time.monotonic() > deadline:
                before_s, worked_s = worked_s, processor_s(process.pid)
                is_starved = worked_s > before_s + _LEAST_WORK_S
                assert is_starved, f"{name} does not come up: {text}"
                assert deadline < began + _NUM_WAITS * _PATIENCE_S, f"{name} has not come up: {text}"
                deadline += _PATIENCE_S
            time.sleep(0.05)

    def close(self):
        for process in [*self.workers, self.scheduler]:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()


@contextmanager
def dask_cluster(folder, num_workers):
    folder.mkdir(parents=True, exist_ok=True)
    cluster = DaskCluster(folder)
    try:
        for _ in range(num_workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.close()
