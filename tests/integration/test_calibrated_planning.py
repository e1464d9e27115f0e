"""Plans and chips at calibrated rates: slower, said so, verified like any other, judged beside measured runs."""

import json

import pytest

import rephaze
from rephaze.api.expected_errors import stability_of_search
from rephaze.api.plans import evaluate_plans
from rephaze.errors import SpecError
from rephaze.hardware.derating import losses_of, usable_memory_share
from rephaze.hardware.presets import preset_chip
from tests.kits.two_layers import PROBLEM

FEW = {
    "space": {"num_tensor_cores": [4, 8], "tensor_width": [128], "tensor_depth": [128], "num_hbm_stacks": [2]},
    "training": {"microbatches": [1], "tp_degrees": [1]},
}
PLAN = {
    "format": "rephaze.placement-plan/2",
    "problem": PROBLEM,
    "plan": {"tp": 1, "dp": 2, "microbatch": 1, "stages": [{"layers": ["a", "b"]}]},
}


@pytest.fixture(scope="module")
def placed():
    return {
        name: rephaze.place_model("vit-large", "tpuv4", num_devices=8, global_batch=64, physics=name)
        for name in ("ideal", "calibrated")
    }


def test_a_plan_at_calibrated_rates_is_slower_by_what_the_family_loses(placed):
    ratio = placed["calibrated"].batch_s / placed["ideal"].batch_s
    losses = losses_of("tpu-128")
    least = min(losses.array_share, losses.hbm_share, losses.link_share, losses.network_share)
    assert 1 / losses.array_share * 0.95 < ratio <= 1 / least
    assert placed["calibrated"].status == "optimal"


def test_a_plan_says_its_physics_and_its_margin(placed):
    record = placed["calibrated"].record()
    assert record["physics"] == "calibrated"
    assert "family tpu-128" in record["rates"]
    assert placed["calibrated"].problem.device_memory_bytes == int(
        usable_memory_share() * preset_chip("tpuv4").hbm_bytes
    )
    assert "margin" in str(placed["calibrated"])
    assert "rates" not in placed["ideal"].record()


def test_utilisation_is_of_the_chips_true_peak(placed):
    ideal, real = (placed[name].rates.model_flop_utilization for name in ("ideal", "calibrated"))
    assert real / ideal == pytest.approx(placed["ideal"].batch_s / placed["calibrated"].batch_s)


def test_a_plan_file_with_its_chip_is_judged(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(PLAN), "utf-8")
    ((_, answer),) = evaluate_plans([path], chip="tpuv4")
    assert answer.stability is not None
    assert 0 <= answer.stability.near_best_share <= 1
    assert answer.record()["stability"]["chosen"] == "plan"
    ((_, without),) = evaluate_plans([path])
    assert without.stability is None


def test_a_chip_that_nobody_measured_has_no_calibrated_price():
    with pytest.raises(SpecError, match="no family"):
        rephaze.place_model("vit-large", "tpuv3", num_devices=8, global_batch=64, physics="calibrated")


def test_a_search_at_calibrated_rates_is_verified_and_slower(tmp_path):
    ideal = rephaze.explore("vit-large", scenario="coarse", changes=FEW)
    real = rephaze.explore(
        "vit-large", scenario="coarse", changes=FEW | {"physics": "calibrated"}, store=tmp_path / "run"
    )
    assert real.status.value == "optimal"
    assert losses_of("tpu-256").array_share * 0.9 < real.objective / ideal.objective < 0.95
    assert "tpu-256" in str(real)
    run = rephaze.open_run(tmp_path / "run")
    assert run.verify().holds
    stable = stability_of_search(real, tmp_path / "run")
    assert stable is None or 0 < stable.near_best_share <= 1
