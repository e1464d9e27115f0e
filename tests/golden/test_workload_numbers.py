"""Shipped graphs against published totals and closed forms worked out by hand from the shapes."""

import pytest

from rephaze.workload import load_model


def block_of(name, attention):
    model = load_model(name, attention)
    counts = [model.layer_type_of.count(i) for i in range(len(model.layer_types))]
    return model, model.layer_types[counts.index(max(counts))]


def flops(graph):
    return sum(op.num_flops.at(1) for op in graph.ops)


def saved(layer):
    return (layer.saved_bytes + layer.saved_input_bytes).at(1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama2-7b", 6_738_415_616),
        ("gpt3-175b", 174_604_259_328),
        ("mixtral-8x7b", 46_702_792_704),
        ("llama3-8b", 8_030_261_248),
        ("llama3-70b", 70_553_706_496),
        ("gpt2-xl", 1_557_611_200),
        ("opt-350m", 331_196_416),
        ("bert-large", 336_226_108),
        ("t5-large", 737_668_096),
        ("deepseek-v3", 671_026_404_352),
        ("qwen3-235b-a22b", 235_093_634_560),
        ("gpt-oss-120b", 116_829_156_672),
    ],
)
def test_parameters_are_those_published(name, expected):
    model = load_model(name)
    assert model.num_parameters == expected
    # Tied weights count once, in the first layer that uses them.
    assert sum(model.layer_types[t].num_parameters for t in model.layer_type_of) == expected


@pytest.mark.parametrize("attention", ["fused", "eager"])
@pytest.mark.parametrize(
    ("name", "s", "h", "vocabulary"),
    [
        ("gpt2-xl", 1024, 1600, 50257),
        ("gpt3-175b", 2048, 12288, 50257),
        ("megatron-gpt2-8.3b", 1024, 3072, 50257),
    ],
)
def test_gpt_flops(name, s, h, vocabulary, attention):
    model, block = block_of(name, attention)
    products = 24 * s * h * h
    scores = 4 * s * s * h
    assert flops(block.forward) == products + scores
    # Fused attention makes the scores again on the way back: five products where forward has two.
    assert flops(block.backward) == 2 * products + (5 * scores // 2 if attention == "fused" else 2 * scores)
    assert flops(model.layer_types[-1].forward) == 2 * s * h * vocabulary
    assert flops(model.layer_types[-1].backward) == 4 * s * h * vocabulary


@pytest.mark.parametrize("attention", ["fused", "eager"])
@pytest.mark.parametrize(
    ("name", "s", "h", "kv", "inner"),
    [
        ("llama2-7b", 4096, 4096, 4096, 11008),
        ("llama3-8b", 8192, 4096, 1024, 14336),
        ("llama3-70b", 8192, 8192, 1024, 28672),
    ],
)
def test_llama_flops(name, s, h, kv, inner, attention):
    _, block = block_of(name, attention)
    products = 2 * s * (2 * h * h + 2 * h * kv + 3 * h * inner)
    scores = 4 * s * s * h
    assert flops(block.forward) == products + scores
    assert flops(block.backward) == 2 * products + (5 * scores // 2 if attention == "fused" else 2 * scores)


def test_mixtral_flops_count_two_experts_a_token_and_the_router():
    s, h, inner = 4096, 4096, 14336
    _, block = block_of("mixtral-8x7b", "fused")
    attention = 2 * s * (2 * h * h + 2 * h * 1024) + 4 * s * s * h
    assert flops(block.forward) == attention + 2 * s * h * 8 + 2 * 2 * s * 3 * h * inner


def test_deepseek_flops_count_low_rank_projections_and_the_shared_expert():
    s, h, heads = 4096, 7168, 128
    model, block = block_of("deepseek-v3", "fused")
    queries = h * 1536 + 1536 * heads * (128 + 64)
    keys = h * (512 + 64) + 512 * heads * (128 + 128)
    scores = 2 * heads * s * s * (192 + 128)
    experts = h * 256 + (8 + 1) * 3 * h * 2048
    products = queries + keys + heads * 128 * h + experts
    assert flops(block.forward) == 2 * s * products + scores
    # Scores again and gradients of queries and keys over 192 numbers, of scores and values over 128.
    assert flops(block.backward) == 4 * s * products + 2 * heads * s * s * (3 * 192 + 2 * 128)
    assert [model.layer_type_of.count(i) for i in range(4)] == [1, 3, 58, 1]
    assert block.expert_param_bytes == 2 * 256 * 3 * h * 2048


def test_qwen_flops_count_eight_of_its_experts():
    s, h = 4096, 4096
    _, block = block_of("qwen3-235b-a22b", "fused")
    products = 2 * h * 64 * 128 + 2 * h * 4 * 128 + h * 128 + 8 * 3 * h * 1536
    assert flops(block.forward) == 2 * s * products + 4 * s * s * 64 * 128
    assert block.expert_param_bytes == 2 * 128 * 3 * h * 1536


def test_gpt_oss_alternates_windows_and_counts_model_flops_as_if_there_were_none():
    s, h = 4096, 2880
    model = load_model("gpt-oss-120b")
    products = 2 * h * 64 * 64 + 2 * h * 8 * 64 + h * 128 + 4 * 3 * h * h
    windows = []
    for number in model.layer_type_of[1:-1]:
        layer = model.layer_types[number]
        (attention,) = [op for op in layer.forward.ops if op.attention]
        windows.append(attention.attention.window_len)
        assert flops(layer.forward) == 2 * s * products + 4 * s * s * 64 * 64
        # Weights and biases of all experts.
        assert layer.expert_param_bytes == 2 * 128 * (3 * h * h + 3 * h)
    assert windows == 18 * [128, 0]


def test_vit_flops_count_the_patches_as_a_product():
    model = load_model("vit-large")
    assert flops(model.layer_types[0].forward) == 2 * 196 * (3 * 16 * 16) * 1024
    # An image needs no gradient: only the weight's product runs backward.
    assert flops(model.layer_types[0].backward) == 2 * 196 * (3 * 16 * 16) * 1024


def test_gpt_saved_bytes_in_units_of_a_hidden_tensor():
    s, h, heads = 1024, 1600, 25
    hidden, statistics, mask = 2 * s * h, 2 * 4 * s, s * h
    _, layer = block_of("gpt2-xl", "fused")
    norms = 2 * (hidden + statistics)
    attention = hidden + 3 * hidden + 2 * hidden + 4 * s * heads  # input; qkv; result as made and joined; row sums
    # The MLP's input; four tensors of the decomposed gelu and its result, four times as wide.
    mlp = hidden + 5 * 4 * hidden
    assert saved(layer) == norms + attention + mlp + 2 * mask
    _, eager = block_of("gpt2-xl", "eager")
    # Scores as float32, their dropout mask, the dropped-out copy, a causal mask; no row sums, one result.
    scores = heads * s * s
    assert saved(eager) == saved(layer) - 4 * s * heads - hidden + 4 * scores + scores + 2 * scores + s * s


def test_bert_saved_bytes_fused():
    s, h, heads = 512, 1024, 16
    hidden = 2 * s * h
    _, layer = block_of("bert-large", "fused")
    # Input, q, k, v, attention's result (as made, and joined), two norm inputs, the MLP's input: nine hidden
    # tensors; gelu's input and result: eight more; two masks; row statistics.
    expected = 9 * hidden + 8 * hidden + 2 * (s * h) + 2 * 2 * 4 * s + 4 * s * heads
    assert saved(layer) == expected


def test_branches_of_an_encoder_decoder_are_kept():
    model = load_model("t5-large")
    place = {name: i for i, name in enumerate(model.layer_names)}
    edges = {(e.src, e.dst) for e in model.edges}
    last_encoder = place["encoder.block.23"]
    encoder_end = next(dst for src, dst in edges if src == last_encoder)
    # Every decoder block reads the encoder's result, and the position bias of the first block.
    for k in range(24):
        assert (encoder_end, place[f"decoder.block.{k}"]) in edges
        if k:
            assert (place["decoder.block.0"], place[f"decoder.block.{k}"]) in edges
    # The decoder's embedding does not wait for the encoder.
    (start,) = [
        src for src, dst in edges
        if dst == place["decoder.block.0"] and src != encoder_end
    ]  # fmt: skip
    assert not any(dst == start for _, dst in edges)
    (tied,) = model.tied
    assert tied.layers == (0, start, len(model.layer_names) - 1)


@pytest.mark.parametrize("name", ["opt-350m", "bert-large", "gpt2-xl", "llama2-7b", "vit-large", "mixtral-8x7b"])
def test_a_decoder_or_encoder_is_a_chain(name):
    model = load_model(name)
    count = len(model.layer_names)
    assert {(e.src, e.dst) for e in model.edges} == {(i, i + 1) for i in range(count - 1)}
    assert len({e.payload_bytes for e in model.edges}) == 1
