"""What a user's function gives, as a module on the meta device; what it can do wrong is in test_extraction."""

import json

import pytest
from typer.testing import CliRunner

from rephaze.api import extract
from rephaze.cli.main import app
from rephaze.errors import FileError, RephazeError
from rephaze.workload.extract.function_source import source_from_function

torch = pytest.importorskip("torch")

CODE = """
from collections import UserDict

import torch
from torch import nn

def one(microbatch):
    return nn.Linear(8, 8), torch.randn(microbatch, 10, 8)

def two(microbatch):
    return nn.Linear(8, 8), [torch.randn(microbatch, 8), {"ids": torch.zeros(microbatch, dtype=torch.long)}]

def flat(microbatch):
    return nn.Linear(8, 8), {"x": torch.randn(microbatch)}

def number(microbatch):
    return nn.Linear(8, 8), 5

def mapped(microbatch):
    return nn.Linear(8, 8), UserDict(x=torch.randn(microbatch, 8))

def leaves(microbatch):
    raise SystemExit(0)

class Leaving(nn.Linear):
    def forward(self, x):
        raise SystemExit(0)

def leaves_later(microbatch):
    return Leaving(8, 8), torch.randn(microbatch, 8)

def talks(microbatch):
    print("hello")
    return nn.Linear(8, 8), torch.randn(microbatch, 8)

in_c = dict.fromkeys
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


def test_what_a_tokenizer_returns_is_a_dict(path):
    assert list(source_from_function(f"{path}:mapped", dtype="float32").inputs_at(2)) == ["x"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("number", "must return its inputs as a dict, tuple, list or tensor, not int"),
        ("leaves", "leaves(2) failed: SystemExit"),
        ("leaves_later", "the module failed in forward"),
        ("in_c", "must return a module and its inputs|failed"),
    ],
)
def test_code_that_ends_the_process_or_gives_no_inputs_is_told(path, name, said):
    with pytest.raises(RephazeError, match=said.replace("(", r"\(").replace(")", r"\)")):
        extract(f"{path}:{name}")


def test_a_script_that_ends_the_process_is_no_module(tmp_path):
    (tmp_path / "script.py").write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(FileError, match="importing it failed: SystemExit"):
        source_from_function(f"{tmp_path / 'script.py'}:make", dtype="float32")


def test_what_the_code_prints_is_not_the_answer(path):
    done = CliRunner().invoke(app, ["extract", f"{path}:talks", "--json"])
    assert json.loads(done.stdout)["name"] == "talks"
    assert "hello" in done.stderr
