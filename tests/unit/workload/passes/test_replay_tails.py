"""What follows a product runs alone from the product's result."""

from rephaze.types.graph import OpKind
from rephaze.workload import fuse_graph, load_model, shard_graph
from rephaze.workload.passes.replay_tails import find_tails


def tails(name, layer, tp=1):
    whole = shard_graph(load_model(name), tp)
    fused = fuse_graph(whole).layer_types[layer].forward
    found = find_tails(fused, whole.layer_types[layer].forward)
    return fused, {fused.ops[tail.whole].name: tail.op for tail in found}


def test_a_tail_has_the_work_after_the_product_and_reads_its_result():
    fused, found = tails("bert-large", 1)
    tail = found["addmm_4"]
    kernel = next(op for op in fused.ops if op.name == "addmm_4")
    ffn = 512 * 4096
    assert [work.function for work in tail.vector] == ["gelu"], "the bias belongs to the product"
    assert [work.function for work in kernel.vector] == ["bias", "gelu"]
    assert tail.kind is OpKind.VECTOR
    assert (tail.num_flops.at(1), tail.param_bytes) == (0, 0)
    assert (tail.input_bytes.at(1), tail.output_bytes.at(1)) == (ffn * 2, ffn * 2)


def test_a_tail_reads_what_else_its_kernel_reads_after_the_product():
    fused, found = tails("llama2-7b", 1, tp=4)
    tail = found["mm_4"]
    assert [work.function for work in tail.vector] == ["silu", "mul"]
    names = {fused.tensors[t].storage or fused.tensors[t].name for t in tail.inputs}
    assert names == {"mm_4", "mm_5"}
    assert tail.input_bytes.at(3) == 3 * 2 * 4096 * (11008 // 4) * 2


def test_no_tail_where_the_product_stays_on_the_chip_or_nothing_follows():
    fused, found = tails("llama2-7b", 1)
    assert set(found) == {"attention_0", "mm_4"}
    # The residual sum absorbs mm_3, whose own result is never written.
    assert any(op.name == "mm_3" and "add" in op.target for op in fused.ops)
    graph = load_model("llama2-7b").layer_types[1].forward
    assert find_tails(graph, graph) == ()
