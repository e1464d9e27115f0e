from rephaze.workload.extract.blocks import Stack
from rephaze.workload.extract.layer_index import LayerIndex
from rephaze.workload.extract.partition import partition
from rephaze.workload.extract.trace import Origin, Ref

STACKS = (Stack(path="blocks", signatures=(0, 0), traced=(0, 1)),)


def test_a_view_belongs_to_the_layer_that_made_what_it_shows(step):
    x, h, view, y = step.tensor(2, 4), step.tensor(2, 4), step.tensor(8), step.tensor(8)
    step.op("aten.relu", (Ref(x),), h, module="blocks.0")
    step.op("aten.view", (Ref(h), (8,)), view, module="blocks.1")
    step.op("aten.relu", (Ref(view),), y, module="blocks.1")
    step.trace.tensors[view].storage = step.trace.tensors[h].storage
    index = LayerIndex(trace=step.affine(), partition=partition(step.trace, STACKS))
    assert [index.layer_of_tensor(t) for t in (x, h, view, y)] == [None, 0, 0, 1]
    assert index.layers_reading(h) == {1}
    assert index.readers[h] == [1]
    # One tensor a storage crosses, though the block reads it in two shapes.
    assert index.crossing_inputs(1) == [h]
    assert index.crossing_inputs(0) == []
    assert index.home_of_storage[step.trace.tensors[view].storage] == h


def test_constants_of_another_layer_do_not_cross(step):
    x, mask, h, y = step.tensor(2, 4), step.tensor(4, origin=Origin.CONSTANT), step.tensor(2, 4), step.tensor(2, 4)
    step.op("aten.arange", (4,), mask, module="blocks.0")
    step.op("aten.add", (Ref(x), Ref(mask)), h, module="blocks.0")
    step.op("aten.add", (Ref(h), Ref(mask)), y, module="blocks.1")
    index = LayerIndex(trace=step.affine(), partition=partition(step.trace, STACKS))
    assert index.crossing_inputs(1) == [h]
