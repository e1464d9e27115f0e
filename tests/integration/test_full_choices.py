"""``rephaze place MODEL --chip ... --scenario full --why ...``: every decision, and choices that are refused."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from rephaze.api.plans import place_model, unproven_said
from rephaze.cli.main import app
from rephaze.errors import SpecError


def place(model, *arguments, devices=8, batch=32):
    asked = ["place", model, "--chip", "h100", "--devices", devices, "--global-batch", batch]
    return CliRunner().invoke(app, [str(one) for one in (*asked, *arguments)])


def answer(*arguments, **sizes):
    done = place("vit-large", "--json", *arguments, **sizes)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("why", "made"),
    [
        ("tp=2,sp=off", {"tp": 2, "sp": False}),
        ("cp=1", {"cp": 1}),
        ("ep=1", {"ep": 1}),
        ("etp=1", {"etp": 1}),
        ("pp=4", {}),
        ("sharding=weights", {"sharding": "weights"}),
        ("schedule=zero-bubble", {"schedule": "zero-bubble"}),
        ("schedule=interleaved", {"schedule": "interleaved"}),
        ("chunks=2", {"chunks": 2}),
        ("microbatch=4", {"microbatch": 4}),
        ("dp=4", {"dp": 4}),
        ("order=pp-outer,dp=2,pp=2", {"order": "pp-outer", "dp": 2}),
        ("keep=0", {}),
        ("keep=3", {}),
        ("reshard=on", {"reshard": True}),
        ("shard_group=8", {"shard_group": 8}),
        ("sp=off", {"sp": False}),
        ("family=megatron", {}),
    ],
)
def test_every_decision_can_be_asked_about_on_a_chip(why, made):
    found = answer("--why", why)
    other = found["why"]
    assert made.items() <= other["plan"].items()
    assert other["batch_s"] >= found["batch_s"] * (1 - 1e-9)
    if why == "pp=4":
        assert len(other["plan"]["stages"]) == 4 * other["plan"]["chunks"]
    if why.startswith("keep"):
        assert {stage["keep"] for stage in other["plan"]["stages"]} == {int(why[-1])}
    if why == "family=megatron":
        assert other["num_devices"] == 8


def test_answers_are_exact_unless_another_family_is_asked_for():
    # Three microbatch sizes at most divide 30; with one of 4 the last is smaller.
    exact = answer(batch=30)
    assert exact["family"] == "exact"
    assert 30 % (exact["plan"]["dp"] * exact["plan"]["microbatch"]) == 0
    free = answer("--family", "any", "--why", "family", batch=30)
    assert free["family"] == "any"
    assert free["batch_s"] <= exact["batch_s"]
    assert free["why"]["choices"] == {"family": "exact"}
    assert free["why"]["batch_s"] == pytest.approx(exact["batch_s"], rel=1e-9)
    asked = answer("--why", "family", batch=30)
    assert asked["why"]["batch_s"] == pytest.approx(free["batch_s"], rel=1e-9)
    if free["batch_s"] < exact["batch_s"] * (1 - 1e-9):
        cost = exact["batch_s"] / free["batch_s"] - 1
        assert asked["why"]["launch_note"].startswith(f"family exact costs {cost:.2%}")
        assert "microbatches a replica" in asked["why"]["launch_note"]
    assert "none of family exact is faster" in place("vit-large", batch=30).stdout


@pytest.mark.parametrize(
    ("model", "why", "said"),
    [
        ("gpt2-xl", "tp=8", "--why tp is 8: gpt2-xl can be sharded 1, 5, 25 ways only"),
        ("gpt2-xl", "cp=3", "--why cp is 3: gpt2-xl's sequence, 1024, can be cut 1, 2, 4, 8, 16"),
        ("gpt2-xl", "ep=8", "--why ep is 8: gpt2-xl has no experts; legal: 1"),
        ("gpt2-xl", "etp=2", "--why etp is 2: gpt2-xl has no experts; legal: 1"),
        ("gpt2-xl", "tp=5,sp=on", "with sp tp times cp must divide the sequence, 1024"),
        ("gpt2-xl", "sp=on,tp=1", "there is nothing to cut a sequence over at tp 1; legal: off"),
        ("gpt2-xl", "microbatch=3", "must divide the global batch, 32 (family exact); legal: 1, 2, 4, 8, 16, 32"),
        ("gpt2-xl", "microbatch=33", "must be from 1 to the global batch, 32"),
        ("mixtral-8x7b", "ep=3", "--why ep is 3: mixtral-8x7b's 8 experts can be dealt out 1, 2, 4, 8 ways only"),
        ("mixtral-8x7b", "etp=3", "--why etp is 3: must divide tp, 1, 2, 4, 8; legal: 1, 2, 4, 8"),
        ("mixtral-8x7b", "etp=2,tp=1", "--why etp is 2: must divide tp, 1; legal: 1"),
        ("mixtral-8x7b", "ep=2,tp=2,sp=off", "ep above 1 needs sp where tp is above 1"),
        ("gpt2-xl", "cp=two", "--why cp is 'two': must be a whole number from 1"),
        ("gpt2-xl", "order=outer", "must be one of dp-outer, pp-outer"),
    ],
)
def test_a_cut_the_model_does_not_have_is_refused_in_one_line_before_anything_is_solved(
    model, why, said, monkeypatch
):
    monkeypatch.setattr("rephaze.measure.full_on_chip.full_placement_on_chip", None)
    refused = place(model, "--why", why).exception
    assert isinstance(refused, SpecError)
    assert said in str(refused)
    assert "\n" not in str(refused)


def test_a_microbatch_that_leaves_some_over_is_no_matter_to_any_plan():
    found = answer("--family", "any", "--why", "microbatch=3")
    assert found["why"]["plan"]["microbatch"] == 3


def test_choices_that_no_plan_on_the_chip_makes_are_told_with_the_legal_ones():
    for why, said in (
        ("dp=3", "legal: 1, 2, 4, 8"),
        ("shard_group=3", "legal: 1, 2, 4, 8"),
        ("pp=2,dp=4,microbatch=8,chunks=2", "microbatches of a replica that are a multiple of pp"),
        ("pp=9", "dp x pp x tp x cp is at most 8 devices"),
    ):
        other = answer("--why", why)["why"]
        assert other["status"] == "infeasible"
        assert said in other["text"]


def test_what_is_open_is_said_schedules_or_the_search_for_the_plan():
    searched = "not every cut was looked at; none is faster than 1 s"
    assert unproven_said("", 2, 1_500) == "schedules of 2 of 1,500 layer passes not proven"
    assert unproven_said(searched, 0, 1_500) == searched
    assert unproven_said(searched, 2, 1_500) == f"schedules of 2 of 1,500 layer passes not proven; {searched}"
    assert "not proven" not in unproven_said("", 0, 1_500)


def test_an_answer_over_some_cuts_says_so_and_over_which():
    # Eight devices for 26 layers: some interleaved cuts are too many to look at.
    found = answer("--why", "dp=4")["why"]
    assert "of equal numbers of repeated blocks" in found["scope"]
    told = " ".join(place("vit-large", "--why", "dp=4").stdout.split())
    assert "over cuts into stages or chunks of equal numbers of repeated blocks" in told
    # The best of all is a zero-bubble plan that no interleaved cut can beat.
    assert "scope" not in answer()
    assert "of some cuts" not in told


def test_the_headline_of_an_answer_over_some_cuts_claims_no_more():
    found = place_model("vit-large", "h100", num_devices=8, global_batch=32, scenario="default")
    partial = str(replace(found, scope="cuts of equal blocks", reason="it was cut short"))
    assert "none of family exact of some cuts is faster" in partial
    assert "those cuts: cuts of equal blocks" in partial
    assert "not proven: it was cut short" in partial
