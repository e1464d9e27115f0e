"""``rephaze place`` and ``rephaze evaluate`` on files of format 2, as a user calls them."""

import copy
import json

import pytest
from typer.testing import CliRunner

from rephaze.cli.main import app


def problem():
    layers = [
        {
            "name": f"b{v}", "param_bytes": 4e8, "forward_s": 0.01, "backward_s": 0.02, "weight_backward_s": 0.01,
            "keep": [{"bytes": 1e9, "replay_s": 0.0}, {"bytes": 2e8, "replay_s": 0.006}], "block": True,
        }
        for v in range(4)
    ]  # fmt: skip
    return {
        "format": "rephaze.placement-problem/2",
        "cost_model": "full",
        "cluster": {
            "num_devices": 8,
            "device_memory_bytes": 1.2e10,
            "hbm_bytes_per_s": 1e12,
            "levels": [
                {"num_devices": 4, "bytes_per_s": 4e11, "latency_s": 1e-6},
                {"num_devices": 8, "bytes_per_s": 5e10, "latency_s": 5e-6},
            ],
        },
        "training": {"global_batch": 16, "optimizer": "adam", "precision": "mixed"},
        "options": {
            "sharding": ["none", "optimizer", "weights"],
            "shard_group": ["all", "level"],
            "reshard": [True, False],
            "schedule": ["1f1b", "interleaved", "zero-bubble"],
            "chunks": [2],
            "order": ["dp-outer", "pp-outer"],
            "overlap": True,
            "family": "exact",
        },
        "graphs": [
            {
                "tp": 1,
                "cp": 2,
                "microbatch": 1,
                "layers": layers,
                "edges": [{"src": f"b{v}", "dst": f"b{v + 1}", "bytes": 1e6} for v in range(3)],
            }
        ],
    }


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def write(tmp_path):
    def written(record, name="file.json"):
        path = tmp_path / name
        path.write_text(json.dumps(record))
        return path

    return written


def answer_of(done):
    (line,) = done.stdout.splitlines()
    return json.loads(line)


def test_the_plan_placed_is_the_plan_priced(write):
    done = run("place", write(problem()), "--json")
    assert done.exit_code == 0
    found = answer_of(done)
    assert found["status"] == "optimal"
    assert found["bound_s"] == found["batch_s"] == pytest.approx(sum(found["time"].values()))
    plan_file = {"format": "rephaze.placement-plan/2", "problem": problem(), "plan": found["plan"]}
    priced = answer_of(run("evaluate", write(plan_file), "--json"))
    assert priced["batch_s"] == found["batch_s"]
    assert priced["devices"] == found["devices"]
    assert all(
        sum(value for name, value in one.items() if name != "memory_bytes") == pytest.approx(one["memory_bytes"])
        for one in priced["devices"]
    )


def test_the_answer_is_told_in_words(write):
    done = run("place", write(problem()))
    assert done.exit_code == 0
    assert "none of family exact is faster" in done.stdout
    assert "fullest device" in done.stdout


def test_nothing_fits(write):
    small = problem()
    small["cluster"]["device_memory_bytes"] = 1e6
    done = run("place", write(small), "--json")
    assert done.exit_code == 3
    answer = answer_of(done)
    assert answer["status"] == "infeasible"
    assert "more than the 0.0009313 GiB there are" in answer["reason"]
    # With the memory it names there is a plan.
    small["cluster"]["device_memory_bytes"] = answer["needed_memory_bytes"] * (1 + 1e-12)
    assert answer_of(run("place", write(small), "--json"))["status"] == "optimal"


PLAN = {
    "tp": 1, "cp": 2, "dp": 2, "microbatch": 1, "sharding": "weights", "shard_group": 4, "reshard": True,
    "stages": [{"layers": ["b0", "b1"], "keep": 1}, {"layers": ["b2", "b3"]}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"shard_group": 3}, "plan.shard_group is 3: must be a group of the cp 2 x dp 2 replicas: 2, 4"),
        ({"sharding": "zero-3"}, "none, optimizer, gradients, weights"),
        ({"schedule": "zero-bubble"}, "cannot be together with weights gathered"),
        ({"schedule": "interleaved", "chunks": 2}, "interleaved needs pp of 2 or more"),
        ({"chunks": 2}, "must be 1 for 1f1b"),
        (
            {"schedule": "interleaved", "chunks": 2, "dp": 1, "stages": [{"layers": [f"b{v}"]} for v in range(4)]}
            | {"problem": {"training": {"global_batch": 15, "optimizer": "adam"}}},
            "multiple of pp, 2; dp 1 leaves 15 of 15; legal pp: none; or legal dp: 2",
        ),
        ({"dp": 17}, "plan.dp is 17: must be from 1 to the number of microbatches, 16"),
        ({"dp": 4}, "needs 16 devices, the cluster has 8"),
        ({"cp": 3}, "plan.cp is 3: must be one of the problem's graphs, which beside the other degrees have 2"),
        ({"ep": 3}, "plan.ep is 3: must be one of the problem's graphs, which beside the other degrees have 1"),
        ({"sp": True}, "plan.sp is True: must be one of the problem's graphs"),
        ({"cp": 1, "ep": 2}, "must be one of the problem's graphs: tp 1, cp 2, ep 1, etp 1"),
        ({"sharding": "none", "shard_group": 2, "reshard": False}, "must be 1 or left out without sharding"),
        ({"stages": [{"layers": ["b0", "b1", "b2"]}]}, "1 layers are in no stage"),
        ({"stages": [{"layers": ["b2", "b3"]}, {"layers": ["b0", "b1"]}]}, "must not feed an earlier stage"),
        ({"stages": [{"layers": ["b0", "b1", "b9"]}]}, "b9"),
        ({"colour": 1}, "colour"),
    ],
)
def test_a_plan_that_makes_no_sense_is_one_line(write, change, said):
    change = dict(change)
    changed = problem() | change.pop("problem", {})
    plan_file = {"format": "rephaze.placement-plan/2", "problem": changed, "plan": PLAN | change}
    done = run("evaluate", write(plan_file), "--json")
    assert done.exit_code == 1
    message = answer_of(done)["message"]
    assert said in message
    assert "\n" not in message


def test_zero_bubble_needs_the_backward_pass_in_two_parts(write):
    whole = problem()
    for layer in whole["graphs"][0]["layers"][1:]:
        del layer["weight_backward_s"]
    plan = PLAN | {"schedule": "zero-bubble", "reshard": False}
    plan_file = {"format": "rephaze.placement-plan/2", "problem": whole, "plan": plan}
    message = answer_of(run("evaluate", write(plan_file), "--json"))["message"]
    assert "needs weight_backward_s in every layer; 3 have none: b1, b2, b3" in message
    assert "schedule 1f1b or interleaved" in message


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("options", "sharding"), ["all"], "none, optimizer, gradients, weights"),
        (("options", "family"), "jax", "any, exact, megatron, torchtitan, maxtext"),
        (("options", "chunks"), [1], "must be from 2"),
        (("graphs", 0, "etp"), 3, "must divide tp"),
        (("graphs", 0, "layers", 0, "keep"), [{"bytes": 1.0, "replay_s": 1.0}], "must be 0"),
        (("graphs", 0, "layers", 0, "weight_backward_s"), 1.0, "is part of backward_s"),
        (("graphs", 0, "edges", 0), {"src": "b1", "dst": "b0", "bytes": 1.0}, "topological order"),
        (("cluster", "levelss"), [], "levelss"),
    ],
)
def test_a_problem_that_makes_no_sense_is_one_line(write, place, value, said):
    broken = copy.deepcopy(problem())
    target = broken
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = value
    done = run("place", write(broken), "--json")
    assert done.exit_code == 1
    message = answer_of(done)["message"]
    assert said in message
    assert "\n" not in message


def test_why_compares_with_the_best_under_the_choices(write):
    found = answer_of(run("place", write(problem()), "--why", "sharding=weights,reshard=on", "--json"))
    why = found["why"]
    assert why["choices"] == {"sharding": "weights", "reshard": True}
    assert why["plan"]["sharding"] == "weights"
    assert why["loss_ratio"] == pytest.approx(why["batch_s"] / found["batch_s"] - 1)
    assert sum(why["loss_s"].values()) == pytest.approx(why["batch_s"] - found["batch_s"])
    assert set(why["loss_s"]) == {name.removesuffix("_s") for name in found["causes"]}
    told = " ".join(run("place", write(problem()), "--why", "sharding=weights,reshard=on").stdout.split())
    assert "Why not sharding weights, reshard on? it is 4.67% slower. Of the difference: gathers" in told
    assert "the alternative: tp 1" in told


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("sharding=zero", "--why sharding is 'zero': must be one of none, optimizer, gradients, weights"),
        ("shardings=none", "did you mean 'sharding'?"),
        ("tp=two", "--why tp is 'two': must be a whole number from 1"),
        ("sp=maybe", "must be one of on, true, off, false"),
        ("tp=1,tp=2", "is given twice"),
    ],
)
def test_choices_that_make_no_sense_are_one_line(write, why, said):
    done = run("place", write(problem()), "--why", why, "--json")
    assert done.exit_code == 1
    message = answer_of(done)["message"]
    assert said in message
    assert "\n" not in message


def test_choices_that_cannot_run_say_why(write):
    why = answer_of(run("place", write(problem()), "--why", "dp=3", "--json"))["why"]
    assert why["status"] == "infeasible"
    assert "dp times the microbatch size must divide the global batch, 16" in why["text"]
    assert "legal: 1, 2, 4" in why["text"]
    asked = "sharding=none,pp=1,keep=0"
    tight = problem()
    tight["cluster"]["device_memory_bytes"] = 9e9
    why = answer_of(run("place", write(tight), "--why", asked, "--json"))["why"]
    assert why["needed_memory_bytes"] > 9e9
    assert "on device 0 of a pipeline" in why["text"]


def test_what_it_costs_that_a_plan_can_be_launched(write):
    # Seven samples: one replica alone divides them. Four, two samples each but one of the last, are faster.
    uneven = problem()
    uneven["training"]["global_batch"] = 7
    uneven["options"]["schedule"] = ["1f1b"]
    found = answer_of(run("place", write(uneven), "--why", "family=any", "--json"))
    assert found["why"]["loss_ratio"] < 0
    assert "family exact costs" in found["why"]["launch_note"]
    assert "family exact costs" in run("place", write(uneven), "--why", "family=any").stdout


def test_a_plan_that_does_not_fit_says_what_would(write):
    tight = problem()
    tight["cluster"]["device_memory_bytes"] = 5.2e9
    plan_file = {"format": "rephaze.placement-plan/2", "problem": tight, "plan": PLAN}
    done = run("evaluate", write(plan_file), "--json")
    assert done.exit_code == 3
    remedies = answer_of(done)["remedies"]
    assert remedies[0].startswith("device 1 of a pipeline is")
    assert any(remedy.startswith("keep 1 on device 1 would fit") for remedy in remedies)
    assert any("would do as it is" in remedy for remedy in remedies)
    assert "keep 1 on device 1 would fit" in run("evaluate", write(plan_file)).stdout


def test_the_replay_and_the_causes_stand_in_every_answer(write):
    found = answer_of(run("place", write(problem()), "--json"))
    plan_file = {"format": "rephaze.placement-plan/2", "problem": problem(), "plan": PLAN}
    priced = answer_of(run("evaluate", write(plan_file), "--json"))
    for answer in (found, priced):
        assert answer["replay_s"] > 0
        assert sum(answer["causes"].values()) == pytest.approx(answer["batch_s"])
        assert "replay_note" not in answer
        assert "timeline" not in answer
    told = run("evaluate", write(plan_file)).stdout
    assert "replayed pass by pass" in told
    assert "compute" in told


def test_a_replay_well_above_its_formula_says_so(write):
    uneven = problem()
    # Both devices have a short and a long chunk: the same load, which keeps neither busy all the time.
    for layer in uneven["graphs"][0]["layers"][:2]:
        layer["forward_s"] *= 4
        layer["backward_s"] *= 4
    plan = {"tp": 1, "cp": 2, "dp": 1, "microbatch": 1, "schedule": "interleaved", "chunks": 2}
    plan["stages"] = [{"layers": [f"b{v}"]} for v in range(4)]
    plan_file = {"format": "rephaze.placement-plan/2", "problem": uneven, "plan": plan}
    priced = answer_of(run("evaluate", write(plan_file), "--json"))
    assert priced["replay_s"] > 1.02 * priced["batch_s"]
    assert "above the formula" in priced["replay_note"]
    assert "above the formula" in run("evaluate", write(plan_file)).stdout


def test_the_timeline_is_told_and_drawn(write):
    plan_file = {"format": "rephaze.placement-plan/2", "problem": problem(), "plan": PLAN}
    priced = answer_of(run("evaluate", write(plan_file), "--timeline", "--json"))
    events = priced["timeline"]
    assert set(events[0]) == {"device", "kind", "microbatch", "chunk", "start_s", "end_s"}
    assert {event["device"] for event in events} == {0, 1}
    assert max(event["end_s"] for event in events) == pytest.approx(priced["replay_s"])
    done = run("evaluate", write(plan_file), "--timeline")
    rows = [line for line in done.stdout.splitlines() if line.strip().startswith(("0 ", "1 ")) and "F" in line]
    assert [row.split()[0] for row in rows[-2:]] == ["0", "1"]
    assert "B" in rows[-1]


def test_family_alone_asks_what_launching_costs(write):
    uneven = problem()
    uneven["training"]["global_batch"] = 7
    uneven["options"]["schedule"] = ["1f1b"]
    found = answer_of(run("place", write(uneven), "--why", "family", "--json"))
    assert (found["family"], found["why"]["choices"]) == ("exact", {"family": "any"})
    samples = found["why"]["plan"]["dp"]
    assert found["why"]["launch_note"].endswith(f"cannot launch: {7 / samples:.6g} microbatches a replica")
    # Without a family every plan counts: exact ones are what it is set beside.
    del uneven["options"]["family"]
    free = answer_of(run("place", write(uneven), "--why", "family", "--json"))
    assert (free["family"], free["why"]["choices"]) == ("any", {"family": "exact"})
    assert free["why"]["launch_note"] == found["why"]["launch_note"]
    assert free["batch_s"] == found["why"]["batch_s"]
