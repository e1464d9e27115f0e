"""What a user's function gives, as a module on the meta device; what it can do wrong is in test_extraction."""

import pytest

from rephaze.workload.extract.function_source import source_from_function

torch = pytest.importorskip("torch")

CODE = """
import torch
from torch import nn

def one(microbatch):
    return nn.Linear(8, 8), torch.randn(microbatch, 10, 8)

def two(microbatch):
    return nn.Linear(8, 8), [torch.randn(microbatch, 8), {"ids": torch.zeros(microbatch, dtype=torch.long)}]

def flat(microbatch):
    return nn.Linear(8, 8), {"x": torch.randn(microbatch)}
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    return path


def test_a_single_tensor_is_the_only_argument(path):
    source = source_from_function(f"{path}:one", dtype="bfloat16")
    assert (source.name, source.seq_len) == ("one", 10)
    (x,) = source.inputs_at(3)
    assert (tuple(x.shape), x.device.type, x.dtype) == ((3, 10, 8), "meta", torch.bfloat16)
    assert {(p.device.type, p.dtype) for p in source.module.parameters()} == {("meta", torch.bfloat16)}


def test_whole_numbers_keep_their_type_also_inside_other_arguments(path):
    x, nested = source_from_function(f"{path}:two", dtype="float16").inputs_at(3)
    assert (x.dtype, nested["ids"].dtype, nested["ids"].device.type) == (torch.float16, torch.int64, "meta")


def test_a_batch_without_a_sequence_has_one_token_a_sample(path):
    assert source_from_function(f"{path}:flat", dtype="float32").seq_len == 1


def test_the_hash_follows_the_file(path):
    before = source_from_function(f"{path}:one", dtype="float32").config_hash
    assert source_from_function(f"{path}:two", dtype="float32").config_hash == before
    path.write_text(CODE + "\n")
    assert source_from_function(f"{path}:one", dtype="float32").config_hash != before
