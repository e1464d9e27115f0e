"""No operator of any model on any known chip is above a roof: utilisation counts the work that is done."""

import re

import pytest

from rephaze.errors import SpecError
from rephaze.hardware.presets import load_presets, preset_chip
from rephaze.hardware.scenarios import load_scenario
from rephaze.measure.operators import estimate_operators
from rephaze.report.roofline import roofline_figure
from rephaze.units import FLOPS_PER_TFLOPS, S_PER_US
from rephaze.workload import fuse_graph, load_model, shard_graph
from rephaze.workload.zoo import ZOO_NAMES

ROUNDING = 1 + 1e-9


def known_chips():
    found = []
    for name in load_presets():
        try:
            found.append(preset_chip(name))
        except SpecError:  # a chip of which too little is published
            continue
    return found


CHIPS = known_chips()


def estimates(name, chip, *, attention="fused", microbatch=1, tp=1):
    graph = fuse_graph(shard_graph(load_model(name, attention), tp))
    return estimate_operators(graph, chip, microbatch, load_scenario("coarse").cluster)


def check_below_roofs(chip, operators):
    assert any(op.num_flops for op in operators)
    for op in operators:
        assert 0 <= op.tensor_utilization <= ROUNDING, f"{op.layer} {op.name} on {chip.name}"
        assert op.num_flops <= op.time_s * chip.peak_flops_per_s * ROUNDING
        assert op.hbm_bytes <= op.time_s * chip.hbm_bytes_per_s * ROUNDING


@pytest.mark.parametrize("name", ZOO_NAMES)
def test_every_model_on_every_known_chip(name):
    assert len(CHIPS) >= 9
    for chip in CHIPS:
        check_below_roofs(chip, estimates(name, chip))


@pytest.mark.parametrize("attention", ["fused", "eager"])
@pytest.mark.parametrize(("microbatch", "tp"), [(3, 1), (2, 5)])
def test_with_other_microbatches_degrees_and_attention(attention, microbatch, tp):
    for chip in CHIPS:
        check_below_roofs(chip, estimates("gpt2-xl", chip, attention=attention, microbatch=microbatch, tp=tp))


@pytest.mark.parametrize("name", ["llama2-7b", "bert-large", "gpt2-xl"])
def test_markers_of_the_roofline_lie_below_its_line(name):
    for chip in CHIPS:
        figure = roofline_figure(chip, estimates(name, chip))
        rows = [dict(zip(figure.header, row, strict=True)) for row in figure.rows]
        drawn = [row for row in rows if row["num_flops"] and row["hbm_bytes"] and row["time_us"]]
        # A circle says in words where it is; the roof is read off the same drawing.
        places = re.findall(r"([\d,.e+-]+) operations a byte, ([\d,.e+-]+) TFLOP/s", figure.svg)
        assert len(places) == len(drawn) > 10
        for row in drawn:
            intensity = row["num_flops"] / row["hbm_bytes"]
            tflops = row["num_flops"] / (row["time_us"] * S_PER_US) / FLOPS_PER_TFLOPS
            roof = min(chip.peak_flops_per_s, intensity * chip.hbm_bytes_per_s) / FLOPS_PER_TFLOPS
            assert tflops <= roof * ROUNDING
        for intensity, tflops in ([float(one.replace(",", "")) for one in place] for place in places):
            roof = min(chip.peak_flops_per_s, intensity * chip.hbm_bytes_per_s) / FLOPS_PER_TFLOPS
            assert tflops <= roof * (1 + 2e-3), "words have four digits"


def test_causal_attention_counts_what_is_done_apart_from_model_flops():
    fused, eager = (
        [op for op in estimates("llama2-7b", preset_chip("h100"), attention=kind) if op.num_flops]
        for kind in ("fused", "eager")
    )
    causal = [op for op in fused if op.name.startswith("attention")]
    assert len(causal) == 2
    for op in causal:
        # 4,096 keys in blocks of 128: half of them, and half a block more on the diagonal.
        assert op.num_flops == op.num_model_flops * (4096 + 128) / 2 / 4096
    rest = [op for op in fused if op not in causal]
    assert all(op.num_flops == op.num_model_flops for op in [*rest, *eager])
