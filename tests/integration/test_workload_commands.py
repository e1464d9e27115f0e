"""The commands extract, models and graph as a user runs them."""

import json

import pytest

from tests.kits import command

CONFIG = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_layer": 6, "n_head": 4,
    "n_positions": 128, "vocab_size": 2048,
}  # fmt: skip


def rephaze(*arguments):
    return command.rephaze(*arguments, columns=150)


def lines(done):
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_models_lists_the_zoo():
    found = lines(rephaze("models", "--json"))
    assert len(found) == 17
    llama = next(row for row in found if row["name"] == "llama2-7b")
    assert llama["num_parameters"] == 6_738_415_616
    assert llama["blocks"] == {"model.layers": 32}
    assert llama["legal_tp"] == [1, 2, 4, 8, 16, 32]
    table = rephaze("models")
    assert table.returncode == 0
    assert "gpt3-175b" in table.stdout
    assert "175 G" in table.stdout


def test_extract_then_graph(tmp_path):
    pytest.importorskip("torch")
    config, out = tmp_path / "config.json", tmp_path / "graph.json"
    config.write_text(json.dumps(CONFIG))
    (summary,) = lines(rephaze("extract", config, "--seq-len", "64", "--out", out, "--json"))
    block = 12 * 64 * 64 + 13 * 64
    assert summary["num_parameters"] == 2048 * 64 + 128 * 64 + 6 * block + 2 * 64
    assert summary["num_layers"] == 8
    assert summary["legal_tp"] == [1, 2, 4]
    s, h = 64, 64
    assert summary["forward_flops_per_sample"] == 6 * (24 * s * h * h + 4 * s * s * h) + 2 * s * h * 2048
    assert summary["saved_bytes_per_sample"] > 0
    ops = lines(rephaze("graph", out, "--tp", "2", "--layer", "1", "--json"))
    assert {op["pass"] for op in ops} == {"forward", "backward"}
    reduces = [op for op in ops if op["collective"]]
    assert len(reduces) == 4
    assert all(op["collective"]["payload_bytes"] == 64 * 64 * 2 for op in reduces)


def test_graph_prints_tables_a_person_can_read():
    overview = rephaze("graph", "llama2-7b", "--tp", "4")
    assert overview.returncode == 0
    assert "1-32" in overview.stdout
    layer = rephaze("graph", "llama2-7b", "--tp", "4", "--layer", "1")
    assert "4096 x 2752 x 4096" in layer.stdout
    assert "all_reduce over 4" in layer.stdout
    assert "self_attn.q_proj" in layer.stdout
    fused = rephaze("graph", "llama2-7b", "--layer", "model.layers.3", "--fuse")
    assert "silu+mul" in fused.stdout


def test_graph_lists_the_collectives_of_context_and_expert_parallelism():
    cut = ("--tp", "2", "--sp", "--cp", "4", "--cp-form", "gather", "--ep", "8", "--layer", "1")
    ops = lines(rephaze("graph", "mixtral-8x7b", *cut, "--microbatch", "3", "--json"))
    found = [(op["pass"], op["collective"]) for op in ops if op["collective"]]
    tokens = 3 * 4096 // 4
    gathered = {"kind": "all_gather", "num_members": 4, "group": "cp", "stride": 2, "num_messages": 1}
    sent = {"kind": "all_to_all", "num_members": 8, "group": "ep", "stride": 1, "num_messages": 1}
    keys = gathered | {"payload_bytes": 2 * 3 * 4096 * (8 // 2) * 128 * 2}
    rows = sent | {"payload_bytes": tokens // 2 * 2 * 4096 * 2}
    assert found.count(("forward", keys)) == found.count(("backward", keys)) == 1
    assert found.count(("forward", rows)) == found.count(("backward", rows)) == 2
    shown = rephaze("graph", "mixtral-8x7b", *cut)
    assert "tp 2 with sp, cp 4 (gather), ep 8, etp 1" in shown.stdout
    assert "all_to_all over 8 of ep" in shown.stdout
    ring = rephaze("graph", "llama3-8b", "--cp", "8", "--layer", "1")
    assert "send over 8 of cp, 7 of 4.00 MiB" in ring.stdout
    layers = lines(rephaze("graph", "llama3-8b", "--cp", "8", "--json"))
    assert {(layer["cp"], layer["ep"]) for layer in layers} == {(8, 1)}


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("graph", "llama3-8b", "--cp", "3"), 2, "cp is 3: must divide the sequence of 8192 tokens; one of 1, 2"),
        (("graph", "llama3-8b", "--cp", "2", "--cp-form", "ulyses"), 1, "did you mean 'ulysses'"),
        (("graph", "mixtral-8x7b", "--tp", "2", "--ep", "2"), 2, "needs sequence parallelism"),
        (("graph", "gpt2-xl", "--tp", "2"), 2, "gpt2-xl allows 1, 5, 25"),
        (("graph", "gpt2-xl", "--layer", "99"), 2, "layers 0 to 49"),
        (("graph", "gpt2"), 1, "did you mean 'gpt2-xl'"),
        (("graph", "none.json"), 1, "no such file"),
        (("extract", "none.json"), 1, "no such file"),
        (("extract", "lama2-7b"), 1, "did you mean 'llama2-7b'"),
        (("models", "--attention", "flash"), 2, "must be one of fused, eager"),
    ],
)
def test_errors_are_one_line(arguments, code, expected):
    done = rephaze(*arguments)
    assert done.returncode == code
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
