import pytest

from rephaze.workload.extract.blocks import Stack, find_stacks, only_traced_blocks, uncut

torch = pytest.importorskip("torch")
nn = torch.nn


class Block(nn.Module):
    def __init__(self, width, layer_idx, dropout=0.0):
        super().__init__()
        self.layer_idx, self.dropout = layer_idx, dropout
        self.linear = nn.Linear(width, width, device="meta")


def model(*blocks):
    parts = nn.Module()
    parts.decoder = nn.Module()
    parts.decoder.layers = nn.ModuleList(blocks)
    return parts


def test_equal_blocks_share_a_signature_wherever_they_stand():
    (stack,) = find_stacks(model(*(Block(8, i) for i in range(7))))
    assert stack == Stack(path="decoder.layers", signatures=(0,) * 7, traced=(0, 1, 2))
    assert stack.num_blocks == 7


@pytest.mark.parametrize("odd", [Block(16, 1), Block(8, 1, dropout=0.5)])
def test_another_shape_or_setting_is_another_signature(odd):
    (stack,) = find_stacks(model(Block(8, 0), odd, *(Block(8, i) for i in range(2, 6))))
    assert stack.signatures == (0, 1, 0, 0, 0, 0)
    assert stack.traced == (0, 1, 2, 3)


def test_lone_linear_layers_and_mixed_lists_are_no_stack():
    assert find_stacks(model(nn.Linear(8, 8), nn.Linear(8, 8))) == ()
    assert find_stacks(model(Block(8, 0), nn.Sequential(nn.Linear(8, 8)))) == ()


def test_a_stack_inside_a_block_belongs_to_the_block():
    outer = [Block(8, i) for i in range(2)]
    for block in outer:
        block.inner = nn.ModuleList(Block(8, i) for i in range(3))
    assert [stack.path for stack in find_stacks(model(*outer))] == ["decoder.layers"]


def test_the_module_is_cut_down_only_while_the_context_is_open():
    module = model(Block(8, 0), Block(16, 1), *(Block(8, i) for i in range(2, 6)))
    blocks, stacks = list(module.decoder.layers), find_stacks(module)
    with only_traced_blocks(module, stacks):
        assert list(module.decoder.layers) == blocks[:4]
        assert [name for name, _ in module.decoder.layers.named_children()] == ["0", "1", "2", "3"]
    assert list(module.decoder.layers) == blocks
    with pytest.raises(RuntimeError), only_traced_blocks(module, stacks):
        raise RuntimeError
    assert list(module.decoder.layers) == blocks


def test_uncut_traces_every_block():
    stacks = find_stacks(model(*(Block(8, i) for i in range(5))))
    assert uncut(stacks)[0].traced == (0, 1, 2, 3, 4)
    assert uncut(stacks)[0].signatures == stacks[0].signatures
