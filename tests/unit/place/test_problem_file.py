import copy

import pytest

from rephaze.errors import SpecError
from rephaze.place.problem_file import PLAN_FORMAT, parse_plan, parse_problem
from rephaze.types.placement import Optimizer, PlacementModel, Recompute, RecomputePolicy


def layer(name, **more):
    return {
        "name": name, "param_bytes": 4, "activation_bytes": 2.5, "forward_s": 1e-3, "backward_s": 2e-3,
        "tensor_parallel": False, **more,
    }  # fmt: skip


def paper_file():
    graph = {
        "tp": 1,
        "layers": [layer("a"), layer("b"), layer("c")],
        "edges": [{"src": "a", "dst": "b", "bytes": 8}, {"src": "b", "dst": "c", "bytes": 8.5}],
    }
    return {
        "format": "rephaze.placement-problem/1",
        "cost_model": "paper",
        "cluster": {"num_devices": 8, "device_memory_bytes": 1e9, "link_bytes_per_s": 1e6},
        "training": {"num_microbatches": 16, "recompute": False, "optimizer": "sgd"},
        "graphs": [graph, {**copy.deepcopy(graph), "tp": 2}],
    }


def own_file():
    data = paper_file()
    data["cost_model"] = "1f1b"
    data["cluster"] = {
        "num_devices": 8, "device_memory_bytes": 1e9, "hbm_bytes_per_s": 1e12,
        "levels": [
            {"num_devices": 4, "bytes_per_s": 3e11, "latency_s": 1e-6},
            {"num_devices": 8, "bytes_per_s": 5e10},
        ],
    }  # fmt: skip
    data["training"] = {"global_batch": 33, "optimizer": "adam", "precision": "fp32"}
    for graph in data["graphs"]:
        graph["tied"] = [{"layers": ["a", "c"], "param_bytes": 3}]
        graph["layers"][1] |= {"input_bytes": 1, "working_bytes": 7}
    data["graphs"].append({**copy.deepcopy(data["graphs"][0]), "microbatch": 4})
    return data


def test_a_paper_problem_is_read():
    problem = parse_problem(paper_file())
    assert problem.cost_model is PlacementModel.PAPER
    assert problem.recompute is RecomputePolicy.NONE
    assert problem.precision.resident_ratio == 2.0
    assert [graph.tp for graph in problem.graphs] == [1, 2]
    assert problem.graphs[0].links[1].payload_bytes == 8.5


def test_our_own_problem_is_read():
    problem = parse_problem(own_file())
    assert problem.recompute is RecomputePolicy.AUTO
    assert problem.optimizer is Optimizer.ADAM
    assert problem.precision.name == "fp32"
    assert [problem.microbatches_of(graph) for graph in problem.graphs] == [33, 33, 9]
    assert problem.graphs[0].tied[0].layers == (0, 2)
    assert problem.graphs[0].layers[1].working_bytes == 7.0
    assert [level.num_devices for level in problem.cluster.levels] == [4, 8]


def test_a_fraction_of_a_microbatch_is_dropped_by_the_paper_and_refused_by_us():
    data = paper_file()
    data["training"]["num_microbatches"] = 1365.33
    assert parse_problem(data).num_microbatches == 1365
    data["cost_model"] = "1f1b"
    with pytest.raises(SpecError, match=r"num_microbatches is 1365\.33: must be a whole number"):
        parse_problem(data)


def test_graphs_may_list_their_layers_in_any_order():
    data = own_file()
    data["graphs"][1]["layers"].reverse()
    data["graphs"][1]["edges"].reverse()
    problem = parse_problem(data)
    assert [entry.name for entry in problem.graphs[1].layers] == ["a", "b", "c"]
    assert {(link.src, link.dst) for link in problem.graphs[1].links} == {(0, 1), (1, 2)}
    assert problem.graphs[1].tied[0].layers == (0, 2)


def at(data, path, value):
    """Set one place of a file; a missing last key is added."""
    *inner, last = path
    target = data
    for step in inner:
        target = target[step]
    if value is KeyError:
        del target[last]
    else:
        target[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("format",), "rephaze.placement-problem/9", "format"),
        (("cluster", "num_devices"), 0, "cluster.num_devices is 0"),
        (("cluster", "num_devices"), 8.5, "cluster.num_devices"),
        (("cluster", "num_devices"), True, "cluster.num_devices"),
        (("cluster", "link_bytes_per_s"), 0, "cluster.link_bytes_per_s"),
        (("cluster", "link_bytes_per_s"), KeyError, "link_bytes_per_s or levels"),
        (("cluster", "device_memory_bytes"), 0, "cluster.device_memory_bytes"),
        (("training", "num_microbatches"), 0, "training.num_microbatches is 0"),
        (("training", "num_microbatches"), 0.5, "training.num_microbatches"),
        (("training", "num_microbatches"), KeyError, "training.num_microbatches"),
        (("training", "optimizer"), "lion", "training.optimizer is 'lion'"),
        (("training", "recompute"), "auto", "training.recompute is 'auto'"),
        (("training", "precision"), "fp32", "training.precision is 'fp32'"),
        (("training", "optimiser"), "sgd", "optimiser is 'sgd': is not a known field"),
        (("graphs",), [], "graphs is"),
        (("graphs", 0, "tp"), 0, "graphs.0.tp is 0"),
        (("graphs", 1, "tp"), 10_001, "graphs.1.tp is 10001"),
        (("graphs", 1, "tp"), 1, "graphs.1.tp is 1: is given twice"),
        (("graphs", 0, "layers"), [], "graphs.0.layers"),
        (("graphs", 1, "layers", 2, "name"), "a", "graphs.1.layers.2.name is 'a'"),
        (("graphs", 1, "layers", 0, "param_bytes"), -1, "graphs.1.layers.0.param_bytes is -1"),
        (("graphs", 1, "layers", 0, "activation_bytes"), -1, "graphs.1.layers.0.activation_bytes"),
        (("graphs", 1, "layers", 0, "forward_s"), -1, "graphs.1.layers.0.forward_s"),
        (("graphs", 1, "layers", 0, "backward_s"), float("inf"), "graphs.1.layers.0.backward_s"),
        (("graphs", 0, "layers", 1, "tensor_parallel"), True, "must be false at tp 1"),
        (("graphs", 0, "layers", 1, "forward_s"), KeyError, "graphs.0.layers.1.forward_s"),
        (("graphs", 0, "layers", 1, "working_bytes"), 3, "cost model 1f1b"),
        (("graphs", 1, "layers", 2), layer("d"), "graphs.1"),
        (("graphs", 0, "edges"), KeyError, "graphs.0.edges"),
        (("graphs", 0, "edges", 0, "dst"), "z", "graphs.0.edges.0 is 'z'"),
        (("graphs", 0, "edges", 0, "dst"), "a", "two different layers"),
        (("graphs", 0, "edges", 0, "bytes"), -1, "graphs.0.edges.0.bytes"),
        (("graphs", 0, "edges", 1), {"src": "a", "dst": "b", "bytes": 1}, "given twice"),
        (("graphs", 1, "edges", 1), {"src": "a", "dst": "c", "bytes": 1}, "same edges"),
    ],
)
def test_a_broken_rule_is_named(path, value, says):
    with pytest.raises(SpecError) as caught:
        parse_problem(at(paper_file(), path, value))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("cluster", "levels", 0, "num_devices"), 3, "larger multiple"),
        (("cluster", "levels", 1, "num_devices"), 4, "larger multiple"),
        (("training", "precision"), "fp23", "did you mean 'fp32'"),
        (
            ("training", "precision"),
            {"weight_bytes": 2, "gradient_bytes": -1, "state_bytes": 0},
            "gradient_bytes",
        ),
        (("training", "num_microbatches"), 4, "not both"),
        (("graphs", 0, "microbatch"), 0, "graphs.0.microbatch is 0"),
        (("graphs", 0, "tied", 0, "param_bytes"), 5, "param_bytes of the first layer, a"),
        (("graphs", 0, "tied", 0, "layers"), ["a", "q"], "graphs.0.tied.0.layers is 'q'"),
        (("graphs", 0, "layers", 1, "input_bytes"), -2, "input_bytes"),
    ],
)
def test_a_broken_rule_of_our_own_fields_is_named(path, value, says):
    with pytest.raises(SpecError) as caught:
        parse_problem(at(own_file(), path, value))
    assert says in str(caught.value)


def test_a_huge_degree_is_allowed_on_a_huge_cluster():
    data = at(paper_file(), ("cluster", "num_devices"), 20_000)
    assert parse_problem(at(data, ("graphs", 1, "tp"), 10_001)).graphs[1].tp == 10_001


def plan_file():
    stages = [{"layers": ["a"], "recompute": "stage"}, {"layers": ["b", "c"]}]
    return {"format": PLAN_FORMAT, "problem": own_file(), "plan": {"tp": 2, "dp": 2, "stages": stages}}


def test_a_plan_file_is_read():
    problem, plan = parse_plan(plan_file())
    assert (plan.tp, plan.dp, plan.microbatch, plan.pp) == (2, 2, 1, 2)
    assert [stage.layers for stage in plan.stages] == [(0,), (1, 2)]
    assert [stage.recompute for stage in plan.stages] == [Recompute.STAGE, Recompute.NONE]
    assert problem.graphs[0].layers[0].name == "a"


def test_a_plan_with_an_unknown_layer_is_refused():
    data = plan_file()
    data["plan"]["stages"][0]["layers"] = ["aa"]
    with pytest.raises(SpecError, match=r"plan\.stages\.0\.layers is 'aa'"):
        parse_plan(data)
