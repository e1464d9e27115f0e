"""Co-search: whole spaces proven, each in a fresh process with nothing remembered but compiled kernels.

Run with ``make bench``, or this file alone: ``pytest benchmarks/bench_search.py``. The first of all runs on a
machine also compiles the kernels; ``test_kernels`` shows what that takes.
"""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

REPHAZE = Path(sys.executable).with_name("rephaze")
SCENARIOS = ("paper", "coarse", "default")
NINE = (
    "opt-350m", "bert-large", "gpt2-xl", "llama2-7b", "megatron-bert", "megatron-gpt2-xl", "megatron-gpt2-2.5b",
    "megatron-gpt2-8.3b", "gpt3-175b",
)  # fmt: skip


def search(scenario, *models):
    options = ["--scenario", scenario, "--workers", "2", "--json"]
    done = subprocess.run([str(REPHAZE), "search", *models, *options], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def proven(benchmark, scenario, *models):
    found = benchmark.pedantic(search, (scenario, *models), rounds=1, warmup_rounds=0)
    # Schedules that are not proven within their work may leave less than a thousandth open.
    assert found["gap"] < 1e-3
    # Of the largest of the processes so far; there are three.
    benchmark.extra_info["process_mib"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    benchmark.extra_info |= {name: found[name] for name in ("num_designs", "num_solved_exactly", "objective")}


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("model", ["gpt2-xl", "llama2-7b", "gpt3-175b"])
def test_one_model(benchmark, scenario, model):
    proven(benchmark, scenario, model)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_one_chip_for_nine_models(benchmark, scenario):
    proven(benchmark, scenario, *NINE)


def test_kernels(benchmark, tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, str(Path(__file__).with_name("warm_kernels.py"))]
    benchmark.pedantic(subprocess.run, (command,), {"env": environment, "check": True}, rounds=1)
