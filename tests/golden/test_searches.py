"""Four whole searches, bit for bit as they were recorded: no change of the code may move a number by accident.

What is compared is the whole answer (chip, plans, bound, certificate) and how each design that was taken up ended.
A change that means to move numbers says so in the changelog, raises the version of its estimate model, and records
anew: ``pytest tests/golden/test_searches.py --regen-golden``. ``_meta`` tells what the numbers were computed with:
the last bits may depend on the versions of numpy and numba. Values under a geometric mean go through numpy's exp
and log, whose last bit depends on the processor as well: those alone may differ by a few bits.
"""

import json
import math
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from rephaze.estimate.estimate_model import ESTIMATE_MODELS
from rephaze.search.cosearch import run_search
from rephaze.search.settings import resolve_settings
from rephaze.store.record_json import to_json
from rephaze.store.run_store import RunStore

GOLDEN = Path(__file__).with_name("searches.json")
SPACE = {
    "num_tensor_cores": [8, 16, 32],
    "tensor_width": [64, 128],
    "tensor_depth": [64, 128],
    "num_vector_cores": [2, 4],
    "global_buffer_mib": [32, 64],
}
STACKS_AND_LANES = {"vector_lanes": [1024, 2048], "num_hbm_stacks": [2, 4]}
VALUES = ("objective", "bound", "gap")
FEW_BITS = 4
TRAINING = {"microbatches": [1, 4, 16], "tp_degrees": [1, 2, 4]}
SEARCHES = {
    "coarse-throughput-mixtral": {
        "models": ("mixtral-8x7b",),
        "scenario": "coarse",
        "changes": {
            "space": SPACE | STACKS_AND_LANES,
            "training": TRAINING,
            "search": {"objective": "throughput"},
        },
    },
    "coarse-per-usd-worst-of-two": {
        "models": ("bert-large", "opt-350m"),
        "scenario": "coarse",
        "changes": {
            "space": SPACE | STACKS_AND_LANES,
            "training": TRAINING,
            "search": {"objective": "per-usd", "aggregate": "worst"},
        },
    },
    "paper-per-area-gpt2-xl": {
        "models": ("gpt2-xl",),
        "scenario": "paper",
        "changes": {"space": SPACE, "search": {"objective": "per-area"}},
    },
    "paper-per-watt-llama2-7b": {
        "models": ("llama2-7b",),
        "scenario": "paper",
        "changes": {
            "space": SPACE | {"num_tensor_cores": [8]},
            "training": TRAINING,
            "search": {"objective": "per-watt"},
        },
    },
}


def searched(name, folder):
    """The answer of one search by one worker, as a document; how long it took is nobody's result."""
    asked = SEARCHES[name]
    settings = resolve_settings(asked["models"], scenario=asked["scenario"], changes=asked["changes"])
    # As runs record it: what records got later, and has its default, is left out.
    result = to_json(run_search(settings, folder=folder, num_workers=1))
    del result["search_s"]
    with RunStore.read(folder) as store:
        evaluations = sorted(store.evaluations(), key=lambda item: item.design)
    ends = [[item.design, item.dropped_by, item.objective, item.bound] for item in evaluations]
    return json.loads(json.dumps(finite({"result": result, "evaluations": ends})))


def finite(value):
    """The document with infinities, which JSON lacks, as text; other floats read back as they were."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def lines(document):
    """One value a line: the text tells -0.0 from 0.0 and 1 from 1.0, and its difference is readable."""
    return json.dumps(document, indent=1, sort_keys=True).splitlines()


def of_any_processor(found, golden):
    """What was found, with the recorded value wherever a geometric mean is as near to it as processors are."""
    if isinstance(found, dict) and isinstance(golden, dict):
        return {key: of_any_processor(item, golden.get(key)) for key, item in found.items()}
    if isinstance(found, list) and isinstance(golden, list) and len(found) == len(golden):
        return [of_any_processor(one, other) for one, other in zip(found, golden, strict=True)]
    if isinstance(found, float) and isinstance(golden, float):
        return golden if abs(found - golden) <= FEW_BITS * math.ulp(golden) else found
    return found


def provenance():
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=GOLDEN.parent, capture_output=True, text=True, check=True
    )
    return {
        "commit": commit.stdout.strip(),
        "estimators": {model.name: model.version for model in ESTIMATE_MODELS.values()},
        "python": platform.python_version(),
        **{package: version(package) for package in ("numpy", "numba", "ortools")},
    }


def record(name, document):
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    known = {kept: golden[kept] for kept in SEARCHES if kept in golden}
    written = {"_meta": provenance()} | known | {name: document}
    GOLDEN.write_text(shown(written) + "\n")


def shown(golden):
    """One field a line and one design a line: a changed number is a changed line."""
    parts = [f'"_meta": {json.dumps(golden["_meta"], indent=1)}']
    for name in SEARCHES:
        if name in golden:
            result = json.dumps(golden[name]["result"], indent=1)
            ends = ",\n".join(json.dumps(end) for end in golden[name]["evaluations"])
            parts.append(f'"{name}": {{\n"result": {result},\n"evaluations": [\n{ends}\n]\n}}')
    return "{\n" + ",\n".join(parts) + "\n}"


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_gives_the_recorded_answer_to_the_last_bit(name, tmp_path, request):
    found = searched(name, tmp_path / "run")
    if request.config.getoption("--regen-golden"):
        record(name, found)
    golden = json.loads(GOLDEN.read_text())
    # Plans, chips and areas know no mean; objectives and bounds are those of the designs, too.
    if SEARCHES[name]["changes"]["search"].get("aggregate", "geomean") == "geomean":
        recorded = golden[name]
        found["evaluations"] = of_any_processor(found["evaluations"], recorded["evaluations"])
        valued = {key: of_any_processor(found["result"][key], recorded["result"][key]) for key in VALUES}
        found["result"] |= valued
    assert lines(found) == lines(golden[name]), f"recorded with {golden['_meta']}"


def test_only_a_few_bits_are_forgiven():
    value = 0.006489253240811805
    assert of_any_processor([1, "x", math.nextafter(value, 1)], [1, "x", value]) == [1, "x", value]
    assert of_any_processor([value * (1 + 1e-14)], [value]) != [value]
    assert of_any_processor({"design": 3}, {"design": 4}) == {"design": 3}


def test_the_record_was_made_by_these_estimators():
    meta = json.loads(GOLDEN.read_text())["_meta"]
    assert meta["estimators"] == {model.name: model.version for model in ESTIMATE_MODELS.values()}
