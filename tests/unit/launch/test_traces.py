"""Traces keep to the trace event format, and nothing on a track overlaps."""

import itertools
import json
import random
from dataclasses import replace

import pytest

from rephaze.api.exports import export_plan
from rephaze.api.full_plans import placed_full
from rephaze.launch.chip_trace import schedule_slices
from rephaze.launch.timeloop import write_architecture
from rephaze.launch.traces import Slice, first_free_lanes, trace_text
from rephaze.types.full import PipelineSchedule, PlanFamily
from rephaze.types.latency import Engine
from rephaze.types.schedule import (
    Mode,
    PassSchedule,
    Schedule,
    ScheduledOp,
    ScheduleOp,
    ScheduleProblem,
    ScheduleStatus,
)
from tests.property.full_cases import random_problem


def check_trace(text):
    """The slices by track, after the rules that Perfetto has for JSON traces."""
    data = json.loads(text)
    assert data["displayTimeUnit"] in ("ms", "ns")
    tracks, named = {}, set()
    for event in data["traceEvents"]:
        assert {"name", "ph", "pid", "tid"} <= event.keys()
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                named.add((event["pid"], event["tid"]))
            continue
        assert event["ph"] == "X"
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    assert tracks.keys() <= named
    for events in tracks.values():
        events.sort(key=lambda event: event["ts"])
        for one, after in itertools.pairwise(events):
            assert round(1000 * (one["ts"] + one["dur"])) <= round(1000 * after["ts"])
    return tracks


@pytest.mark.parametrize("schedule", PipelineSchedule)
def test_pipelines_of_every_schedule_are_traced(schedule):
    num_pipelines = 0
    for seed in range(40):
        problem = random_problem(seed, most_layers=6)
        options = replace(problem.options, schedule=(schedule,), family=PlanFamily.ANY)
        answer = placed_full("random", replace(problem, options=options, device_memory_bytes=1e11))
        if answer.plan is None:
            continue
        num_pipelines += answer.plan.pp > 1 and answer.plan.schedule is schedule
        found = export_plan(answer, "perfetto")
        tracks = check_trace(found.text)
        assert len(tracks) == answer.plan.pp
        end_s = max(event["ts"] + event["dur"] for events in tracks.values() for event in events) / 1e6
        assert end_s == pytest.approx(answer.replay.batch_s, abs=2e-9)
    assert num_pipelines > 3


def test_long_batches_are_traced_in_part(monkeypatch):
    monkeypatch.setattr("rephaze.api.exports.MOST_SLICES", 60)
    cut = 0
    for seed in range(40):
        answer = placed_full("random", random_problem(seed))
        if answer.plan is not None:
            found = export_plan(answer, "chrome-trace")
            check_trace(found.text)
            cut += any("of the" in note and "microbatches" in note for note in found.notes)
    assert cut


def test_operators_on_all_cores_and_on_several_do_not_overlap():
    rng, clock_hz = random.Random(3), 1e9
    ops, starts = [], []
    for number in range(40):
        engine = rng.choice(list(Engine))
        cycles = 0 if engine is Engine.NONE else rng.randint(1, 50)
        ops.append(
            ScheduleOp(name=f"op<{number}>", engine=engine, one_core_cycles=cycles, all_cores_cycles=cycles)
        )
        starts.append(ScheduledOp(op=f"op<{number}>", start_cycles=rng.randint(0, 300), mode=Mode.ONE_CORE))
    one = PassSchedule(
        model="<script>", layer="block", direction="forward", num_layers=4, tp=1, microbatch=1, clock_hz=clock_hz,
        problem=ScheduleProblem(num_tensor_cores=64, num_vector_cores=64, ops=tuple(ops), edges=()),
        schedule=Schedule(
            status=ScheduleStatus.FEASIBLE, makespan_cycles=350, bound_cycles=1, starts=tuple(starts), solve_s=0.0
        ),
    )  # fmt: skip
    tracks = check_trace(trace_text(schedule_slices(one), {}))
    held = sum({Engine.FUSED: 2, Engine.NONE: 0}.get(op.engine, 1) for op in ops)
    assert sum(map(len, tracks.values())) == held


def test_what_overlaps_on_a_track_is_our_own_bug():
    def at(start_s, end_s):
        return Slice(process="p", track="t", name="x", category="c", start_s=start_s, end_s=end_s)

    with pytest.raises(AssertionError, match="runs into"):
        trace_text([at(0.0, 1.0), at(0.5, 2.0)], {})
    assert first_free_lanes([(0, 2), (1, 3), (2, 4)]) == [0, 1, 0]


def test_a_chip_is_an_architecture_of_timeloop():
    import yaml

    from rephaze.hardware.presets import preset_chip

    class Loader(yaml.SafeLoader):
        pass

    for tag in ("!Container", "!Component"):
        Loader.add_constructor(tag, lambda loader, node: loader.construct_mapping(node, deep=True))
    chip = preset_chip("tpuv4")
    found = yaml.load(write_architecture(chip).text, Loader)["architecture"]  # noqa: S506, derived from the safe one
    assert found["version"] == 0.4
    nodes = {node["name"]: node for node in found["nodes"]}
    total = 1
    for node in nodes.values():
        for size in node.get("spatial", {}).values():
            total *= size
    assert total == chip.num_macs

    def capacity_bytes(name):
        attributes = nodes[name]["attributes"]
        return attributes["depth"] * attributes["width"] // 8

    assert capacity_bytes("HBM") == chip.hbm_bytes
    assert capacity_bytes("global_buffer") == chip.global_buffer_bytes
    assert capacity_bytes("scratchpad") == chip.tensor_scratchpad_bytes
    words = nodes["HBM"]["attributes"]["shared_bandwidth"]
    assert words * 2 * chip.clock_hz == pytest.approx(chip.hbm_bytes_per_s)


def test_a_chip_is_an_architecture_of_accelforge():
    import yaml

    from rephaze.hardware.area import chip_items
    from rephaze.hardware.energy import access_energy
    from rephaze.hardware.presets import preset_chip
    from rephaze.launch import accelforge
    from rephaze.types.chip import chip_table
    from rephaze.types.space import AreaModel

    class Loader(yaml.SafeLoader):
        pass

    for tag in ("!Container", "!Memory", "!Compute"):
        Loader.add_constructor(
            tag, lambda loader, node: loader.construct_mapping(node, deep=True) | {"kind": node.tag}
        )
    chip = preset_chip("tpuv4")
    items = chip_items(chip, AreaModel.CORRECTED)
    energy = access_energy(chip_table([chip]), AreaModel.CORRECTED)
    file = accelforge.write_architecture(items, energy)
    nodes = yaml.load(file.text, Loader)["arch"]["nodes"]  # noqa: S506, derived from the safe one
    # Names as AccelForge's classes have them (1.0.467, whose own parser has read such a file).
    known = {
        "!Memory": {"name", "size", "area", "leak_power", "tensors", "actions"},
        "!Compute": {"name", "area", "leak_power", "enabled", "actions"},
        "!Container": {"name", "spatial"},
    }
    num_instances, area_m2, leak_w = 1, 0.0, 0.0
    for node in nodes:
        # Only containers multiply: of a memory's own fanout AccelForge's totals know nothing.
        assert node.keys() - {"kind"} <= known[node["kind"]]
        for action in node.get("actions", ()):
            assert action.keys() == {"name", "energy", "throughput"}
        for spatial in node.get("spatial", ()):
            num_instances *= spatial["fanout"]
        area_m2 += num_instances * node.get("area", 0.0)
        leak_w += num_instances * node.get("leak_power", 0.0)
    assert num_instances == chip.num_macs
    assert area_m2 == pytest.approx(items.total_um2 * 1e-12)
    assert leak_w == pytest.approx(energy.idle_w_c[0])
    by_name = {node["name"]: node for node in nodes}
    sizes = {name: by_name[name]["size"] // 8 for name in ("HBM", "GlobalBuffer", "Scratchpad")}
    assert list(sizes.values()) == [chip.hbm_bytes, chip.global_buffer_bytes, chip.tensor_scratchpad_bytes]
    for action in by_name["HBM"]["actions"]:
        assert action["throughput"] / 8 == pytest.approx(chip.hbm_bytes_per_s)
        assert action["energy"] * 8 == pytest.approx(energy.hbm_j_per_byte_c[0])
    (mac,), (lanes,) = by_name["MAC"]["actions"], by_name["VectorCores"]["actions"]
    assert 2 * num_instances * mac["throughput"] == pytest.approx(chip.peak_flops_per_s)
    assert lanes["throughput"] == pytest.approx(chip.num_lanes * chip.clock_hz)
    for note in file.unsaid:
        assert f"# note: {note.text}" in file.text
