from rephaze.workload.extract.blocks import Stack
from rephaze.workload.extract.partition import partition
from rephaze.workload.extract.trace import Origin, Ref, SavedTensor

STACK = Stack(path="blocks", signatures=(0, 0, 0, 0), traced=(0, 2))


def chain(step, modules):
    """One operator after the other, each in its module; gives back all tensors."""
    tensors = [step.tensor(2, 4)]
    for module in modules:
        tensors.append(step.tensor(2, 4))
        step.op("aten.relu", (Ref(tensors[-2]),), tensors[-1], module=module)
    return tensors


def test_blocks_by_module_and_the_rest_by_place(step):
    chain(step, ["embed", "blocks.0.mlp", "", "blocks.1", "blocks.1.mlp", "norm"])
    found = partition(step.trace, (STACK,))
    # The second block that ran is the third of the model; what ran between blocks goes with the earlier one.
    assert [layer.name for layer in found.layers] == ["embedding", "blocks.0", "blocks.2", "head"]
    assert [layer.prefix for layer in found.layers] == ["", "blocks.0", "blocks.1", ""]
    assert found.layer_of_op == [0, 1, 1, 2, 2, 3]


def test_a_model_without_blocks_is_one_layer(step):
    chain(step, ["a", "b"])
    assert [layer.name for layer in partition(step.trace, ()).layers] == ["model"]


def test_what_is_not_connected_is_another_layer_and_constants_go_with_their_reader(step):
    tensors = chain(step, ["enc.blocks.0", "enc.norm"])
    other, positions, out = step.tensor(2, 4), step.tensor(4, origin=Origin.CONSTANT), step.tensor(2, 4)
    step.op("aten.arange", (4,), positions, module="dec.embed")
    step.op("aten.add", (Ref(other), Ref(positions)), out, module="dec.embed")
    last = step.tensor(2, 4)
    step.op("aten.add", (Ref(out), Ref(tensors[-1])), last, module="dec.blocks.0")
    stacks = (
        Stack(path="enc.blocks", signatures=(0,), traced=(0,)),
        Stack(path="dec.blocks", signatures=(0,), traced=(0,)),
    )
    found = partition(step.trace, stacks)
    assert [layer.name for layer in found.layers] == ["enc.blocks.0", "enc.norm", "dec.embed", "dec.blocks.0"]
    assert found.layer_of_op == [0, 1, 2, 2, 3]


def test_backward_goes_where_its_forward_was(step):
    tensors = chain(step, ["embed", "blocks.0", "head"])
    for sequence in (2, 1, 99, 0):  # one that no forward operator has stays with the last
        grad = step.tensor(2, 4)
        step.op("aten.relu", (Ref(tensors[-1]),), grad, is_backward=True, sequence=sequence)
    found = partition(step.trace, (STACK,))
    assert [layer.backward for layer in found.layers] == [[6], [4, 5], [3]]


def test_saved_tensors_go_to_the_block_that_ran_or_to_the_operator_that_touched_them(step):
    tensors = chain(step, ["embed", "blocks.0", "head"])
    step.trace.saved = [
        SavedTensor(tensor=tensors[1], num_ops_before=1, module="blocks.0.mlp"),
        SavedTensor(tensor=tensors[3], num_ops_before=3, module=""),
    ]
    found = partition(step.trace, (STACK,))
    assert [layer.saved for layer in found.layers] == [[], [tensors[1]], [tensors[3]]]
