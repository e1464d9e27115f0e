from dataclasses import replace

from rephaze.types.graph import Affine
from rephaze.workload import load_model, shard_graph
from rephaze.workload.summary import summarize


def test_each_stack_is_counted_by_its_path_and_each_layer_as_often_as_it_stands():
    found = summarize(load_model("t5-large"))
    assert found.blocks == {"encoder.block": 24, "decoder.block": 24}
    assert found.num_layers > 48 > found.num_layer_types


def test_work_and_memory_are_those_of_every_layer_at_one_sample():
    graph = load_model("vit-large")
    found = summarize(graph)
    by_layer = [graph.layer_types[number] for number in graph.layer_type_of]
    assert found.forward_flops_per_sample == sum(op.num_flops.at(1) for t in by_layer for op in t.forward.ops)
    assert found.backward_flops_per_sample == sum(op.num_flops.at(1) for t in by_layer for op in t.backward.ops)
    assert found.saved_bytes_per_sample == sum(t.saved_bytes.at(1) + t.saved_input_bytes.at(1) for t in by_layer)
    assert found.forward_flops_per_sample > 0


def test_what_is_kept_of_a_layers_input_counts_too():
    graph = load_model("vit-large")
    more = tuple(replace(t, saved_input_bytes=t.saved_input_bytes + Affine(5, 2)) for t in graph.layer_types)
    longer = summarize(replace(graph, layer_types=more)).saved_bytes_per_sample
    assert longer == summarize(graph).saved_bytes_per_sample + 7 * len(graph.layer_names)


def test_of_a_sharded_graph_the_work_is_one_chips_and_the_parameters_the_models():
    graph = load_model("llama2-7b")
    whole, local = summarize(graph), summarize(shard_graph(graph, 4))
    assert local.num_parameters == whole.num_parameters
    assert local.forward_flops_per_sample * 4 == whole.forward_flops_per_sample
