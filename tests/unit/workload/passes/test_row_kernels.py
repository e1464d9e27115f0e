"""Vector work over the same tokens becomes one kernel, and nothing else changes."""

import pytest

from rephaze.types.graph import Affine, Gradient, Op, OpGraph, OpKind, Tensor, VectorWork
from rephaze.workload import fuse_graph, load_model, shard_graph
from rephaze.workload.passes.row_kernels import row_groups


def vector(name, inputs, outputs, gradient=Gradient.NONE, kind=OpKind.VECTOR):
    work = (VectorWork(function="add", num_elements=Affine(0, 8)),) if kind is OpKind.VECTOR else ()
    return Op(
        name=name,
        target=name,
        kind=kind,
        module="",
        gradient=gradient,
        vector=work,
        inputs=inputs,
        outputs=outputs,
    )


def graph_of(ops, sizes):
    tensors = tuple(Tensor(name=f"t{i}", num_elements=size, element_bytes=2) for i, size in enumerate(sizes))
    made = {t: number for number, op in enumerate(ops) for t in op.outputs}
    edges = {(made[t], number) for number, op in enumerate(ops) for t in op.inputs if t in made}
    return OpGraph(ops=tuple(ops), edges=tuple(sorted(edges)), tensors=tensors)


ROW = Affine(0, 8)


def test_a_chain_with_a_row_sum_and_a_second_reader_is_one_kernel():
    ops = [vector("square", (0,), (1,)), vector("mean", (1,), (2,)), vector("scale", (0, 2), (3,))]
    assert row_groups(graph_of(ops, [ROW, ROW, Affine(0, 1), ROW])) == [[0, 1, 2]]


def test_a_sum_over_tokens_stays_apart():
    ops = [vector("mul", (0,), (1,)), vector("sum", (1,), (2,))]
    assert row_groups(graph_of(ops, [ROW, ROW, Affine(8)])) == [[0], [1]]


def test_a_kernel_never_waits_for_what_waits_for_it():
    # first -> product -> last, and first -> last: merged they would wait for the product in their middle.
    ops = [vector("first", (0,), (1,)), vector("mm", (1,), (2,), kind=OpKind.GEMM), vector("last", (1, 2), (3,))]
    assert row_groups(graph_of(ops, [ROW] * 4)) == [[0], [1], [2]]


def test_gradients_of_different_kinds_stay_apart():
    ops = [vector("a", (0,), (1,), Gradient.INPUT), vector("b", (1,), (2,), Gradient.WEIGHT)]
    assert row_groups(graph_of(ops, [ROW] * 3)) == [[0], [1]]


@pytest.mark.parametrize("name", ["llama2-7b", "gpt2-xl", "t5-large", "mixtral-8x7b"])
@pytest.mark.parametrize("tp", [1, 4])
def test_fusion_keeps_the_work_and_saves_traffic(name, tp):
    graph = load_model(name)
    if tp not in graph.legal_tp:
        tp = graph.legal_tp[1]
    plain = shard_graph(graph, tp)
    fused = fuse_graph(plain)
    for before, after in zip(plain.layer_types, fused.layer_types, strict=True):
        assert before.saved_bytes == after.saved_bytes
        for direction in ("forward", "backward"):
            old, new = getattr(before, direction), getattr(after, direction)
            assert sum(op.num_flops.at(3) for op in old.ops) == sum(op.num_flops.at(3) for op in new.ops)
            assert work_of(old) == work_of(new)
            assert traffic(new) <= traffic(old)
            assert all(src < dst for src, dst in new.edges)


def work_of(graph):
    items = [(w.function, w.num_elements.const, w.num_elements.per_sample) for op in graph.ops for w in op.vector]
    return sorted(items)


def traffic(graph):
    return sum(op.input_bytes.at(2) + op.output_bytes.at(2) for op in graph.ops)


def test_a_written_out_norm_is_one_operator():
    block = fuse_graph(load_model("llama2-7b")).layer_types[1]
    norms = [op for op in block.forward.ops if any(work.function == "mean" for work in op.vector)]
    assert len(norms) == 2
    for op in norms:
        assert {"pow", "mean", "rsqrt", "mul"} <= {work.function for work in op.vector}
