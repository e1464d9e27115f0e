"""A Hugging Face config as a module on the meta device, and the inputs made for it."""

import json

import pytest

from rephaze.errors import SpecError
from rephaze.workload.extract.config_source import hash_config, source_from_config

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

GPT2 = {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64, "vocab_size": 128}
VIT = {
    "model_type": "vit", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 64, "image_size": 32, "patch_size": 8,
}  # fmt: skip


def source_of(config, seq_len=None, attention="fused", dtype="bfloat16"):
    return source_from_config(config, name="m", seq_len=seq_len, dtype=dtype, attention=attention)


def test_nothing_has_data_and_every_number_has_the_asked_type():
    source = source_of(GPT2, dtype="float16")
    for tensor in (*source.module.parameters(), *source.inputs_at(3).values()):
        assert tensor.device.type == "meta"
    assert {p.dtype for p in source.module.parameters()} == {torch.float16}


def test_the_sequence_is_the_longest_the_config_allows_unless_one_is_given():
    assert source_of(GPT2).seq_len == 64
    source = source_of(GPT2, seq_len=16)
    assert source.seq_len == 16
    assert source.inputs_at(3)["input_ids"].shape == source.inputs_at(3)["labels"].shape == (3, 16)


def test_learned_positions_end_and_rotations_do_not():
    with pytest.raises(SpecError, match="has positions for 64 tokens"):
        source_of(GPT2, seq_len=65)
    llama = {
        "model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "vocab_size": 128, "max_position_embeddings": 64,
    }  # fmt: skip
    assert source_of(llama, seq_len=65).seq_len == 65


def test_an_image_has_a_token_a_patch_and_one_for_its_class():
    source = source_of(VIT)
    assert source.seq_len == (32 // 8) ** 2 + 1
    inputs = source.inputs_at(2)
    assert inputs["pixel_values"].shape == (2, 3, 32, 32)
    assert inputs["labels"].shape == (2,)


def test_code_that_a_config_names_is_not_run():
    module = source_of({**GPT2, "auto_map": {"AutoModel": "theirs.py:Model"}}).module
    assert type(module).__module__.startswith("transformers.")
    assert not hasattr(module.config, "auto_map")


def test_no_span_of_sound_is_hidden_at_random():
    """This kind's code asks for a setting that its config does not have."""
    sound = {
        "model_type": "data2vec-audio", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 2, "conv_dim": [8, 8], "conv_stride": [5, 2], "conv_kernel": [10, 3],
        "num_conv_pos_embedding_groups": 2,
    }  # fmt: skip
    module = source_of(sound).module
    assert module.config.mask_time_prob > 0
    assert module.config.apply_spec_augment is False


def test_a_named_architecture_comes_before_the_task_the_type_is_trained_for():
    assert type(source_of(GPT2).module).__name__ == "GPT2LMHeadModel"
    named = {**GPT2, "architectures": ["GPT2ForSequenceClassification"], "pad_token_id": 0}
    source = source_of(named)
    assert type(source.module).__name__ == "GPT2ForSequenceClassification"
    assert source.inputs_at(2)["labels"].shape == (2,)


def test_the_hash_ignores_the_order_of_keys_and_nothing_else():
    assert hash_config(GPT2) == hash_config(json.loads(json.dumps(GPT2, sort_keys=True)))
    assert hash_config(GPT2) != hash_config({**GPT2, "n_layer": 3})
