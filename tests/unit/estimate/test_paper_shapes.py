"""The paper's vector formulas, worked by hand."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from paper_shapes import paper_backward_cycles, paper_forward_cycles, paper_fused_cycles

BERT = (4, 512, 1024)
BERT_SIZE = 4 * 512 * 1024


@pytest.mark.parametrize(
    ("function", "output", "operands", "lanes", "forward", "backward"),
    [
        ("layer_norm", BERT, [BERT], 2, BERT_SIZE // 2, BERT_SIZE // 2),
        ("add", BERT, [BERT, BERT], 2, BERT_SIZE // 2, BERT_SIZE),
        ("add", BERT, [BERT, (1024,)], 2, BERT_SIZE // 2, BERT_SIZE // 2 + 512),
        ("dropout", BERT, [BERT], 2, BERT_SIZE, BERT_SIZE // 2),
        ("div", (64, 512, 512), [(64, 512, 512), (1,)], 2, 10 * 2**23, 10 * 2**23 + 11),
        ("div", (64, 512, 512), [(64, 512, 512)], 2, 10 * 2**23, 10 * 2**23),
        ("softmax", (64, 512, 512), [(64, 512, 512)], 2, 64 * 512 * 256 + 10 + 10 * 2**23, 2 * 2**23),
        ("mean", (1, 4096, 1), [(1, 4096, 4096)], 2, 2058, 2058),
        ("tanh", (1, 1024, 6400), [(1, 1024, 6400)], 256, 27 * 25600, 2 * 25600),
        ("sqrt", (1, 4096, 1), [(1, 4096, 1)], 2, 15 * 2048, 16 * 2048),
        ("relu", (7,), [(7,)], 4, 2, 2),
    ],
)
def test_one_operator(function, output, operands, lanes, forward, backward):
    assert paper_forward_cycles(function, output, operands, lanes) == forward
    assert paper_backward_cycles(function, output, operands, lanes) == backward


def test_a_fused_operator_is_charged_what_it_absorbed():
    assert paper_fused_cycles(["dropout"], BERT, 2) == BERT_SIZE
    assert paper_fused_cycles(["dropout"], BERT, 2, backward=True) == BERT_SIZE // 2
    assert paper_fused_cycles(["add", "mean"], (1, 4096, 4096), 2) == 11 * 4096 * 2048
