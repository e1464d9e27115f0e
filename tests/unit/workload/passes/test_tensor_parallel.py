"""Sharding by hand on a small layer, and of shipped graphs; no torch."""

from collections import Counter

import pytest

from rephaze.errors import SpecError
from rephaze.types.graph import (
    Affine,
    GemmDims,
    LayerEdge,
    ModelGraph,
    Op,
    OpGraph,
    OpKind,
    Split,
    Tensor,
    TensorRole,
    TiedParameter,
    VectorWork,
)
from rephaze.workload import ZOO_NAMES, fuse_graph, load_model, shard_graph
from rephaze.workload.derived_sizes import layer_type, op_graph


def flops(graph, b=1):
    return sum(op.num_flops.at(b) for op in graph.ops)


def collectives(graph):
    return Counter(op.collective.kind.value for op in graph.ops if op.collective)


def block(model):
    return max(model.layer_types, key=lambda layer: model.layer_type_of.count(model.layer_types.index(layer)))


SEQ_LEN, HIDDEN, WIDE = 6, 8, 16


def hand_model():
    """A column parallel product, an activation, a row parallel product, and a residual sum."""

    def tensor(name, columns, role=TensorRole.LOCAL, **more):
        size = Affine(0, SEQ_LEN * columns)
        return Tensor(name=name, num_elements=size, element_bytes=2, role=role, has_tokens=True, **more)

    def weight(name):
        return Tensor(
            name=name, num_elements=Affine(HIDDEN * WIDE), element_bytes=2, role=TensorRole.PARAMETER,
            num_split_units=WIDE,
        )  # fmt: skip

    def gemm(name, n, k, inputs, outputs, split):
        tokens = Affine(0, SEQ_LEN)
        return Op(
            name=name, target="aten.mm", kind=OpKind.GEMM, module=name, inputs=inputs, outputs=outputs,
            gemm=GemmDims(batch=Affine(1), m=tokens, n=Affine(n), k=Affine(k), shared_rhs=True),
            num_flops=tokens.times(2 * n * k), split=split, num_split_units=WIDE,
        )  # fmt: skip

    tensors = (
        tensor("x", HIDDEN, TensorRole.INPUT),
        weight("up"),
        tensor("wide", WIDE, num_split_units=WIDE),
        weight("down"),
        tensor("narrow", HIDDEN, is_reduced=True),
        tensor("sum", HIDDEN, TensorRole.OUTPUT),
    )
    residual = Op(
        name="add", target="aten.add", kind=OpKind.VECTOR, module="", inputs=(4, 0), outputs=(5,),
        vector=(VectorWork(function="add", num_elements=Affine(0, SEQ_LEN * HIDDEN)),),
    )  # fmt: skip
    ops = [
        gemm("up", WIDE, HIDDEN, (0, 1), (2,), Split.N),
        gemm("down", HIDDEN, WIDE, (2, 3), (4,), Split.K),
        residual,
    ]
    layer = layer_type(
        "layer", op_graph(ops, tensors), OpGraph(ops=(), edges=()), parameters=(tensors[1], tensors[3]),
        saved=(tensors[2],), saved_inputs=(), inputs=(tensors[0],),
    )  # fmt: skip
    return ModelGraph(
        name="hand", seq_len=SEQ_LEN, dtype="bfloat16", attention="fused", tp=1, legal_tp=(1, 2, 4),
        layer_types=(layer,), layer_names=("a", "b"), layer_type_of=(0, 0),
        edges=(LayerEdge(src=0, dst=1, payload_bytes=Affine(0, SEQ_LEN * HIDDEN * 2)),),
        tied=(TiedParameter(name="up", layers=(0, 1), param_bytes=HIDDEN * WIDE * 2),),
        num_parameters=2 * HIDDEN * WIDE,
    )  # fmt: skip


def test_one_chip_has_its_columns_and_rows_and_an_all_reduce_of_the_full_result():
    local = shard_graph(hand_model(), 2)
    layer = local.layer_types[0]
    up, down, reduce, residual = layer.forward.ops
    assert (up.gemm.n, up.gemm.k) == (Affine(WIDE // 2), Affine(HIDDEN))
    assert (down.gemm.n, down.gemm.k) == (Affine(HIDDEN), Affine(WIDE // 2))
    assert up.num_flops == down.num_flops == Affine(0, SEQ_LEN * 2 * WIDE * HIDDEN // 2)
    assert (reduce.name, reduce.module) == ("narrow.all_reduce", "down")
    assert reduce.collective.payload_bytes == Affine(0, SEQ_LEN * HIDDEN * 2)
    assert reduce.collective.num_members == 2
    # The residual sum reads the result of the all-reduce, not the partial sum.
    assert layer.forward.edges == ((0, 1), (1, 2), (2, 3))
    assert residual.num_elements == residual.vector[0].num_elements == Affine(0, SEQ_LEN * HIDDEN)
    assert layer.num_parameters == HIDDEN * WIDE
    assert layer.saved_bytes == Affine(0, SEQ_LEN * WIDE * 2 // 2)
    assert layer.input_bytes == Affine(0, SEQ_LEN * HIDDEN * 2)


def test_tied_bytes_are_sharded_with_their_parameter_and_edges_are_replicated():
    local = shard_graph(hand_model(), 4)
    assert local.tied[0].param_bytes == HIDDEN * WIDE * 2 // 4
    assert local.edges == hand_model().edges


def test_with_sequence_parallelism_what_was_replicated_is_sharded_along_the_sequence():
    local = shard_graph(hand_model(), 2, sequence_parallel=True)
    layer = local.layer_types[0]
    gather, up, _, scatter, residual = layer.forward.ops
    assert (gather.name, scatter.name) == ("x.all_gather", "narrow.reduce_scatter")
    assert gather.collective.payload_bytes == scatter.collective.payload_bytes == Affine(0, SEQ_LEN * HIDDEN * 2)
    assert up.gemm.m == Affine(0, SEQ_LEN)
    assert residual.num_elements == residual.vector[0].num_elements == Affine(0, SEQ_LEN * HIDDEN // 2)
    # It adds its own part of the input, not the gathered one.
    assert layer.forward.edges == ((0, 1), (1, 2), (2, 3), (3, 4))
    assert layer.input_bytes == Affine(0, SEQ_LEN * HIDDEN * 2 // 2)
    assert local.edges[0].payload_bytes == Affine(0, SEQ_LEN * HIDDEN * 2 // 2)


def test_one_chip_alone_has_everything():
    assert shard_graph(hand_model(), 1) == hand_model()


def test_the_sequence_must_divide():
    with pytest.raises(SpecError, match="must divide the sequence of 6 tokens"):
        shard_graph(hand_model(), 4, sequence_parallel=True)


@pytest.mark.parametrize(
    ("name", "attention", "tp"),
    [("llama2-7b", "fused", 4), ("llama2-7b", "eager", 4), ("megatron-gpt2-xl", "fused", 4),
     ("megatron-gpt2-xl", "eager", 4), ("gpt3-175b", "fused", 8), ("gpt2-xl", "fused", 5),
     ("llama3-70b", "fused", 8), ("bert-large", "fused", 4), ("vit-large", "fused", 2),
     ("opt-350m", "fused", 4)],
)  # fmt: skip
def test_a_block_divides_exactly_with_two_all_reduces_each_way(name, attention, tp):
    whole = load_model(name, attention)
    before, after = block(whole), block(shard_graph(whole, tp))
    for b in (1, 3):
        assert flops(before.forward, b) == tp * flops(after.forward, b)
        assert flops(before.backward, b) == tp * flops(after.backward, b)
    assert collectives(after.forward) == {"all_reduce": 2}
    assert collectives(after.backward) == {"all_reduce": 2}
    payload = before.input_bytes.at(1)
    for graph in (after.forward, after.backward):
        assert all(op.collective.payload_bytes.at(1) == payload for op in graph.ops if op.collective)


def test_llama_holds_the_published_plans_parameters_at_tp_4():
    # Embedding, two blocks, final norm and head of Llama2-7B under the plan published with its code:
    # attention and MLP weights, embedding and head divided by four, norms whole.
    local = shard_graph(load_model("llama2-7b"), 4)
    embedding, layer, head = local.layer_types
    attention, mlp = 4 * 4096 * 4096, 3 * 4096 * 11008
    assert layer.num_parameters == (attention + mlp) // 4 + 2 * 4096
    assert embedding.num_parameters == 32000 * 4096 // 4
    assert embedding.num_parameters + 2 * layer.num_parameters + head.num_parameters == 166_744_064


def test_collectives_follow_their_producer():
    layer = block(shard_graph(load_model("llama2-7b"), 2))
    for graph in (layer.forward, layer.backward):
        for position, op in enumerate(graph.ops):
            if op.kind is OpKind.COLLECTIVE:
                (producer,) = [src for src, dst in graph.edges if dst == position]
                assert graph.ops[producer].module == op.module
                assert any(src == position for src, _ in graph.edges)


def test_sequence_parallelism_trades_all_reduces_for_scatters_and_gathers():
    whole = load_model("llama2-7b")
    plain, parallel = (block(shard_graph(whole, 4, sp)) for sp in (False, True))
    assert collectives(parallel.forward) == {"reduce_scatter": 2, "all_gather": 2}
    # Backward gathers two gradients, and again two inputs for the weights' gradients; two norms sum theirs.
    assert collectives(parallel.backward) == {"reduce_scatter": 2, "all_gather": 4, "all_reduce": 2}
    assert flops(parallel.forward) == flops(plain.forward)
    assert flops(parallel.backward) == flops(plain.backward)
    assert parallel.saved_bytes.at(1) == block(whole).saved_bytes.at(1) // 4


def test_vocabularies_are_padded_and_their_loss_exchanges_statistics():
    whole = load_model("gpt3-175b")
    local = shard_graph(whole, 8)
    head, local_head = whole.layer_types[-1], local.layer_types[-1]
    product = next(op for op in head.forward.ops if op.gemm)
    local_product = next(op for op in local_head.forward.ops if op.gemm)
    assert product.gemm.n.const == 50257
    assert local_product.gemm.n.const == -(-50257 // 8)
    small = [op.collective.payload_bytes.at(1) for op in local_head.forward.ops if op.collective]
    assert small
    assert max(small) <= 2 * 4 * 2048


@pytest.mark.parametrize("name", ZOO_NAMES)
def test_every_legal_degree_of_every_model_shards_and_fuses(name):
    whole = load_model(name)
    for tp in whole.legal_tp:
        local = shard_graph(whole, tp)
        fused = fuse_graph(local)
        for before, after, merged in zip(whole.layer_types, local.layer_types, fused.layer_types, strict=True):
            assert after.num_parameters * tp >= before.num_parameters >= after.num_parameters
            assert after.saved_bytes.at(2) <= before.saved_bytes.at(2)
            for one, two, three in (
                (before.forward, after.forward, merged.forward),
                (before.backward, after.backward, merged.backward),
            ):
                assert flops(two) * tp >= flops(one)
                assert flops(three) == flops(two)
                assert all(src < dst for graph in (two, three) for src, dst in graph.edges)


def test_an_illegal_degree_is_refused_with_the_legal_ones():
    with pytest.raises(SpecError, match="gpt2-xl allows 1, 5, 25"):
        shard_graph(load_model("gpt2-xl"), 2)
    with pytest.raises(SpecError, match="shard first"):
        shard_graph(fuse_graph(load_model("gpt2-xl")), 5)


def test_vit_has_an_odd_number_of_tokens_for_sequence_parallelism():
    with pytest.raises(SpecError, match="197"):
        shard_graph(load_model("vit-large"), 2, sequence_parallel=True)


def test_experts_stay_experts():
    layer = block(load_model("mixtral-8x7b"))
    experts = [
        op for graph in (layer.forward, layer.backward) for op in graph.ops if op.gemm and op.gemm.num_experts
    ]
    assert len(experts) == 6
    for op in experts:
        assert op.gemm.num_experts == op.gemm.batch.at(1) == 8
        dims = [op.gemm.batch, op.gemm.m, op.gemm.n, op.gemm.k]
        product = 2
        for size in dims:
            product *= size.at(2)
        assert product == op.num_flops.at(2)
    local = block(shard_graph(load_model("mixtral-8x7b"), 2))
    assert {op.gemm.num_experts for op in local.forward.ops if op.gemm and op.gemm.num_experts} == {8}


def test_every_weight_product_has_two_gradients():
    for name in ("llama2-7b", "gpt2-xl", "mixtral-8x7b"):
        layer = block(load_model(name))
        forward = [op for op in layer.forward.ops if op.gemm and op.param_bytes]
        backward = Counter(op.gradient.value for op in layer.backward.ops if op.gemm)
        assert backward == {"input": len(forward), "weight": len(forward)}


def test_a_split_names_what_it_divides():
    layer = block(load_model("llama2-7b"))
    splits = Counter(op.split for op in layer.forward.ops if op.gemm)
    assert splits == {Split.N: 5, Split.K: 2}
