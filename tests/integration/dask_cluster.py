"""A Dask scheduler and workers as separate processes on this machine, for tests."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

_ADDRESS = re.compile(r"Scheduler at:\s+(tcp://\S+)")
_JOINED = "Registered to:"


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
        deadline = time.monotonic() + 60
        while True:
            text = (self.folder / f"{name}.log").read_text()
            if found := pattern.search(text):
                return found
            assert process.poll() is None, text
            assert time.monotonic() < deadline, text
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
