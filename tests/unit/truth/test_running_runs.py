"""What machines and code bases do beyond their data sheets: each effect read from a run, and seen in its time."""

from dataclasses import replace

import numpy as np
import pytest

from rephaze.hardware import calibration
from rephaze.truth.machines import find_machine
from rephaze.truth.op_table import OpTable
from rephaze.truth.physics import OLD_INSTRUCTIONS, attention_times, product_times, segment_times, send_times
from rephaze.truth.predict import best_prediction, predict_time, predict_variant
from rephaze.truth.run_plan import read_plan
from rephaze.truth.run_row import Row
from rephaze.truth.shipped_runs import shipped_runs
from rephaze.truth.traits import traits_of
from rephaze.truth.variants import write_variants


def first(source, **wanted):
    """The first shipped run of a source whose plan has these values."""
    return next(
        run
        for run in shipped_runs()
        if run.source.startswith(source) and all(getattr(run.plan, name) == x for name, x in wanted.items())
    )


def constants(**changes):
    return calibration.calibrated() | changes


def table_of(run):
    table = OpTable()
    variants = write_variants(run, table)
    return table.columns(), variants


def time_of(run, **changes):
    columns, variants = table_of(run)
    values = constants(**changes)
    return predict_time(variants[0], segment_times(columns, values), values)


def kept_bytes(run):
    columns, variants = table_of(run)
    values = constants()
    price = predict_variant(variants[0], segment_times(columns, values), values).price
    return max(device.kept_bytes for device in price.devices)


def product_s(chip, m, n, k, *, is_grouped):
    table = OpTable()
    machine = find_machine(chip)
    at = table.segment(machine, 0.0, 0.0, is_eager=False, is_waiting=False)
    table.products.append((at, m, n, k, 8.0, 16, is_grouped))
    return float(product_times(table.columns(), constants(grouped_product=1.0))[0])


def test_tokens_of_experts_are_never_odd_but_other_rows_are():
    even = product_s("H100-80GB-SXM", 4096, 7168, 10_920, is_grouped=True)
    assert product_s("H100-80GB-SXM", 4096, 7168, 10_922.7, is_grouped=True) == pytest.approx(even, rel=0.01)
    assert product_s("H100-80GB-SXM", 4096, 7168, 10_923, is_grouped=False) > 3 * even


def test_checkpoints_of_newer_pytorch_stop_before_the_last_product():
    run = first("MosaicML", recompute="full")
    new = replace(run, facts={"precision": "amp_bf16"})
    old = replace(run, facts={"precision": "bf16"})
    # Of a block's products a third, of a batch's four passes a twelfth; norms and attention are computed again.
    assert 0.88 < time_of(new) / time_of(old) < 0.95
    assert time_of(replace(new, plan=replace(run.plan, recompute="none"))) < time_of(new)
    assert not traits_of(first("Megatron-LM SC21"), find_machine("A100-80GB")).drops_last


def test_adding_gradients_up_costs_their_bytes_unless_they_are_cut_at_once():
    machine = find_machine("H100-80GB-SXM")
    nemo, fsdp = first("NeMo 24.07"), first("torchtitan 2024-12", sharding="weights")
    assert traits_of(nemo, machine).summed_bytes == 2.0
    assert traits_of(first("SimuMax"), find_machine("B200")).summed_bytes == 4.0
    assert traits_of(fsdp, machine).summed_bytes == 0.0
    assert traits_of(first("H100 sweep"), machine).summed_bytes == 10.0
    assert traits_of(first("tpu-recipes Trillium"), find_machine("TPUv6e")).summed_bytes == 0.0
    columns, variants = table_of(nemo)
    block = variants[0].kinds[0]
    moved = columns.move_bytes[columns.move_segment == block.segments[2]].sum()
    assert moved == pytest.approx(2.0 * block.param_elements, rel=1e-3)


def test_messages_of_chunks_hide_behind_work_except_while_pipelines_fill():
    run = first("MLPerf Training v3.1 NVIDIA", pp=8)
    assert run.plan.chunks > 1
    slow = {"network_rate": constants()["network_rate"] / 2}
    few = replace(run, global_batch=8 * run.plan.dp)
    many = replace(run, global_batch=512 * run.plan.dp)
    lost_s = [time_of(one, **slow) - time_of(one) for one in (few, many)]
    # What is lost hardly grows with the microbatches.
    assert lost_s[1] < 8 * lost_s[0]
    assert lost_s[1] / time_of(many) < 0.02 < lost_s[0] / time_of(few)


def test_what_hides_behind_passes_slows_them():
    run = first("MLPerf Training v3.1 NVIDIA", pp=8)
    assert time_of(run, interference=0.5) > time_of(run, interference=0.01)


@pytest.mark.parametrize(
    ("source", "chip", "waits", "once"),
    [
        ("NeMo Megatron-Bridge 26.02", "DGX-GB300", False, True),
        ("NeMo Megatron-Bridge 26.02", "DGX-B200", True, False),
        ("NVIDIA dgxc-benchmarking 25.05", "H100-80GB-SXM", False, False),
        ("Megatron-Bridge recompute study", "H100-80GB-SXM", True, False),
    ],
)
def test_recipes_decide_how_tokens_are_exchanged(source, chip, waits, once):
    mixture = next(run for run in shipped_runs() if run.shape.experts and run.source.startswith("NeMo"))
    found = traits_of(replace(mixture, source=source, notes=""), find_machine(chip))
    assert (found.waits_for_routing, found.sends_once) == (waits, once)
    assert found.is_dropless == (not source.startswith("NVIDIA dgxc"))


def test_one_kernel_for_an_exchange_starts_fewer_operators():
    mixture = first("Megatron-Bridge recompute study")
    columns, variants = table_of(mixture)
    fused_columns, fused = table_of(replace(mixture, notes="DeepEP"))
    counts = [
        found.num_ops_s[kinds[0].kinds[-1].segments[0]]
        for found, kinds in ((columns, variants), (fused_columns, fused))
    ]
    assert counts[0] - counts[1] == 40


def test_an_exchange_over_a_cloud_network_sends_to_each_device_in_turn():
    mixture = first("AWS megatron-bridge")
    assert "EFA" in mixture.facts["network"]
    steps = [
        table_of(one)[0].outer_messages.max()
        for one in (mixture, replace(mixture, facts={"network": "InfiniBand"}))
    ]
    assert steps == [24.0, 1.0]  # 32 devices, of which 8 are near


def test_kernels_made_for_exchanges_fill_the_network_whatever_collectives_reach():
    mixture = next(
        run for run in shipped_runs() if run.source.startswith("Megatron-MoE-ModelZoo") and run.plan.ep == 32
    )
    slow = constants()["network_rate"] / 2
    sent = []
    for notes in ("DeepEP", ""):
        columns, _ = table_of(replace(mixture, notes=notes))
        far = columns.outer_bytes > 0
        times = [send_times(columns, constants(**change))[far] for change in ({}, {"network_rate": slow})]
        sent.append(times[1].sum() / times[0].sum())
    assert sent[0] == pytest.approx(1.0)
    assert sent[1] > 1.8


def test_experts_in_a_ring_send_tokens_once():
    ring = first("MaxText DeepSeek-V3 EP sweep")
    plain = replace(ring, notes=ring.notes.replace("ring of experts", ""))
    assert time_of(ring) < 0.9 * time_of(plain)


def test_inputs_of_short_products_are_kept_short():
    run = first("NeMo Megatron-Bridge 25.09")
    assert run.bits == 8
    assert 0.8 < kept_bytes(run) / kept_bytes(replace(run, bits=16)) < 0.95
    titan = first("torchtitan 2025-06 H200")
    assert kept_bytes(titan) == kept_bytes(replace(titan, bits=16))


def test_where_no_plan_seems_to_fit_the_fastest_of_the_least_is_taken():
    run = next(run for run in shipped_runs() if run.model == "LLAMA3_70B" and run.plan.chunks is None)
    columns, variants = table_of(run)
    values = constants()
    found = best_prediction(variants, segment_times(columns, values), values)
    all_found = [predict_variant(one, segment_times(columns, values), values) for one in variants]
    least = min(all_found, key=lambda one: one.device_bytes)
    assert least.device_bytes > found.variant.machine.memory_bytes
    assert found.variant.chunks > least.variant.chunks == 1
    assert found.device_bytes <= 1.25 * least.device_bytes
    assert found.batch_s < 0.9 * least.batch_s


def test_kernels_compiled_for_ampere_reach_what_its_instructions_can_on_hopper():
    columns, _ = table_of(next(r for r in shipped_runs() if r.source.startswith("MosaicML") and "H100" in r.chip))
    half = {"attention_ampere": constants()["attention_ampere"] / 2}
    assert np.allclose(attention_times(columns, constants(**half)), 2 * attention_times(columns, constants()))
    longer = 1 + constants()["attention_start"] / columns.attention_keys
    share = constants()["attention_ampere"] * OLD_INSTRUCTIONS
    expected = columns.attention_flops * longer / (columns.attention_peak * share)
    assert np.allclose(attention_times(columns, constants()), expected)


def test_gaudi_fills_arrays_as_tpus_of_that_width_do():
    slower = constants()["product_tpu_128"] / 2
    run = next(run for run in shipped_runs() if run.chip.startswith("Gaudi2"))
    columns, _ = table_of(run)
    assert (
        product_times(columns, constants(product_tpu_128=slower)).sum()
        > 1.8 * product_times(columns, constants()).sum()
    )


@pytest.mark.parametrize(
    ("source", "chip", "mine", "other"),
    [
        ("NeMo Megatron-Bridge 26.06", "DGX-GB", "precision_gain_blackwell", "precision_gain"),
        ("NeMo 24.07", "H100", "precision_gain", "precision_gain_blackwell"),
    ],
)
def test_what_short_factors_gain_is_blackwells_own(source, chip, mine, other):
    runs = (run for run in shipped_runs() if run.source.startswith(source) and run.chip.startswith(chip))
    run = next(run for run in runs if run.bits < 16)
    assert time_of(run, **{mine: 0.6}) > 1.1 * time_of(run)
    assert time_of(run, **{other: 0.6}) == time_of(run)


def test_recomputing_the_mlp_keeps_what_attention_needs():
    notes = {"notes": "selective recompute of the MLP block", "recompute": "policy", "gpus": "8", "dp": "8"}
    plan, _ = read_plan(Row(notes, "runs.csv", 2))
    assert (plan.recompute, plan.kept) == ("modules", ("ffn_in", "act"))
    run = first("NeMo Megatron-Bridge SFT plan study")
    plans = [replace(run.plan, recompute=name, kept=plan.kept) for name in ("full", "modules", "none")]
    kept = [kept_bytes(replace(run, plan=one)) for one in plans]
    assert kept[0] < kept[1] / 2 < kept[2] / 2
