"""Extraction with torch: models outside the zoo, users' functions, and what is refused."""

from collections import Counter

import pytest

from rephaze.errors import FileError, MissingExtraError, SpecError, UnsupportedError
from rephaze.workload import fuse_graph, shard_graph
from rephaze.workload.extract.extraction import extract_config, extract_function

pytest.importorskip("torch")
pytest.importorskip("transformers")

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "vocab_size": 2048,
}

OUTSIDE_THE_ZOO = {
    "qwen2": {**SMALL, "model_type": "qwen2", "num_key_value_heads": 2},
    "qwen3": {**SMALL, "model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 16},
    "gemma": {**SMALL, "model_type": "gemma", "num_key_value_heads": 1, "head_dim": 16},
    "gemma2": {**SMALL, "model_type": "gemma2", "num_key_value_heads": 2, "head_dim": 16},
    "gpt_neox": {**SMALL, "model_type": "gpt_neox"},
    "falcon": {
        **SMALL,
        "model_type": "falcon",
        "num_kv_heads": 2,
        "new_decoder_architecture": True,
        "alibi": False,
    },
    "phi": {**SMALL, "model_type": "phi"},
    "phi3": {**SMALL, "model_type": "phi3", "num_key_value_heads": 4, "pad_token_id": 0},
    "mistral": {**SMALL, "model_type": "mistral", "num_key_value_heads": 2},
    "bloom": {"model_type": "bloom", "hidden_size": 64, "n_layer": 6, "n_head": 4, "vocab_size": 2048},
}


@pytest.mark.parametrize("name", OUTSIDE_THE_ZOO)
def test_models_outside_the_zoo_run_unpatched(name):
    graph = extract_config(OUTSIDE_THE_ZOO[name], name=name, seq_len=32)
    total = sum(graph.layer_types[t].num_parameters for t in graph.layer_type_of)
    assert graph.num_parameters == total > 0
    assert len(graph.layer_names) == 8
    assert 2 in graph.legal_tp
    local = shard_graph(graph, 2)
    block = local.layer_types[1]
    assert block.is_sharded
    assert any(op.collective for op in block.forward.ops)
    assert fuse_graph(local).layer_types[1].forward.ops


def test_alternating_blocks_are_two_layer_types():
    graph = extract_config(OUTSIDE_THE_ZOO["gemma2"], name="gemma2", seq_len=32)
    kinds = [graph.layer_type_of[i] for i in range(1, 7)]
    assert kinds == [kinds[0], kinds[1]] * 3
    assert kinds[0] != kinds[1]


@pytest.mark.parametrize(("name", "windows"), [("mistral", [8] * 6), ("gemma2", [8, 0] * 3), ("qwen2", [0] * 6)])
def test_sliding_windows_are_known_to_fused_attention(name, windows):
    graph = extract_config({**OUTSIDE_THE_ZOO[name], "sliding_window": 8}, name=name, seq_len=32)
    for direction in ("forward", "backward"):
        found = [
            op.attention.window_len
            for number in graph.layer_type_of
            for op in getattr(graph.layer_types[number], direction).ops
            if op.attention
        ]
        assert found == windows
    whole = extract_config({**OUTSIDE_THE_ZOO[name], "sliding_window": 64}, name=name, seq_len=32)
    assert all(not op.attention.window_len for op in whole.layer_types[1].forward.ops if op.attention)


def test_latent_attention_is_sharded_by_head_and_its_low_ranks_are_replicated():
    config = {
        **SMALL, "model_type": "deepseek_v3", "num_key_value_heads": 4, "q_lora_rank": 24, "kv_lora_rank": 20,
        "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "n_routed_experts": 8, "n_group": 2,
        "topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "first_k_dense_replace": 3,
    }  # fmt: skip
    graph = extract_config(config, name="latent", seq_len=32)
    assert graph.legal_tp == (1, 2, 4)
    dense, mixture = (graph.layer_types[graph.layer_type_of[i]] for i in (1, 6))
    for layer in (dense, mixture):
        units = {t.name.removesuffix(".weight").split(".")[-1]: t.num_split_units for t in layer.parameters}
        assert (units["q_a_proj"], units["kv_a_proj_with_mqa"]) == (0, 0)
        assert all(units[name] for name in ("q_b_proj", "kv_b_proj", "o_proj"))
        (attention,) = [op for op in layer.forward.ops if op.attention]
        assert (attention.split.value, attention.attention.head_dim, attention.attention.value_dim) == (
            "heads",
            24,
            16,
        )
    assert mixture.expert_param_bytes == 2 * 8 * 3 * 64 * 32
    assert graph.num_experts == 8


def test_experts_with_interleaved_weights_and_biases_are_cut():
    config = {
        **SMALL, "model_type": "gpt_oss", "num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 4,
        "num_experts_per_tok": 2, "sliding_window": 8,
    }  # fmt: skip
    graph = extract_config(config, name="oss", seq_len=32)
    local = shard_graph(graph, 2)
    whole, part = graph.layer_types[1], local.layer_types[1]
    # Down biases are added to whole sums.
    biases = 2 * 4 * 64
    assert whole.expert_param_bytes == 2 * 4 * (3 * 64 * 128 + 2 * 128) + biases
    assert part.expert_param_bytes == 4 * (3 * 64 * 128 + 2 * 128) + biases


def test_a_forward_pass_alone_has_no_backward():
    graph = extract_config(OUTSIDE_THE_ZOO["qwen2"], name="q", seq_len=32, training=False)
    assert not graph.is_training
    assert all(not layer.backward.ops and layer.saved_bytes.at(1) == 0 for layer in graph.layer_types)


def test_the_type_of_numbers_changes_bytes_not_work():
    narrow, wide = (
        extract_config(OUTSIDE_THE_ZOO["gpt_neox"], name="n", seq_len=32, dtype=dtype)
        for dtype in ("bfloat16", "float32")
    )
    assert wide.layer_types[1].param_bytes == 2 * narrow.layer_types[1].param_bytes
    assert [op.num_flops for op in wide.layer_types[1].forward.ops if op.gemm] == [
        op.num_flops for op in narrow.layer_types[1].forward.ops if op.gemm
    ]


USER_MODULE = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)
    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))

class Model(nn.Module):
    def __init__(self, fails=False):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(7))
        self.head = nn.Linear(32, 8)
        self.fails = fails
    def forward(self, x, y):
        for block in self.blocks:
            x = block(x)
        if self.fails:
            raise ValueError("no such luck")
        return nn.functional.mse_loss(self.head(x), y)

def good(microbatch):
    return Model(), {"x": torch.randn(microbatch, 10, 32), "y": torch.randn(microbatch, 10, 8)}

def failing(microbatch):
    return Model(fails=True), (torch.randn(microbatch, 10, 32), torch.randn(microbatch, 10, 8))

def strange(microbatch):
    class Strange(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Linear(8, 8)
        def forward(self, x):
            y = torch.fft.rfft(self.w(x).float()).abs() + torch.fft.rfft(self.w(x).float()).abs()
            return torch.linalg.matrix_exp(y.transpose(1, 2) @ y).sum()
    return Strange(), torch.randn(microbatch, 4, 8)

def quadratic(microbatch):
    class Contrast(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Linear(8, 8)
        def forward(self, x):
            y = self.w(x)
            return (y @ y.T).sum()
    return Contrast(), torch.randn(microbatch, 8)

def no_tuple(microbatch):
    return Model()

def no_argument():
    return good(1)
"""


@pytest.fixture(scope="module")
def user_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("user") / "mine.py"
    path.write_text(USER_MODULE)
    return path


def test_a_users_function(user_file):
    graph = extract_function(f"{user_file}:good", dtype="float32")
    assert graph.num_parameters == 7 * (32 * 128 + 128 + 128 * 32 + 32) + 32 * 8 + 8
    assert len(graph.layer_names) == 9 or len(graph.layer_names) == 8
    block = graph.layer_types[graph.layer_type_of[1]]
    assert sum(op.num_flops.at(1) for op in block.forward.ops) == 2 * 2 * 10 * 32 * 128
    # Column then row: one all-reduce each way. The head meets whole targets, so it stays whole.
    assert 128 in graph.legal_tp
    local = shard_graph(graph, 4)
    block = local.layer_types[local.layer_type_of[1]]
    for ops in (block.forward, block.backward):
        assert Counter(op.kind.value for op in ops.ops)["collective"] == 1


@pytest.mark.parametrize(
    ("name", "error", "expected"),
    [
        ("failing", UnsupportedError, "the module failed in forward: no such luck"),
        ("strange", UnsupportedError, "operators that are not in the map: "),
        ("quadratic", UnsupportedError, "square of the microbatch"),
        ("no_tuple", SpecError, "must return a module and its inputs"),
        ("no_argument", SpecError, "must take the microbatch size"),
        ("goood", SpecError, "did you mean 'good'?"),
    ],
)
def test_what_a_users_function_can_do_wrong(user_file, name, error, expected):
    with pytest.raises(error) as caught:
        extract_function(f"{user_file}:{name}")
    text = str(caught.value)
    assert expected in text
    assert "\n" not in text


def test_unknown_operators_come_all_at_once_with_counts(user_file):
    with pytest.raises(UnsupportedError) as caught:
        extract_function(f"{user_file}:strange")
    assert "aten._fft_r2c (2x)" in str(caught.value)
    assert "matrix_exp" in str(caught.value)


def test_a_file_that_fails_on_import(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("import no_such_module_at_all\n")
    with pytest.raises(FileError, match="importing it failed"):
        extract_function(f"{path}:make")
    with pytest.raises(FileError, match="no such file"):
        extract_function(f"{tmp_path / 'none.py'}:make")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "lama"}, "did you mean"),
        ({}, "model_type is None"),
        ({"model_type": "llama", "architectures": ["LlamaForMusic"]}, "is not an architecture"),
        ({"model_type": "llama", "hidden_size": "wide"}, "llama"),
    ],
)
def test_configs_that_are_refused(config, expected):
    with pytest.raises((SpecError, UnsupportedError)) as caught:
        extract_config(config, name="config.json")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_that_are_refused():
    config = OUTSIDE_THE_ZOO["qwen2"]
    with pytest.raises(SpecError, match="attention is 'flash'"):
        extract_config(config, name="q", attention="flash")
    with pytest.raises(SpecError, match="dtype is 'int8'"):
        extract_config(config, name="q", dtype="int8")
    with pytest.raises(SpecError, match="seq_len is 1"):
        extract_config(config, name="q", seq_len=1)
    gpt2 = {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
    with pytest.raises(SpecError, match="positions for 64"):
        extract_config(gpt2, name="g", seq_len=65)


def test_without_torch_the_extra_is_named(monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))
    with pytest.raises(MissingExtraError, match=r"pip install 'rephaze\[extract\]'"):
        extract_config(OUTSIDE_THE_ZOO["qwen2"], name="q")
