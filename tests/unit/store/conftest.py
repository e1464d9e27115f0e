"""A run's settings, versions and records to fill it with."""

import math

import numpy as np
import pytest

from rephaze.hardware.scenarios import load_scenario
from rephaze.store.run_store import RunStore
from rephaze.store.versions import current_versions
from rephaze.types.run_record import BoundTable
from rephaze.types.search import Aggregate, Evaluation, ModelPlan, Objective, SearchSettings, StagePlan


@pytest.fixture
def settings():
    return SearchSettings(
        models=("gpt2-xl", "llama2-7b"),
        weights=(1.0, 2.0),
        scenario=load_scenario("paper"),
        objective=Objective.THROUGHPUT,
        aggregate=Aggregate.GEOMEAN,
        seed=7,
        exhaustive=False,
    )


@pytest.fixture
def versions():
    return current_versions("estimator-1", {"gpt2-xl": "a" * 64})


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "a run #1 100%?"  # characters that mean something in a URI


@pytest.fixture
def store(folder, settings, versions):
    with RunStore.create(folder, settings, versions) as opened:
        yield opened


@pytest.fixture
def make_evaluation():
    def make(design, *, is_exact=True, num_stages=2, text="block.0"):
        stage = StagePlan(
            first_layer=text,
            last_layer="block.1",
            num_layers=2,
            num_devices=4,
            load_s=0.1 * (design + 1) / 3,
            memory_bytes=1e9 / 7,
            recompute="block",
        )
        plans = tuple(
            ModelPlan(
                model=model,
                samples_per_s=math.pi * design,
                batch_s=1 / (design + 1),
                tp=2,
                dp=4,
                pp=num_stages,
                microbatch=8,
                recompute="block",
                hbm_bytes=2**35,
                energy_per_sample_j=0.1,
                stages=(stage,) * num_stages,
            )
            for model in ("gpt2-xl", "llama2-7b")
        )
        objective = design / 3 if is_exact else -math.inf
        return Evaluation(
            design=design,
            is_exact=is_exact,
            objective=objective,
            bound=design / 3 if is_exact else design / 3 + 1,
            plans=plans if is_exact else (),
            reason="" if is_exact else "dropped",
        )

    return make


@pytest.fixture
def make_bounds():
    def make(model=None, num_designs=5, scale=1.0, names=("work", "device-time")):
        return BoundTable(
            model=model,
            names=names,
            design_c=np.arange(num_designs),
            bound_c=scale * np.arange(num_designs, dtype=np.float64) / 3,
            removed_by_c=(np.arange(num_designs) % (len(names) + 1) - 1).astype(np.int16),
        )

    return make
