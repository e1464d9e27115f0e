"""Cuts of shipped graphs: the collectives of a layer line by line, what adds up over devices, what is refused."""

from collections import Counter
from dataclasses import replace

import pytest

from rephaze.errors import SpecError
from rephaze.types.cut import GraphCut
from rephaze.types.graph import CollectiveKind, CommGroup, ContextForm, OpKind
from rephaze.workload import cut_graph, fuse_graph, load_model, shard_graph
from rephaze.workload.passes.parallel import GraphCutter

BYTES = 2
LLAMA = {"s": 8192, "h": 4096, "heads": 32, "kv": 8, "d": 128}  # llama3-8b
MIXTRAL = {"s": 4096, "h": 4096, "heads": 32, "kv": 8, "d": 128, "experts": 8, "k": 2, "inner": 14336}


def block(model):
    return max(model.layer_types, key=lambda layer: model.layer_type_of.count(model.layer_types.index(layer)))


def cut_block(name, **cut):
    return block(cut_graph(load_model(name), GraphCut(**cut)))


def moved(graph, b=1, *, least=2**16):
    """(kind, group, members, messages, payload) of all collectives but sums of a few numbers, with counts."""
    return Counter(
        (c.kind.value, c.group.value, c.num_members, c.num_messages, c.payload_bytes.at(b))
        for c in (op.collective for op in graph.ops if op.collective)
        if c.payload_bytes.at(b) > least
    )


def flops(graph, b=1):
    return sum(op.num_flops.at(b) for op in graph.ops)


def experts_of(graph):
    return [op for op in graph.ops if op.gemm and op.gemm.num_experts]


# --- the table of collectives, line by line ------------------------------------------------------------------


@pytest.mark.parametrize("cp", [1, 4])
@pytest.mark.parametrize("b", [1, 3])
def test_tensor_parallelism_alone_all_reduces_twice_each_way(cp, b):
    layer = cut_block("llama3-8b", tp=4, cp=cp, context_form="gather" if cp > 1 else "")
    size = b * LLAMA["s"] // cp * LLAMA["h"] * BYTES
    for graph in (layer.forward, layer.backward):
        ours = {key: count for key, count in moved(graph, b).items() if key[1] == "tp"}
        assert ours == {("all_reduce", "tp", 4, 1, size): 2}


@pytest.mark.parametrize("cp", [1, 4])
def test_with_sequence_parallelism_they_become_gathers_and_scatters(cp):
    layer = cut_block("llama3-8b", tp=4, sp=True, cp=cp)
    size = LLAMA["s"] // cp * LLAMA["h"] * BYTES
    gather, scatter = ("all_gather", "tp", 4, 1, size), ("reduce_scatter", "tp", 4, 1, size)

    def ours(graph):
        return {key: count for key, count in moved(graph).items() if key[1] == "tp"}

    assert ours(layer.forward) == {gather: 2, scatter: 2}
    # Two gradients, and again the two inputs of products, for the weights' gradients.
    assert ours(layer.backward) == {gather: 4, scatter: 2}


@pytest.mark.parametrize(("name", "shape"), [("llama3-8b", LLAMA), ("mixtral-8x7b", MIXTRAL)])
@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("cp", [2, 8])
@pytest.mark.parametrize("b", [1, 5])
class TestContextForms:
    def kv_bytes(self, shape, tp, b):
        return 2 * b * shape["s"] * shape["kv"] // tp * shape["d"] * BYTES

    def of_group(self, graph, b):
        return {key: count for key, count in moved(graph, b).items() if key[1] == "cp"}

    def test_gather(self, name, shape, tp, cp, b):
        layer = cut_block(name, tp=tp, cp=cp, context_form=ContextForm.GATHER)
        size = self.kv_bytes(shape, tp, b)
        gather = ("all_gather", "cp", cp, 1, size)
        assert self.of_group(layer.forward, b) == {gather: 1}
        assert self.of_group(layer.backward, b) == {gather: 1, ("reduce_scatter", "cp", cp, 1, size): 1}

    def test_ring(self, name, shape, tp, cp, b):
        layer = cut_block(name, tp=tp, cp=cp, context_form=ContextForm.RING)
        size = self.kv_bytes(shape, tp, b) // cp
        assert self.of_group(layer.forward, b) == {("send", "cp", cp, cp - 1, size): 1}
        assert self.of_group(layer.backward, b) == {("send", "cp", cp, 2 * (cp - 1), size): 1}

    def test_ulysses(self, name, shape, tp, cp, b):
        layer = cut_block(name, tp=tp, cp=cp, context_form=ContextForm.ULYSSES)
        heads, kv = shape["heads"] // tp, shape["kv"] // tp
        # A key head that two chips need goes to both.
        sent = heads + 2 * max(kv, cp)
        rows = b * shape["s"] // cp * shape["d"] * BYTES
        expected = Counter(("all_to_all", "cp", cp, 1, rows * count) for count in (sent, heads))
        assert self.of_group(layer.forward, b) == expected
        assert self.of_group(layer.backward, b) == expected


@pytest.mark.parametrize("tp", [1, 4])
@pytest.mark.parametrize("cp", [1, 2])
@pytest.mark.parametrize("ep", [2, 8])
@pytest.mark.parametrize("b", [1, 3])
def test_expert_parallelism_has_two_all_to_alls_each_way(tp, cp, ep, b):
    layer = cut_block("mixtral-8x7b", tp=tp, sp=tp > 1, cp=cp, ep=ep)
    tokens = b * MIXTRAL["s"] // cp // tp
    expected = {("all_to_all", "ep", ep, 1, tokens * MIXTRAL["k"] * MIXTRAL["h"] * BYTES): 2}
    for graph in (layer.forward, layer.backward):
        assert {key: count for key, count in moved(graph, b).items() if key[1] in ("ep", "etp")} == expected


@pytest.mark.parametrize("ep", [1, 4])
def test_chips_that_share_an_expert_gather_tokens_and_scatter_sums(ep):
    tp, etp = 4, 2
    layer = cut_block("mixtral-8x7b", tp=tp, sp=True, ep=ep, etp=etp)
    size = MIXTRAL["s"] // tp * MIXTRAL["k"] * MIXTRAL["h"] * BYTES
    expected = {
        ("all_gather", "etp", etp, 1, etp * size): 1,
        ("reduce_scatter", "etp", etp, 1, etp * size): 1,
    }
    if ep > 1:
        expected["all_to_all", "ep", ep, 1, size] = 2
    for graph in (layer.forward, layer.backward):
        assert {key: count for key, count in moved(graph).items() if key[1] in ("ep", "etp")} == expected


def test_experts_apart_leave_one_gather_and_one_scatter_to_tensor_parallelism():
    layer = cut_block("mixtral-8x7b", tp=4, sp=True, ep=4)
    size = MIXTRAL["s"] * MIXTRAL["h"] * BYTES
    ours = {key: count for key, count in moved(layer.forward).items() if key[1] == "tp"}
    assert ours == {("all_gather", "tp", 4, 1, size): 1, ("reduce_scatter", "tp", 4, 1, size): 1}


def test_groups_have_their_strides():
    layer = cut_block("mixtral-8x7b", tp=4, sp=True, cp=2, ep=4, etp=2)
    strides = {op.collective.group: op.collective.stride for op in layer.forward.ops if op.collective}
    assert strides == {CommGroup.TP: 1, CommGroup.CP: 4, CommGroup.ETP: 1, CommGroup.EP: 2}


# --- shapes and sums -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tp", "cp", "ep", "etp"), [(1, 1, 4, 1), (2, 2, 4, 1), (4, 1, 4, 2), (4, 2, 1, 1)])
def test_an_experts_products_have_its_tokens_and_its_part(tp, cp, ep, etp):
    layer = cut_block("mixtral-8x7b", tp=tp, sp=tp > 1, cp=cp, ep=ep, etp=etp)
    tokens = MIXTRAL["s"] // cp // tp * MIXTRAL["k"] * ep * etp // MIXTRAL["experts"]
    h, inner, own = MIXTRAL["h"], MIXTRAL["inner"] // etp, MIXTRAL["experts"] // ep
    up, down = (
        (op.gemm.batch.at(1), *(getattr(op.gemm, a).at(1) for a in "mnk")) for op in experts_of(layer.forward)
    )
    assert up == (own, tokens, 2 * inner, h)
    assert down == (own, tokens, h, inner)
    for op in (*experts_of(layer.forward), *experts_of(layer.backward)):
        dims = [op.gemm.batch, op.gemm.m, op.gemm.n, op.gemm.k]
        product = 2
        for size in dims:
            product *= size.at(1)
        assert product == op.num_flops.at(1)
        assert op.gemm.num_experts == own
    assert layer.expert_param_bytes * ep * etp == block(load_model("mixtral-8x7b")).expert_param_bytes


def test_one_expert_group_does_what_the_model_counts_for_its_tokens():
    whole, same = load_model("mixtral-8x7b"), cut_graph(load_model("mixtral-8x7b"), GraphCut(ep=1))
    assert same == whole
    forward = sum(op.num_flops.at(1) for op in experts_of(block(whole).forward))
    dense = 3 * 2 * MIXTRAL["s"] * MIXTRAL["h"] * MIXTRAL["inner"]
    assert forward == MIXTRAL["k"] * dense


def test_experts_over_more_chips_keep_the_activations_of_each():
    # Forced balance: a chip gets as many tokens as it gives.
    whole, spread = block(load_model("mixtral-8x7b")), cut_block("mixtral-8x7b", ep=8)
    assert spread.saved_bytes == whole.saved_bytes
    assert spread.param_bytes - spread.expert_param_bytes == whole.param_bytes - whole.expert_param_bytes


def test_imbalance_grows_products_and_what_is_kept_at_the_experts_but_not_what_travels():
    even, uneven = (cut_block("mixtral-8x7b", ep=8, imbalance_factor=factor) for factor in (1.0, 1.5))
    for one, other in zip(experts_of(even.forward), experts_of(uneven.forward), strict=True):
        assert other.gemm.m.at(1) == 1.5 * one.gemm.m.at(1)
        assert other.num_flops == one.num_flops
    assert moved(even.forward) == moved(uneven.forward)
    assert uneven.saved_bytes.at(1) > even.saved_bytes.at(1)
    assert uneven.param_bytes == even.param_bytes
    silu = [next(op for op in layer.forward.ops if "silu" in op.name) for layer in (even, uneven)]
    assert silu[1].vector[0].num_elements.at(2) == 1.5 * silu[0].vector[0].num_elements.at(2)


def test_a_ring_divides_the_work_of_attention_over_its_steps():
    cp = 8
    whole = next(op for op in block(load_model("llama3-8b")).forward.ops if op.attention)
    layer = cut_block("llama3-8b", cp=cp)
    most, last = [op for op in layer.forward.ops if op.attention]
    assert most.num_flops.at(1) == whole.num_flops.at(1) * (cp - 1) // cp**2
    assert last.num_flops.at(1) == whole.num_flops.at(1) // cp**2
    position = {op.name: number for number, op in enumerate(layer.forward.ops)}
    send = next(op for op in layer.forward.ops if op.collective and op.collective.kind is CollectiveKind.SEND)
    before_last = {src for src, dst in layer.forward.edges if dst == position[last.name]}
    assert {position[most.name], position[send.name]} <= before_last
    # The messages run beside the first steps.
    assert (position[send.name], position[most.name]) not in layer.forward.edges


def test_a_ring_of_one_sends_nothing():
    assert cut_graph(load_model("llama3-8b"), GraphCut(cp=1, context_form=ContextForm.RING)) == load_model(
        "llama3-8b"
    )


def test_trading_heads_leaves_whole_sequences():
    layer = cut_block("llama3-8b", tp=2, cp=4, context_form=ContextForm.ULYSSES)
    for op in (*layer.forward.ops, *layer.backward.ops):
        if op.attention:
            assert (op.attention.num_heads, op.attention.num_kv_heads) == (4, 1)
            assert (op.attention.query_len, op.attention.key_len) == (8192, 8192)


def test_sequence_parallelism_changes_no_product():
    plain, sp = (cut_block("mixtral-8x7b", tp=4, sp=sp, cp=2) for sp in (False, True))
    for one, other in ((plain.forward, sp.forward), (plain.backward, sp.backward)):
        products = [
            (op.name, op.gemm, op.attention) for op in one.ops if op.split != "none" and (op.gemm or op.attention)
        ]
        again = {op.name: (op.name, op.gemm, op.attention) for op in other.ops}
        assert products
        assert all(again[product[0]] == product for product in products)


def test_gradients_of_experts_are_summed_elsewhere():
    for etp in (1, 2):
        layer = cut_block("mixtral-8x7b", tp=4, sp=True, ep=2, etp=etp)
        weights = {op.outputs[0] for op in experts_of(layer.backward) if op.gradient == "weight"}
        read = {t for op in layer.backward.ops if op.kind is OpKind.COLLECTIVE for t in op.inputs}
        assert weights
        assert not weights & read


def test_shared_experts_are_summed_apart_and_may_run_beside_the_all_to_all():
    # Without a cut of experts, routed and shared results are added before one all-reduce.
    together = cut_block("deepseek-v3", tp=4)
    assert [op.name for op in together.forward.ops if op.collective][-1].startswith("add")
    layer = cut_block("deepseek-v3", tp=4, sp=True, ep=8)
    ops, size = layer.forward.ops, 4096 * 7168 * BYTES
    assert moved(layer.forward)["reduce_scatter", "tp", 4, 1, size] == 2
    position = {op.name: number for number, op in enumerate(ops)}
    (scatter,) = [op for op in ops if op.collective and "shared_experts" in op.module and "reduce" in op.name]
    needed, waiting = set(), [position[scatter.name]]
    while waiting:
        last = waiting.pop()
        found = {src for src, dst in layer.forward.edges if dst == last} - needed
        needed |= found
        waiting.extend(found)
    assert not any(ops[n].collective and ops[n].collective.group is CommGroup.EP for n in needed)


def test_biases_of_experts_go_with_them():
    whole, local = block(load_model("gpt-oss-120b")), cut_block("gpt-oss-120b", tp=2, sp=True, ep=4, etp=2)
    sizes = {t.name.split(".")[-1]: t.num_elements.const for t in local.parameters}
    before = {t.name.split(".")[-1]: t.num_elements.const for t in whole.parameters}
    for name, parts in (("gate_up_proj", 8), ("gate_up_proj_bias", 8), ("down_proj", 8), ("down_proj_bias", 4)):
        assert sizes[name] * parts == before[name]
    gradients = {
        t.num_elements.const
        for op in local.backward.ops
        if op.gradient == "weight" and "experts" in op.module and op.kind is not OpKind.VIEW
        for t in (local.backward.tensors[number] for number in op.outputs)
    }
    names = ("gate_up_proj", "gate_up_proj_bias", "down_proj", "down_proj_bias")
    assert gradients == {sizes[name] for name in names}
    # Only gradients of tokens travel, once each way: what was kept is at the experts already.
    assert sum(op.collective.group is CommGroup.EP for op in local.backward.ops if op.collective) == 2


@pytest.mark.parametrize("cut", [{"cp": 4}, {"cp": 2, "context_form": "ulysses"}, {"tp": 2, "sp": True, "ep": 4}])
def test_a_cut_graph_is_fused_as_any_other(cut):
    graph = cut_graph(load_model("mixtral-8x7b"), GraphCut(**cut))
    fused = fuse_graph(graph)
    assert (fused.cp, fused.ep, fused.num_experts) == (graph.cp, graph.ep, 8)
    for one, other in zip(graph.layer_types, fused.layer_types, strict=True):
        assert flops(one.forward) == flops(other.forward)
        assert moved(one.backward) == moved(other.backward)
        assert one.expert_param_bytes == other.expert_param_bytes


def test_a_cut_by_tensor_parallelism_alone_is_what_sharding_gives():
    for name, tp, sp in (("llama2-7b", 4, True), ("mixtral-8x7b", 2, False), ("mixtral-8x7b", 2, True)):
        whole = load_model(name)
        assert cut_graph(whole, GraphCut(tp=tp, sp=sp)) == shard_graph(whole, tp, sp)
    assert shard_graph(load_model("mixtral-8x7b"), 2).etp == 2
    assert shard_graph(load_model("llama2-7b"), 2).etp == 1


# --- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cut", "said"),
    [
        ("llama3-8b", {"tp": 3}, "tp is 3: llama3-8b allows 1, 2, 4, 8"),
        ("llama3-8b", {"cp": 3}, "cp is 3: must divide the sequence of 8192 tokens; one of 1, 2, 4, 8"),
        ("vit-large", {"cp": 2}, "must divide the sequence of 197 tokens; one of 1, 197"),
        ("llama3-8b", {"tp": 8, "sp": True, "cp": 2048}, "leaves 4 tokens, which tp 8 does not divide .* 1024$"),
        ("llama3-8b", {"tp": 8, "cp": 8, "context_form": "ulysses"}, "the 4 heads of a chip at tp 8 .* 1, 2, 4, "),
        ("llama3-8b", {"cp": 8, "context_form": "rings"}, "one of ring, gather, ulysses; did you mean 'ring'"),
        ("llama3-8b", {"ep": 2}, "ep is 2: must be 1: llama3-8b has no experts"),
        ("llama3-8b", {"tp": 2, "etp": 2}, "etp is 2: must be 1: llama3-8b has no experts"),
        ("mixtral-8x7b", {"ep": 3}, "ep is 3: must divide the 8 experts; one of 1, 2, 4, 8"),
        ("mixtral-8x7b", {"tp": 4, "sp": True, "ep": 2, "etp": 3}, "etp is 3: must divide tp 4; one of 1, 2, 4"),
        ("mixtral-8x7b", {"tp": 4, "ep": 2}, "ep is 2: with tp 4 needs sequence parallelism"),
        ("mixtral-8x7b", {"tp": 4, "etp": 1}, "etp is 1: with tp 4 needs sequence parallelism"),
        ("mixtral-8x7b", {"ep": 2, "imbalance_factor": 0.5}, "imbalance_factor is 0.5: must be at least 1"),
        ("mixtral-8x7b", {"cp": 0}, "cp is 0: must be from 1"),
        ("gpt2-xl", {"tp": 5, "sp": True, "cp": 2}, "tp 5 does not divide .*; turn sequence parallelism off"),
    ],
)  # fmt: skip
def test_what_a_model_does_not_allow_is_one_line_with_what_it_does(name, cut, said):
    with pytest.raises(SpecError, match=said) as error:
        cut_graph(load_model(name), GraphCut(**cut))
    assert "\n" not in str(error.value)


def test_experts_take_whole_groups():
    # Four devices are neither a part of a context group of six nor several of them.
    with pytest.raises(SpecError, match="takes 4 devices, no group of tp 1 and cp 6"):
        cut_graph(_with_sequence(load_model("mixtral-8x7b"), 6), GraphCut(cp=6, ep=4))


def _with_sequence(graph, seq_len):
    return replace(graph, seq_len=seq_len)


def test_attention_as_separate_products_cannot_be_divided():
    with pytest.raises(SpecError, match="use fused attention"):
        cut_graph(load_model("llama2-7b", "eager"), GraphCut(cp=2))


def test_a_cut_graph_is_not_cut_again():
    for cut in (GraphCut(tp=2), GraphCut(cp=2), GraphCut(ep=2)):
        with pytest.raises(SpecError, match="cut first, then fuse"):
            cut_graph(cut_graph(load_model("mixtral-8x7b"), cut), GraphCut())
    with pytest.raises(SpecError, match="cut first, then fuse"):
        cut_graph(fuse_graph(load_model("mixtral-8x7b")), GraphCut())


def test_legal_degrees_and_forms():
    llama, mixtral = load_model("llama3-8b"), load_model("mixtral-8x7b")
    assert llama.legal_cp == tuple(2**i for i in range(14))
    assert (llama.legal_ep, mixtral.legal_ep) == ((1,), (1, 2, 4, 8))
    assert (llama.num_experts, mixtral.num_experts) == (0, 8)
    assert GraphCutter(llama).legal_context_forms(8, 4) == (
        ContextForm.RING,
        ContextForm.GATHER,
        ContextForm.ULYSSES,
    )
    assert GraphCutter(llama).legal_context_forms(8, 8) == (ContextForm.RING, ContextForm.GATHER)
    assert GraphCutter(llama).legal_context_forms(8, 1) == (ContextForm.NONE,)
    assert GraphCutter(llama).legal_context_forms(8, 3) == ()
