"""Backward passes of shipped models in two parts."""

import pytest

from rephaze.types.graph import Gradient, OpKind, TensorRole
from rephaze.workload import ZOO_NAMES, fuse_graph, load_model, shard_graph
from rephaze.workload.passes.split_backward import input_part, input_part_positions
from rephaze.workload.passes.storage_values import trace_values


def layers(name, tp=1, sequence_parallel=False, attention="fused"):
    return fuse_graph(shard_graph(load_model(name, attention), tp, sequence_parallel)).layer_types


def gemm_flops(ops):
    return sum(op.num_flops.at(1) for op in ops if op.kind is OpKind.GEMM)


@pytest.mark.parametrize("name", ZOO_NAMES)
@pytest.mark.parametrize("attention", ["fused", "eager"])
def test_the_input_part_needs_nothing_of_the_rest(name, attention):
    model = load_model(name, attention)
    settings = [(1, False)]
    if 4 in model.legal_tp:
        settings += [(4, False)] if model.seq_len % 4 else [(4, False), (4, True)]
    for tp, sequence_parallel in settings:
        for layer in layers(name, tp, sequence_parallel, attention):
            graph, positions = layer.backward, set(input_part_positions(layer))
            part = input_part(layer)
            rest = [op for n, op in enumerate(graph.ops) if n not in positions]
            assert sorted([*part.ops, *rest], key=lambda op: op.name) == sorted(graph.ops, key=lambda op: op.name)
            assert not any(dst in positions and src not in positions for src, dst in graph.edges)
            traced = trace_values(graph)
            for position in positions:
                assert {traced.values[n].maker for n in traced.read_o[position]} <= positions | {-1}
            named = {(part.ops[src].name, part.ops[dst].name) for src, dst in part.edges}
            whole = {(graph.ops[src].name, graph.ops[dst].name) for src, dst in graph.edges}
            inside = {op.name for op in part.ops}
            assert named == {(src, dst) for src, dst in whole if src in inside and dst in inside}
            # No gradient that leaves the layer waits in the rest, but those of tied weights.
            assert not any(
                graph.tensors[t].role is TensorRole.OUTPUT and op.gradient is not Gradient.WEIGHT
                for op in rest
                for t in op.outputs
            )


@pytest.mark.parametrize("name", ["llama2-7b", "gpt3-175b", "bert-large", "mixtral-8x7b", "opt-350m", "vit-large"])
def test_half_of_the_products_are_for_weights(name):
    embedding, block, head = layers(name)[:3]
    assert input_part(embedding).ops == ()
    for layer in (block, head):
        assert gemm_flops(input_part(layer).ops) == pytest.approx(gemm_flops(layer.backward.ops) / 2, rel=0.01)


def test_attention_scores_have_no_weights():
    eager = layers("llama2-7b", attention="eager")[1]
    share = 1 - gemm_flops(input_part(eager).ops) / gemm_flops(eager.backward.ops)
    assert 0.4 < share < 0.45


def test_a_weights_operator_that_an_outgoing_gradient_needs_is_in_the_input_part():
    """With sequence parallelism a gradient is gathered once: first for a weight, then for the input."""
    layer = layers("llama2-7b", 4, sequence_parallel=True)[1]
    moved = [op for op in input_part(layer).ops if op.gradient is Gradient.WEIGHT and op.kind is not OpKind.VIEW]
    assert [op.kind for op in moved] == [OpKind.COLLECTIVE, OpKind.COLLECTIVE]
    # And an all-reduce of a norm's weights, found beside the input's gradient, may wait.
    bert = layers("bert-large", 4, sequence_parallel=True)[1]
    names = {op.name for op in input_part(bert).ops}
    late = [op for op in bert.backward.ops if op.gradient is Gradient.INPUT and op.name not in names]
    assert late
    assert {op.kind for op in late} == {OpKind.COLLECTIVE}


def test_gradients_of_tied_weights_may_wait():
    """They leave the head, to be summed where the embedding is."""
    head = load_model("gpt2-xl").layer_types[2]
    graph, positions = head.backward, input_part_positions(head)
    leaving = [
        n for n, op in enumerate(graph.ops) for t in op.outputs if graph.tensors[t].role is TensorRole.OUTPUT
    ]
    assert {(graph.ops[n].gradient, n in positions) for n in leaving} == {
        (Gradient.WEIGHT, False),
        (Gradient.INPUT, True),
    }
    assert len(input_part(layers("gpt2-xl")[2]).ops) > 0
