"""Every record a run keeps comes back equal, through text and through the database."""

import dataclasses
import json
import tempfile
import types
import typing
from enum import Enum
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.hardware.scenarios import load_scenario
from rephaze.store.record_json import canonical_text, from_json, json_text, to_json
from rephaze.store.run_store import RunStore
from rephaze.store.versions import current_versions
from rephaze.types.chip import Chip
from rephaze.types.cluster import Cluster, NetworkLevel
from rephaze.types.run_record import BoundTable, Incumbent, RunVersions
from rephaze.types.search import Aggregate, Evaluation, Objective, SearchResult, SearchSettings
from rephaze.types.space import DesignSpace, Template
from rephaze.types.system import ClusterBudget, HbmChoice, SystemSpace

counts = st.integers(1, 2**16)
rates = st.floats(1e7, 1e10)
value_lists = st.lists(st.integers(1, 1024), min_size=1, max_size=4, unique=True).map(tuple)

SCALARS = {
    bool: st.booleans(),
    int: st.integers(-(2**53), 2**53),
    float: st.floats(allow_nan=False),  # not-a-number equals nothing, not even itself
    str: st.text(max_size=20),
}


def chips():
    numbers = {
        field.name: rates if field.type == "float" else counts.map(lambda n: n + 2**20)
        for field in dataclasses.fields(Chip)
        if field.name.endswith(("_bytes", "_per_s", "_hz", "_per_cycle"))
    }
    others = {field.name: counts.map(lambda n: n % 1024 + 1) for field in dataclasses.fields(Chip)}
    return st.builds(Chip, **(others | numbers | {"name": st.text(max_size=20)}))


def clusters():
    def build(base, factors, speed):
        sizes = [base * int(np.prod(factors[: i + 1])) for i in range(len(factors))]
        levels = tuple(NetworkLevel(num_devices=size, bytes_per_s=speed) for size in sizes)
        return Cluster(num_devices=sizes[-1], levels=levels)

    return st.builds(build, st.integers(1, 8), st.lists(st.integers(2, 4), min_size=1, max_size=4), rates)


def spaces():
    lists = {
        field.name: value_lists
        for field in dataclasses.fields(DesignSpace)
        if str(field.type).startswith("tuple[int")
    }
    lists["vector_lanes"] = st.none() | value_lists
    lists["hbm_bytes_options"] = st.just(()) | value_lists
    return st.builds(
        DesignSpace,
        **lists,
        template=records(Template),
        area_limit_um2=st.floats(1e6, 1e9),
        area_floor_um2=st.floats(0, 1e6),
        power_limit_w=st.floats(1, float("inf")),
    )


def budgets():
    amounts = st.floats(1e-3, float("inf"), exclude_min=True)
    return st.builds(ClusterBudget, silicon_mm2=amounts, power_w=amounts, cost_usd=amounts)


def system_spaces():
    counts = st.lists(st.integers(1, 64), unique=True, max_size=3).map(tuple)
    heights = st.lists(st.builds(HbmChoice, generation=st.text(), num_layers=st.integers(1, 16)), max_size=3)
    return st.builds(
        SystemSpace,
        clock_hz=st.lists(st.floats(1e8, 4e9), unique=True, max_size=3).map(tuple),
        hbm=heights.map(lambda found: tuple(dict.fromkeys(found))),
        num_inside_links=counts,
        num_outside_links=counts,
        node_size=counts,
        num_chips=counts,
    )


# Records that check their fields need values that pass.
CHECKED = {
    Chip: chips,
    Cluster: clusters,
    ClusterBudget: budgets,
    DesignSpace: spaces,
    SystemSpace: system_spaces,
}


@cache
def records(kind):
    """Any record of the type, built from the types of its fields."""
    if kind in SCALARS:
        return SCALARS[kind]
    if kind in CHECKED:
        return CHECKED[kind]()
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return st.builds(kind, **{f.name: records(hints[f.name]) for f in dataclasses.fields(kind)})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(kind)
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is tuple and arguments[1:] == (...,):
        return st.lists(records(arguments[0]), max_size=3).map(tuple)
    if typing.get_origin(kind) is tuple:
        return st.tuples(*map(records, arguments))
    if typing.get_origin(kind) is dict:
        return st.dictionaries(records(arguments[0]), records(arguments[1]), max_size=3)
    assert typing.get_origin(kind) in (types.UnionType, typing.Union), kind
    return st.one_of(*(st.none() if argument is types.NoneType else records(argument) for argument in arguments))


STORED = (SearchSettings, Evaluation, SearchResult, RunVersions, Incumbent)


@given(st.sampled_from(STORED).flatmap(records))
@settings(deadline=None, max_examples=100)
def test_records_survive_text(record):
    document = json.loads(json_text(to_json(record)))
    assert from_json(type(record), document) == record
    assert canonical_text(json.loads(canonical_text(document))) == canonical_text(to_json(record))


SETTINGS = SearchSettings(
    models=("one", "two"),
    weights=(1.0, 1.0),
    scenario=load_scenario("paper"),
    objective=Objective.THROUGHPUT,
    aggregate=Aggregate.MEAN,
    seed=0,
    exhaustive=True,
)


@given(
    evaluations=st.lists(records(Evaluation), max_size=6, unique_by=lambda found: found.design),
    result=records(SearchResult),
    steps=st.lists(records(Incumbent), max_size=4),
    bounds=st.dictionaries(
        st.integers(0, 2**40),
        st.tuples(st.floats(allow_nan=False), st.sampled_from([-1, 0, 1])),
        max_size=6,
    ),
    model=st.sampled_from([None, "one", "two"]),
)
@settings(deadline=None, max_examples=20)
def test_records_survive_the_database(evaluations, result, steps, bounds, model):
    table = BoundTable(
        model=model,
        names=("cheap", "dear"),
        design_c=np.array(list(bounds), dtype=np.int64),
        bound_c=np.array([bound for bound, _ in bounds.values()], dtype=np.float64),
        removed_by_c=np.array([name for _, name in bounds.values()], dtype=np.int16),
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with RunStore.create(folder, SETTINGS, current_versions("1")) as store:
            store.record_evaluations(evaluations)
            store.record_bounds(table)
            store.record_result(result)
            for step in steps:
                store.record_incumbent(step)
        with RunStore.read(folder) as reader:
            assert list(reader.evaluations()) == sorted(evaluations, key=lambda found: found.design)
            assert reader.result() == result
            assert reader.incumbents() == tuple(steps)
            found = reader.bounds(model)
            assert found.design_c.tolist() == sorted(bounds)
            assert {
                design: (bound, removed_by)
                for design, bound, removed_by in zip(
                    found.design_c.tolist(), found.bound_c.tolist(), found.removed_by_c.tolist(), strict=True
                )
            } == bounds
