"""Ways to disturb a search, each one a story that must end with the undisturbed answer."""

import random
import resource
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.integration.dask_cluster import DaskCluster
from tests.soak.searches import Search, SoakError, check_rows, ended

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP)
MOST_DISTURBANCES = 5
STOPPED_S = 1.0


def killed(search: Search, run: Path, draw: random.Random) -> list[str]:
    """Killed, terminated, interrupted, or stopped and continued at random moments, until it is let finish."""
    done = []
    for _ in range(draw.randint(2, MOST_DISTURBANCES)):
        process = search.start(run, workers=draw.choice((1, 2)))
        after_s = draw.uniform(0.1, 1.1 * search.took_s)
        with suppress(subprocess.TimeoutExpired):
            process.wait(after_s)
        if process.poll() is None:
            chosen = draw.choice(SIGNALS)
            process.send_signal(chosen)
            done.append(f"{chosen.name} after {after_s:.1f} s")
            if chosen is signal.SIGSTOP:
                time.sleep(STOPPED_S)
                process.send_signal(signal.SIGCONT)
        else:
            done.append("ended by itself")
        ended(process)
        check_rows(run)
    search.check(run, search.finished(search.start(run, workers=draw.choice((1, 2)))))
    return done


def two_writers(search: Search, run: Path, draw: random.Random) -> list[str]:
    """A second search on the folder of one that goes on."""
    first = search.start(run, workers=1)
    while not (run / "run.lock").is_file() and first.poll() is None:
        time.sleep(0.05)
    time.sleep(draw.uniform(0.0, 1.0))
    # Held while the other comes: on a busy machine it would have ended by then.
    first.send_signal(signal.SIGSTOP)
    try:
        code, _, errors = ended(search.start(run, workers=1))
    finally:
        first.send_signal(signal.SIGCONT)
    answer = search.finished(first)
    done = "came too late"
    if code != 0:
        if code != 1 or "another search" not in errors or len(errors.strip().splitlines()) > 1:
            raise SoakError(f"a second writer ended with {code}: {errors[-400:]}")
        done = "refused"
    search.check(run, answer)
    return [f"second writer {done}"]


def full_disk(search: Search, run: Path, draw: random.Random) -> list[str]:
    """A disk, or a limit on a file's size, that is reached while recording; then there is room again."""
    room = draw.randint(60, 400) * 1024
    done = []
    with small_disk(run.parent / f"{run.name}-disk", room) as disk:
        if disk is not None:
            inside = disk / "run"
            code, _, errors = ended(search.start(inside, workers=1))
            done.append(f"disk of {room // 1024} KiB: {_told(code, errors)}")
            subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
            check_rows(inside)
            search.check(inside, search.finished(search.start(inside, workers=1)))
    limit = draw.randint(40, 300) * 1024

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    code, _, errors = ended(search.start(run, workers=1, preexec_fn=limited))
    done.append(f"files of {limit // 1024} KiB at most: {_told(code, errors)}")
    check_rows(run)
    search.check(run, search.finished(search.start(run, workers=1)))
    return done


def read_only(search: Search, run: Path, draw: random.Random) -> list[str]:
    """A folder that can be read alone from some moment on; then it can be written again."""
    with small_disk(run.parent / f"{run.name}-disk", 64 * 1024 * 1024) as disk:
        if disk is None:
            return ["no disk can be mounted here: left out"]
        inside = disk / "run"
        process = search.start(inside, workers=1)
        with suppress(subprocess.TimeoutExpired):
            process.wait(draw.uniform(0.5, search.took_s))
        process.kill()
        ended(process)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        code, _, errors = ended(search.start(inside, workers=1))
        told = _told(code, errors)
        check_rows(inside)
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        search.check(inside, search.finished(search.start(inside, workers=1)))
    return [f"read-only: {told}"]


def _told(code: int, errors: str) -> str:
    """How a search that could not write ended: with its answer, or one line."""
    if code == 0:
        return "finished all the same"
    if code not in (1, 4) or not errors.strip():
        raise SoakError(f"a search that cannot write ended with {code}: {errors[-400:]}")
    return "told"


def dask(search: Search, run: Path, draw: random.Random) -> list[str]:
    """Workers of a Dask cluster killed and added, then its scheduler killed; then another cluster."""
    done = []
    folder = run.parent / f"{run.name}-cluster"
    folder.mkdir()
    cluster = DaskCluster(folder)
    try:
        cluster.add_worker()
        process = search.start(run, workers=1, dask=cluster.address)
        for _ in range(draw.randint(1, 3)):
            with suppress(subprocess.TimeoutExpired):
                process.wait(draw.uniform(0.5, search.took_s))
            event = draw.choice(("worker killed", "worker added"))
            if event == "worker killed":
                draw.choice(cluster.workers).kill()
            # Somebody must be there to go on.
            cluster.add_worker()
            done.append(event)
        if draw.random() < 0.5 and process.poll() is None:
            cluster.scheduler.kill()
            done.append("scheduler killed")
            code, _, errors = ended(process)
            if code not in (0, 1):
                raise SoakError(f"without its scheduler a search ended with {code}: {errors[-400:]}")
            check_rows(run)
            process = search.start(run, workers=1)
        search.check(run, search.finished(process))
    finally:
        cluster.close()
    return done


@contextmanager
def small_disk(folder: Path, room_bytes: int):
    """A disk of its own, if this process may mount one, else None."""
    folder.mkdir(parents=True)
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={room_bytes}", "tmpfs", str(folder)]
    is_mounted = (
        shutil.which("mount") is not None and subprocess.run(mounting, capture_output=True).returncode == 0
    )
    try:
        yield folder if is_mounted else None
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


EPISODES = {
    "killed": killed,
    "two writers": two_writers,
    "full disk": full_disk,
    "read-only": read_only,
    "dask": dask,
}
