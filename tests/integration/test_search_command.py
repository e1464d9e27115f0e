"""``rephaze search`` and ``rephaze verify`` as a user runs them: limits, kills, resumes, tampering."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rephaze.store.run_store import RunStore
from tests.kits.command import rephaze
from tests.kits.long_hunt import examples
from tests.kits.old_runs import as_format

DATA = Path(__file__).parents[1] / "data"
REPHAZE = (sys.executable, "-c", "from rephaze.cli.main import run; run()")
SPACE = """
scenario = "coarse"
[search]
models = [{models}]
[space]
num_tensor_cores = [1, 2, 4, 8]
tensor_width = [32, 64]
tensor_depth = [64]
num_vector_cores = [2]
vector_lanes = [128, 512]
global_buffer_mib = [8]
num_hbm_stacks = [1, 2]
[cluster]
num_devices = {devices}
levels = [{{ num_devices = {devices}, bytes_per_s = 50e9, latency_s = 1e-6 }}]
[training]
global_batch = {batch}
microbatches = [1, 4]
tp_degrees = [1]
"""


def write_config(path, *, models=("tiny-gpt-fused.json.gz",), devices=8, batch=32):
    named = ", ".join(f'"{DATA / name}"' if name.endswith(".gz") else f'"{name}"' for name in models)
    path.write_text(SPACE.format(models=named, devices=devices, batch=batch))
    return path


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return write_config(tmp_path_factory.mktemp("config") / "run.toml")


def search(config, *arguments):
    done = rephaze("search", "--config", config, "--json", *arguments)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


@pytest.fixture(scope="module")
def undisturbed(config, tmp_path_factory):
    """A finished run, on one worker, and what it printed."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    code, answer, errors = search(config, "--out", folder, "--workers", 1)
    assert code == 0, errors
    assert answer["status"] == "optimal"
    return folder, answer


def timeless(answer):
    return {name: value for name, value in answer.items() if name not in ("search_s", "report")}


def records(folder):
    with RunStore.read(folder) as store:
        return {item.design: item for item in store.evaluations()}


def test_two_workers_give_the_very_same_answer(config, undisturbed, tmp_path):
    code, answer, _ = search(config, "--out", tmp_path / "two", "--workers", 2)
    assert code == 0
    assert timeless(answer) == timeless(undisturbed[1])
    assert records(tmp_path / "two") == records(undisturbed[0])


def test_the_report_marks_a_known_chip(undisturbed):
    page = Path(undisturbed[1]["report"]).read_text()
    assert ">known chips</button>" in page
    assert "<td>tpuv4</td>" in page


def test_designs_near_the_best_can_be_counted_later(config, undisturbed, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed[0], folder)
    code, counted, _ = search(config, "--out", folder, "--resume", "--workers", 1, "--count-within", 5)
    assert code == 0
    assert {n: counted[n] for n in ("objective", "chip", "plans")} == {
        n: undisturbed[1][n] for n in ("objective", "chip", "plans")
    }
    for name, (least, most) in counted["certificate"]["num_within"].items():
        before = undisturbed[1]["certificate"]["num_within"][name]
        assert before[0] <= least == most <= before[1]
    # What was settled counts in every later session, and is accounted for.
    code, again, _ = search(config, "--out", folder, "--resume", "--workers", 1)
    assert (code, timeless(again)) == (0, timeless(counted))
    assert rephaze("verify", folder, "--sample", 1).returncode == 0


def test_a_run_goes_on_without_its_settings_given_again(undisturbed, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed[0], folder)
    done = rephaze("search", "--out", folder, "--resume", "--workers", 1, "--json")
    assert done.returncode == 0, done.stderr
    assert timeless(json.loads(done.stdout)) == timeless(undisturbed[1])
    # A setting that is given has to come with its model, as ever.
    done = rephaze("search", "--out", folder, "--resume", "--scenario", "paper", "--json")
    assert done.returncode == 1
    assert "name at least one model" in done.stderr
    done = rephaze("search", "--out", tmp_path / "none", "--resume", "--json")
    assert done.returncode == 1
    assert str(tmp_path / "none") in done.stderr


def test_out_of_time_there_is_no_claim(config, undisturbed):
    code, answer, _ = search(config, "--time-limit", 0, "--workers", 1)
    assert code == 4
    assert (answer["status"], answer["chip"], answer["plans"]) == ("unknown", None, [])
    assert answer["reason"] == "stopped before a plan was found"
    assert answer["bound"] >= undisturbed[1]["objective"]
    certificate = answer["certificate"]
    # Nothing is solved: none is known to be near the best, and any may be.
    assert set(map(tuple, certificate["num_within"].values())) == {(0, certificate["num_designs"])}
    shown = rephaze("search", "--config", config, "--time-limit", 0, "--workers", 1)
    assert shown.returncode == 4
    assert f"any of {certificate['num_designs']} designs may have a plan" in " ".join(shown.stdout.split())


def test_the_answer_says_over_what_it_is_proven(config, undisturbed):
    certificate = undisturbed[1]["certificate"]
    assert "area up to 339.38 mm² (corrected model); no floor" in certificate["designs_scope"]
    assert "tp 1 where legal; microbatch 1, 4; recompute none, block, stage" in certificate["plans_scope"]
    assert certificate["num_unproven"] == 0
    shown = " ".join(rephaze("search", "--config", config, "--workers", 1).stdout.split())
    assert f"over {certificate['num_designs']} designs: {certificate['designs_scope']}" in shown
    assert f"and plans {certificate['plans_scope']}; every schedule that matters proven" in shown


def test_a_floor_is_told(tmp_path):
    path = write_config(tmp_path / "run.toml")
    path.write_text(path.read_text().replace("[space]", "[space]\narea_floor_fraction = 0.05"))
    code, answer, _ = search(path, "--workers", 1)
    assert code == 0
    assert "none below a floor of 16.97 mm² but single-core chips" in answer["certificate"]["designs_scope"]


def test_nothing_fits(tmp_path):
    config = write_config(tmp_path / "run.toml", models=("gpt3-175b",), devices=1)
    code, answer, _ = search(config, "--workers", 1)
    assert code == 3
    assert answer["status"] == "infeasible"
    assert "fits" in answer["reason"]
    certificate = answer["certificate"]
    assert certificate["num_infeasible"] == certificate["num_designs"]


@pytest.mark.parametrize("moment", ["recording", "starting workers", "solving"])
def test_ctrl_c_ends_with_the_best_so_far(config, undisturbed, tmp_path, moment):
    folder = tmp_path / "run"
    process = begin(config, folder, workers=2)
    wait_for(process, folder, 1 if moment == "solving" else 0)
    while moment == "starting workers" and len(group_members(process.pid)) < 4 and process.poll() is None:
        time.sleep(0.01)
    # As a terminal does: to all processes of the group.
    os.killpg(process.pid, signal.SIGINT)
    printed, errors = process.communicate(timeout=120)
    answer = json.loads(printed)
    assert "Traceback" not in errors
    assert answer["status"] in ("unknown", "feasible", "optimal")
    assert process.returncode == (0 if answer["chip"] else 4)
    if answer["chip"]:
        assert answer["objective"] <= undisturbed[1]["objective"] <= answer["bound"]
    code, resumed, _ = search(config, "--out", folder, "--resume", "--workers", 1)
    assert (code, timeless(resumed)) == (0, timeless(undisturbed[1]))


def begin(config, folder, workers=1, resume=False):
    command = [*REPHAZE, "search", "--config", config, "--json", "--out", folder, "--workers", workers]
    command += ["--resume"] if resume else []
    return subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(process, folder, num_evaluations):
    """Wait until the run has recorded so many designs (0: until there is a run), or has ended."""
    database = folder / "run.db"
    while process.poll() is None:
        if database.is_file():
            try:
                with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
                    found = connection.execute("SELECT count(*) FROM evaluations").fetchone()[0]
                connection.close()
                if found >= num_evaluations:
                    return
            except sqlite3.OperationalError:
                pass
        time.sleep(0.01)


@pytest.fixture(scope="module")
def long_config(tmp_path_factory):
    """Every design is solved: several batches to be killed in."""
    path = write_config(tmp_path_factory.mktemp("config") / "long.toml")
    path.write_text(path.read_text().replace("[search]", "[search]\nexhaustive = true"))
    return path


def test_killed_again_and_again_it_ends_with_the_same_answer(long_config, tmp_path):
    whole = tmp_path / "whole"
    code, want, errors = search(long_config, "--out", whole, "--workers", 1)
    assert code == 0, errors
    folder, moments, known = tmp_path / "run-0", random.Random(7), {}
    for kill in range(int(os.environ.get("REPHAZE_TEST_KILLS", examples(2, 4)))):
        if len(known) == len(records(whole)):  # all recorded: nothing is left to lose
            folder, known = tmp_path / f"run-{kill}", {}
        # By turns one worker and two; before and after something new is recorded.
        process = begin(long_config, folder, workers=1 + kill % 2, resume=True)
        wait_for(process, folder, len(known) + (kill // 2) % 2)
        time.sleep(moments.uniform(0, 0.5))
        process.kill()
        wait_until_all_ended(process)
        now = records(folder) if (folder / "run.db").is_file() else {}
        assert known.items() <= now.items(), "nothing recorded is lost or changed"
        known = now
    code, answer, errors = search(long_config, "--out", folder, "--resume", "--workers", 1)
    assert code == 0, errors
    assert timeless(answer) == timeless(want)
    assert records(folder) == records(whole)


def test_workers_of_a_killed_search_end_too(config, tmp_path):
    process = begin(config, tmp_path / "run", workers=2)
    wait_for(process, tmp_path / "run", 1)
    process.kill()
    wait_until_all_ended(process)


def wait_until_all_ended(process):
    """Wait for a killed search and everything it started; nothing may outlive it for long."""
    deadline = time.monotonic() + 60
    while members := set(group_members(process.pid)) - {process.pid}:
        assert time.monotonic() < deadline, f"still running: {members}"
        time.sleep(0.05)
    process.communicate()


def group_members(group):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def test_a_changed_configuration_is_refused_with_the_difference(undisturbed, tmp_path):
    changed = write_config(tmp_path / "run.toml", batch=64)
    code, answer, errors = search(changed, "--out", undisturbed[0], "--resume", "--workers", 1)
    assert (code, answer) == (1, None)
    assert "global_batch" in errors
    assert "32" in errors
    assert "64" in errors


def test_a_changed_model_file_is_refused(tmp_path):
    model = tmp_path / "model.json.gz"
    shutil.copy(DATA / "tiny-gpt-fused.json.gz", model)
    config = tmp_path / "run.toml"
    config.write_text(SPACE.format(models=f'"{model}"', devices=8, batch=32))
    assert search(config, "--out", tmp_path / "run", "--workers", 1, "--time-limit", 0)[0] == 4
    shutil.copy(DATA / "tiny-llama-fused.json.gz", model)
    code, _, errors = search(config, "--out", tmp_path / "run", "--workers", 1, "--resume")
    assert code == 1
    assert "model.json.gz" in errors


def test_two_searches_on_one_folder_are_refused(config, tmp_path):
    first = begin(config, tmp_path / "run")
    try:
        wait_for(first, tmp_path / "run", 0)
        first.send_signal(signal.SIGSTOP)
        code, answer, errors = search(config, "--out", tmp_path / "run", "--resume", "--workers", 1)
        assert (code, answer) == (1, None)
        assert "another" in errors
    finally:
        first.kill()
        first.communicate()


def test_a_sound_run_is_verified(undisturbed):
    done = rephaze("verify", undisturbed[0], "--sample", 2, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0, [check for check in found["checks"] if not check["passed"]]
    assert found["holds"]
    assert {"area", "certificate", "bounds", "dropped by layer bounds"} <= {c["name"] for c in found["checks"]}


def edit_result(folder, change):
    with sqlite3.connect(folder / "run.db") as connection:
        result = json.loads(connection.execute("SELECT result FROM result").fetchone()[0])
        change(result)
        connection.execute("UPDATE result SET result = ?", (json.dumps(result),))
        # A careful forger changes what stands in columns of its own, too.
        columns = (result["status"], result["objective"], result["bound"])
        connection.execute("UPDATE result SET status = ?, objective = ?, bound = ?", columns)
    connection.close()


def edit_evaluations(folder, change):
    with sqlite3.connect(folder / "run.db") as connection:
        for design, text in connection.execute("SELECT design, evaluation FROM evaluations").fetchall():
            evaluation = json.loads(text)
            change(evaluation)
            connection.execute(
                "UPDATE evaluations SET evaluation = ? WHERE design = ?", (json.dumps(evaluation), design)
            )
            if evaluation["plans"]:
                columns = (evaluation["objective"], evaluation["bound"], design)
                connection.execute("UPDATE evaluations SET objective = ?, bound = ? WHERE design = ?", columns)
    connection.close()


def faster(plan):
    plan["batch_s"] /= 2
    plan["samples_per_s"] *= 2


def claim_faster_plans(folder):
    def change(record):
        for plan in record["plans"]:
            faster(plan)
        if record["plans"]:
            record["objective"] *= 2
            record["bound"] *= 2

    edit_evaluations(folder, change)
    edit_result(folder, change)


def claim_smaller_area(folder):
    edit_result(folder, lambda result: result.update(area_um2=result["area_um2"] * 0.9))


def claim_more_dropped(folder):
    edit_result(folder, lambda result: result["certificate"]["num_dropped_by_bound"].update({"device time": 99}))


def claim_another_bound(folder):
    """The sum is right, the bounds are not."""

    def change(result):
        dropped = result["certificate"]["num_dropped_by_bound"]
        dropped["device time"] += 1
        dropped["layer bounds"] -= 1

    edit_result(folder, change)


def record_another_bound(folder):
    with sqlite3.connect(folder / "run.db") as connection:
        ids = {name: number for number, name in connection.execute("SELECT id, name FROM bound_names")}
        layers = (ids["layer bounds"],)
        (design,) = connection.execute("SELECT min(design) FROM bounds WHERE removed_by = ?", layers).fetchone()
        connection.execute("UPDATE bounds SET removed_by = ? WHERE design = ?", (ids["device time"], design))
        assert connection.total_changes == 1
    connection.close()


def claim_open_designs(folder):
    """As if the search had been stopped: fewer dropped, more open."""

    def change(result):
        result["certificate"]["num_dropped_by_bound"]["layer bounds"] -= 1
        result["certificate"]["num_open"] += 1

    edit_result(folder, change)


def forget_the_best(folder):
    """Call the best design dropped, as a wrong bound would have, and another one the answer."""
    with RunStore.read(folder) as store:
        found = {item.design: item for item in store.evaluations() if item.is_exact}
        best = store.result().design
    runner_up = max((item for d, item in found.items() if d != best), key=lambda item: item.objective)
    with sqlite3.connect(folder / "run.db") as connection:
        connection.row_factory = sqlite3.Row
        row = connection.execute("SELECT * FROM designs WHERE design = ?", (runner_up.design,)).fetchone()
        chip = dict(row)
        text = connection.execute(
            "SELECT evaluation FROM evaluations WHERE design = ?", (runner_up.design,)
        ).fetchone()[0]
        connection.execute("DELETE FROM evaluations WHERE design = ?", (best,))
    connection.close()
    evaluation = json.loads(text)

    def change(result):
        result.update(
            {name: evaluation[name] for name in ("design", "objective", "plans")},
            bound=evaluation["objective"],
            area_um2=chip["area_um2"],
        )
        result["chip"].update({name: chip[name] for name in result["chip"] if name in chip})
        result["certificate"]["num_solved_exactly"] -= 1
        result["certificate"]["num_dropped_by_bound"]["layer bounds"] += 1

    edit_result(folder, change)


@pytest.mark.parametrize(
    ("tamper", "failed"),
    [
        (claim_faster_plans, "plan"),
        (claim_smaller_area, "area"),
        (claim_more_dropped, "certificate"),
        (claim_another_bound, "certificate"),
        (record_another_bound, "certificate"),
        (claim_open_designs, "certificate"),
        (forget_the_best, "bounds"),
    ],
)
def test_a_tampered_run_fails(undisturbed, tmp_path, tamper, failed):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed[0], folder)
    tamper(folder)
    done = rephaze("verify", folder, "--sample", 1, "--json")
    assert done.returncode == 1
    names = [check["name"] for check in json.loads(done.stdout)["checks"] if not check["passed"]]
    assert any(name.endswith(failed) for name in names), names


def test_a_run_recorded_before_open_designs_were_counted_is_still_verified(undisturbed, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed[0], folder)

    def as_it_was(result):
        certificate = result["certificate"]
        del certificate["num_open"]
        # Then the bound was named that the search happened to look at.
        certificate["num_dropped_by_bound"]["device time"] -= 1
        certificate["num_dropped_by_bound"]["layer bounds"] += 1

    as_format(folder, 3)
    edit_result(folder, as_it_was)
    assert rephaze("verify", folder, "--sample", 0).returncode == 0
    edit_result(folder, lambda result: result["certificate"].update(num_infeasible=5))
    assert rephaze("verify", folder, "--sample", 0).returncode == 1


def test_a_time_limit_holds_on_a_real_model(tmp_path):
    """The bounds of its first designs alone would take longer."""
    began = time.monotonic()
    done = rephaze("search", "t5-large", "--time-limit", 5, "--workers", 1, "--json", "--out", tmp_path / "run")
    answer = json.loads(done.stdout)
    assert answer["search_s"] < 5 + 5, done.stderr
    # Starting Python and writing the page come on top.
    assert time.monotonic() - began < 60
    assert answer["status"] in ("unknown", "feasible")
    certificate = answer["certificate"]
    assert certificate["num_open"] > 0
    assert certificate["num_designs"] == (
        certificate["num_solved_exactly"]
        + certificate["num_infeasible"]
        + sum(certificate["num_dropped_by_bound"].values())
        + certificate["num_open"]
    )


def test_a_run_without_an_answer_cannot_be_verified(config, tmp_path):
    process = begin(config, tmp_path / "run")
    wait_for(process, tmp_path / "run", 0)
    process.kill()
    process.communicate()
    done = rephaze("verify", tmp_path / "run")
    assert done.returncode == 1
    assert "no answer yet" in done.stderr.replace("\n", " ") or "holds no run yet" in done.stderr


def test_a_script_without_a_main_guard_can_have_workers(tmp_path):
    script = tmp_path / "script.py"
    few = {"num_tensor_cores": [2, 4], "tensor_width": [64], "tensor_depth": [64], "num_vector_cores": [2]}
    few |= {"vector_lanes": [128], "global_buffer_mib": [8], "num_hbm_stacks": [1]}
    script.write_text(
        "import rephaze\n"
        f"found = rephaze.explore({str(DATA / 'tiny-gpt-fused.json.gz')!r}, scenario='coarse', num_workers=2,\n"
        f"    changes={{'space': {few!r}, 'training': {{'microbatches': [1], 'tp_degrees': [1]}}}})\n"
        "print(found.status)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "optimal\n"), done.stderr
    assert "Traceback" not in done.stderr
