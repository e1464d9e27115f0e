"""Fusion of shipped graphs; no torch."""

from collections import Counter

import pytest

from rephaze.workload import fuse_graph, load_model


def flops(graph, b=1):
    return sum(op.num_flops.at(b) for op in graph.ops)


def block(model):
    return max(model.layer_types, key=lambda layer: model.layer_type_of.count(model.layer_types.index(layer)))


def work(graph):
    found = Counter()
    for op in graph.ops:
        for item in op.vector:
            found[item.function] += item.num_elements.at(3)
    return found


@pytest.mark.parametrize("name", ["llama2-7b", "gpt2-xl", "mixtral-8x7b", "t5-large"])
@pytest.mark.parametrize("attention", ["fused", "eager"])
def test_fusion_keeps_the_work_and_never_adds_traffic(name, attention):
    whole = load_model(name, attention)
    for before, after in zip(whole.layer_types, fuse_graph(whole).layer_types, strict=True):
        for one, two in ((before.forward, after.forward), (before.backward, after.backward)):
            assert work(one) == work(two)
            assert flops(one, 3) == flops(two, 3)
            assert len(two.ops) <= len(one.ops)
            traffic = [sum((op.input_bytes + op.output_bytes).at(3) for op in g.ops) for g in (one, two)]
            assert traffic[1] <= traffic[0]
        assert after.saved_bytes == before.saved_bytes


def test_fusion_joins_a_product_with_its_activation_but_not_across_gradients():
    layer = block(fuse_graph(load_model("bert-large")))
    joined = [op for op in layer.forward.ops if op.gemm and any(w.function == "gelu" for w in op.vector)]
    assert len(joined) == 1
    # The input of gelu is kept for backward: the kernel still writes it, beside its result.
    assert joined[0].output_bytes.at(1) == 2 * 512 * 4096 * 2
    assert {op.gradient.value for op in layer.backward.ops} == {"input", "weight"}
