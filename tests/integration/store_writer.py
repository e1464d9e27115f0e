"""What test_store_processes runs as processes of their own: searches that only record."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from rephaze.errors import RunError
from rephaze.store.opening import is_run
from rephaze.store.record_json import from_json
from rephaze.store.run_store import RunStore
from rephaze.types.run_record import BoundTable, RunVersions
from rephaze.types.search import Evaluation, SearchSettings

BATCH = 5
REASON = "r" * 600  # so that the log is folded in while we record
VERSIONS = RunVersions(estimator="1", rephaze="1", python="3", packages={})


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def evaluation(design):
    return Evaluation(
        design=design, is_exact=True, objective=design / 3, bound=design / 3, plans=(), reason=REASON
    )


def open_run(folder, settings):
    return (RunStore.resume if is_run(folder) else RunStore.create)(folder, settings, VERSIONS)


def record_forever(folder, settings):
    """Record until killed; after each batch says ``recorded N``: all designs below N are."""
    with open_run(folder, settings) as store:
        start = store.num_evaluations()
        while True:
            store.record_evaluations([evaluation(design) for design in range(start, start + BATCH)])
            start += BATCH
            say(f"recorded {start}")
            designs = np.arange(start - BATCH, start)
            bounds = BoundTable(
                model=None,
                names=("work",),
                design_c=designs,
                bound_c=designs / 3,
                removed_by_c=np.zeros(BATCH, dtype=np.int16),
            )
            store.record_bounds(bounds)


def start_recorders(folder, settings):
    """For each line of input, the path of a log: start ``record_forever`` with it, say its process, await it.

    Forked rather than started, since a second of imports would hide the moments worth killing at.
    """
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            with Path(line.strip()).open("w") as sys.stdout:
                record_forever(folder, settings)
        say(str(process))
        say(str(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])))


def hold(folder, settings):
    """Keep the run open, with a forked worker beside it, until killed."""
    with open_run(folder, settings):
        worker = os.fork()
        if worker == 0:
            time.sleep(60)
            os._exit(0)
        say(f"worker {worker}")
        time.sleep(60)


def fill_disk(mount, settings):
    """Record on a tiny file system until it is full, make room, continue; says what happened as JSON."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)], check=True)
    folder, ballast = mount / "run", mount / "ballast"
    ballast.write_bytes(b"x" * 400_000)
    num_recorded, message = 0, ""
    with RunStore.create(folder, settings, VERSIONS) as store:
        try:
            while True:
                batch = range(num_recorded, num_recorded + BATCH)
                store.record_evaluations([evaluation(design) for design in batch])
                num_recorded += BATCH
        except RunError as error:
            message = str(error)
    with RunStore.read(folder) as reader:
        num_found = reader.num_evaluations()
    ballast.unlink()
    with RunStore.resume(folder, settings, VERSIONS) as store:
        store.record_evaluations([evaluation(num_recorded)])
        found = [found == evaluation(design) for design, found in enumerate(store.evaluations())]
        integrity = store._connection.execute("PRAGMA integrity_check").fetchone()[0]
    facts = {"num_recorded": num_recorded, "message": message, "num_found": num_found}
    say(json.dumps(facts | {"num_at_end": len(found), "all_equal": all(found), "integrity": integrity}))


def fill_disk_at_once(mount, settings):
    """Try to make a run where there is no room at all; says the error."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)], check=True)
    (mount / "ballast").write_bytes(b"x" * 60_000)
    try:
        RunStore.create(mount / "run", settings, VERSIONS)
    except RunError as error:
        (mount / "ballast").unlink()
        say(json.dumps({"message": str(error)}))


def use_read_only(folder, settings):
    """Read, resume and create on a file system that takes no writes; says what happened as JSON."""
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
    with RunStore.read(folder / "run") as reader:
        facts = {"num_found": reader.num_evaluations()}
    with RunStore.read(folder / "killed") as reader:
        facts["num_found_killed"] = reader.num_evaluations()
    for name, attempt in (
        ("resume", lambda: RunStore.resume(folder / "run", settings, VERSIONS)),
        ("create", lambda: RunStore.create(folder / "new", settings, VERSIONS)),
        ("read_unfolded", lambda: RunStore.read(folder / "copied")),
    ):
        try:
            attempt()
        except RunError as error:
            facts[name] = str(error)
    say(json.dumps(facts))


if __name__ == "__main__":
    given = from_json(SearchSettings, json.loads(Path(sys.argv[2]).read_text()))
    globals()[sys.argv[1]](Path(sys.argv[3]), given)
