import subprocess
import sys

import pytest

from rephaze.errors import SpecError
from rephaze.workload import ZOO_NAMES, load_model, write_graph
from rephaze.workload.summary import summarize
from rephaze.workload.zoo import zoo_config

# The scenario's table: blocks, hidden size, heads, sequence length.
PAPER = {
    "opt-350m": (24, 1024, 16, 2048),
    "bert-large": (24, 1024, 16, 512),
    "gpt2-xl": (48, 1600, 25, 1024),
    "llama2-7b": (32, 4096, 32, 4096),
    "megatron-bert": (24, 1024, 16, 512),
    "megatron-gpt2-xl": (40, 1024, 16, 1024),
    "megatron-gpt2-2.5b": (54, 1920, 20, 1024),
    "megatron-gpt2-8.3b": (72, 3072, 24, 1024),
    "gpt3-175b": (96, 12288, 96, 2048),
}


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_models_have_the_papers_shapes(name):
    model = load_model(name)
    blocks, hidden, heads, seq_len = PAPER[name]
    assert sum(summarize(model).blocks.values()) == blocks
    assert model.seq_len == seq_len
    attention = next(op.attention for op in model.layer_types[1].forward.ops if op.attention)
    assert (attention.num_heads, attention.query_len) == (heads, seq_len)
    assert attention.head_dim * heads == hidden
    assert attention.causal == ("bert" not in name)


@pytest.mark.parametrize("name", ZOO_NAMES)
def test_every_model_names_its_source(name):
    assert "paper" in zoo_config(name)["source"] or "report" in zoo_config(name)["source"]


def test_the_zoo_loads_without_torch():
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
from rephaze.workload import ZOO_NAMES, fuse_graph, load_model, shard_graph
for name in ZOO_NAMES:
    model = load_model(name)
    fuse_graph(shard_graph(model, model.legal_tp[-1]))
print(len(ZOO_NAMES))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "17"


def test_a_name_that_is_nearly_one():
    with pytest.raises(SpecError, match="did you mean 'llama2-7b'"):
        load_model("lama2-7b")


def test_a_graph_file_by_path(tmp_path):
    path = tmp_path / "mine.json.gz"
    write_graph(load_model("vit-large"), path)
    assert load_model(str(path)) == load_model("vit-large")


def test_eager_attention_keeps_scores():
    fused, eager = (summarize(load_model("llama2-7b", mode)) for mode in ("fused", "eager"))
    assert fused.forward_flops_per_sample == eager.forward_flops_per_sample
    assert eager.saved_bytes_per_sample > 4 * fused.saved_bytes_per_sample
