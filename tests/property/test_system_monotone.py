"""Nothing a cluster is billed for ever falls as it grows: a box is over budget if its smallest corner is."""

from dataclasses import fields

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.hardware.cluster_bill import ClusterBill, budget_use, cluster_bill
from rephaze.hardware.hbm import hbm_choices, hbm_stack
from rephaze.hardware.peak_power import peak_power
from rephaze.hardware.system_chips import System, system_columns, system_energy
from rephaze.hardware.template import build_chips, load_template
from rephaze.types.chip import ChipTable
from rephaze.types.system import ClusterBudget
from rephaze.units import MIB

NOMINAL_HZ = 1.05e9
TEMPLATE = load_template("default")

DESIGN = {
    "num_tensor_cores": st.integers(1, 300),
    "tensor_width": st.integers(1, 300),
    "tensor_depth": st.integers(1, 300),
    "num_vector_cores": st.integers(1, 16),
    "vector_lanes": st.integers(1, 3000),
    "global_buffer_bytes": st.integers(1, 512).map(lambda mib: mib * MIB),
    "num_hbm_stacks": st.integers(1, 16),
}
SYSTEM = {
    "num_inside_links": st.integers(1, 64),
    "num_outside_links": st.integers(1, 16),
    "node_size": st.integers(1, 1000),
    "num_chips": st.integers(1, 200_000),
}
CLOCKS = st.floats(0.4e9, 1.736e9)
pairs = st.fixed_dictionaries(
    {name: st.tuples(values, values).map(sorted) for name, values in (DESIGN | SYSTEM).items()}
    | {"clock_hz": st.tuples(CLOCKS, CLOCKS).map(sorted)}
)
heights = st.sampled_from([(a, b) for a in hbm_choices() for b in hbm_choices() if a.generation == b.generation])


def chips_of(rows, hbm):
    """Chips of these designs, each with a clock and stacks of its own."""
    columns = {name: np.array([row[name] for row in rows], dtype=np.int64) for name in DESIGN}
    chips = build_chips(**columns, template=TEMPLATE)
    stacks = [hbm_stack(choice) for choice in hbm]
    changed = {
        "clock_hz": np.array([row["clock_hz"] for row in rows]),
        "hbm_bytes": chips.num_hbm_stacks * np.array([stack.stack_bytes for stack in stacks]),
        "hbm_bytes_per_s": chips.num_hbm_stacks * np.array([stack.stack_bytes_per_s for stack in stacks]),
    }
    plain = {field.name: getattr(chips, field.name) for field in fields(ChipTable)}
    return ChipTable(**(plain | changed))


def bill_of(rows, hbm):
    systems = [
        System(
            hbm=hbm_stack(choice),
            num_inside_links=float(row["num_inside_links"]),
            num_outside_links=float(row["num_outside_links"]),
            node_size=row["node_size"],
            num_chips=row["num_chips"],
        )
        for row, choice in zip(rows, hbm, strict=True)
    ]
    chips = chips_of(rows, hbm)
    columns = system_columns(systems)
    return cluster_bill(chips, columns, NOMINAL_HZ), peak_power(chips, system_energy(chips, columns, NOMINAL_HZ))


def never_falls(record):
    """Not even in the last bit: a box is closed by comparing with a limit."""
    return [f.name for f in fields(record) if not getattr(record, f.name)[1] >= getattr(record, f.name)[0]]


@given(pairs, heights)
@settings(deadline=None, max_examples=400)
def test_a_larger_corner_never_takes_less_of_anything(pair, hbm):
    small = {name: values[0] for name, values in pair.items()}
    large = {name: values[1] for name, values in pair.items()}
    low, high = sorted(hbm, key=lambda choice: choice.num_layers)
    bill, power = bill_of([small, large], [low, high])
    assert not never_falls(bill)
    assert not never_falls(power)


@given(pairs, st.sampled_from([*DESIGN, *SYSTEM, "clock_hz"]), st.sampled_from(hbm_choices()))
@settings(deadline=None, max_examples=600)
def test_more_of_one_thing_never_takes_less_of_anything(pair, field, hbm):
    small = {name: values[0] for name, values in pair.items()}
    bill, power = bill_of([small, {**small, field: pair[field][1]}], [hbm, hbm])
    assert not never_falls(bill)
    assert not never_falls(power)


@given(pairs, st.sampled_from(hbm_choices()), st.floats(1e3, 1e9), st.floats(1e4, 1e10), st.floats(1e2, 1e9))
@settings(deadline=None, max_examples=200)
def test_a_corner_over_budget_closes_its_box(pair, hbm, power_w, usd, silicon_mm2):
    corners = [{name: values[at] for name, values in pair.items()} for at in (0, 1)]
    budget = ClusterBudget(power_w=power_w, cost_usd=usd, silicon_mm2=silicon_mm2)
    fits_c = budget_use(bill_of(corners, [hbm, hbm])[0], budget).fits_c
    assert fits_c[0] or not fits_c[1]


def test_every_item_of_a_bill_is_looked_at():
    assert {field.name for field in fields(ClusterBill)} >= {"silicon_mm2_c", "power_w_c", "usd_c"}
