"""The run store: a whole space's bounds for nine models, batches of evaluations, resuming."""

import itertools

import numpy as np
import pytest

from rephaze.hardware.scenarios import load_scenario
from rephaze.hardware.space import enumerate_designs
from rephaze.store.export import FileFormat, export_table
from rephaze.store.run_store import RunStore
from rephaze.store.tables import TableName
from rephaze.store.versions import current_versions
from rephaze.types.run_record import BoundTable
from rephaze.types.search import Aggregate, Evaluation, ModelPlan, Objective, SearchSettings, StagePlan

MODELS = tuple(f"model-{i}" for i in range(9))
NUM_DESIGNS = 55_000
VERSIONS = current_versions("1")
SETTINGS = SearchSettings(
    models=MODELS,
    weights=(1.0,) * len(MODELS),
    scenario=load_scenario("coarse"),
    objective=Objective.THROUGHPUT,
    aggregate=Aggregate.GEOMEAN,
    seed=0,
    exhaustive=False,
)


@pytest.fixture
def store(tmp_path):
    with RunStore.create(tmp_path / "run", SETTINGS, VERSIONS) as opened:
        yield opened


def bounds(model):
    random = np.random.default_rng(0)
    return BoundTable(
        model=model,
        names=("work", "device-time"),
        design_c=np.arange(NUM_DESIGNS),
        bound_c=random.random(NUM_DESIGNS),
        removed_by_c=random.integers(-1, 2, NUM_DESIGNS).astype(np.int16),
    )


def evaluation(design):
    stage = StagePlan(
        first_layer="block.0",
        last_layer="block.5",
        num_layers=6,
        num_devices=64,
        load_s=0.1 / (design + 3),
        memory_bytes=2.5e10 / 3,
        recompute="block",
    )
    plans = tuple(
        ModelPlan(
            model=model,
            samples_per_s=1e3 / 3,
            batch_s=4096e-3 * 3,
            tp=4,
            dp=16,
            pp=16,
            microbatch=1,
            recompute="block",
            hbm_bytes=2**35,
            energy_per_sample_j=0.1,
            stages=(stage,) * 16,
        )
        for model in MODELS
    )
    return Evaluation(design=design, is_exact=True, objective=1e3 / 3, bound=1e3 / 3, plans=plans)


def test_record_the_spaces_bounds_for_nine_models_and_all(benchmark, store):
    tables = [bounds(model) for model in (None, *MODELS)]
    benchmark.pedantic(lambda: store.record_bounds(*tables), rounds=3)
    assert len(store.bounds(MODELS[-1])) == NUM_DESIGNS


def test_record_the_spaces_designs(benchmark, store):
    census = enumerate_designs(SETTINGS.scenario.space)
    benchmark.pedantic(lambda: store.record_designs(census.chips, census.area_um2_c), rounds=1)
    assert len(store.designs()[0]) == census.num_designs


def test_record_a_batch_of_32_evaluations_of_nine_models(benchmark, store):
    starts = itertools.count(step=32)

    def setup():
        start = next(starts)
        return ([evaluation(design) for design in range(start, start + 32)],), {}

    benchmark.pedantic(store.record_evaluations, setup=setup, rounds=20)


def test_record_one_small_evaluation(benchmark, store):
    designs = itertools.count()
    benchmark.pedantic(
        lambda found: store.record_evaluations([found]),
        setup=lambda: (
            (Evaluation(design=next(designs), is_exact=False, objective=0.0, bound=1.0, plans=()),),
            {},
        ),
        rounds=200,
    )


def test_resume_with_500_evaluations_and_all_bounds(benchmark, store):
    store.record_bounds(*(bounds(model) for model in (None, *MODELS)))
    store.record_evaluations([evaluation(design) for design in range(500)])
    store.close()

    def resume():
        with RunStore.resume(store.folder, SETTINGS, VERSIONS) as resumed:
            return len(list(resumed.evaluations()))

    assert benchmark.pedantic(resume, rounds=3) == 500


@pytest.mark.parametrize("file_format", list(FileFormat))
def test_export_all_bounds(benchmark, store, tmp_path, file_format):
    store.record_bounds(*(bounds(model) for model in (None, *MODELS)))
    num_rows = benchmark.pedantic(
        lambda: export_table(store, TableName.BOUNDS, tmp_path / "bounds", file_format), rounds=2
    )
    assert num_rows == NUM_DESIGNS * (len(MODELS) + 1)
