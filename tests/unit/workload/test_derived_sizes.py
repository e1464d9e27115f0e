"""Bytes, edges and memory that follow from tensors, worked out by hand."""

from rephaze.types.graph import (
    Affine,
    CollectiveDims,
    CollectiveKind,
    Gradient,
    Op,
    OpKind,
    Split,
    Tensor,
    TensorRole,
    VectorWork,
)
from rephaze.workload.derived_sizes import layer_type, op_graph, total


def tensor(name, size, role=TensorRole.LOCAL, **more):
    return Tensor(name=name, num_elements=size, element_bytes=2, role=role, **more)


def op(name, inputs, outputs, kind=OpKind.VECTOR, **more):
    return Op(name=name, target=name, kind=kind, module="", inputs=inputs, outputs=outputs, **more)


ROW = Affine(0, 10)
NO_TENSORS = {"parameters": (), "saved": (), "saved_inputs": (), "inputs": ()}


def test_a_sum_of_no_sizes_is_zero_and_of_two_adds_both_parts():
    assert total([]) == Affine()
    assert total([Affine(1, 2), Affine(10, 20)]) == Affine(11, 22)


def test_edges_follow_tensors_and_bytes_follow_elements():
    tensors = (
        tensor("x", ROW, TensorRole.INPUT),
        tensor("w", Affine(7), TensorRole.PARAMETER),
        tensor("y", ROW),
        tensor("z", Affine(0, 5)),
    )
    graph = op_graph([op("a", (0, 1), (2,)), op("b", (0,), (3,)), op("c", (2, 3), ())], tensors)
    assert graph.edges == ((0, 2), (1, 2))
    first = graph.ops[0]
    assert (first.input_bytes, first.output_bytes, first.param_bytes) == (Affine(14, 20), Affine(0, 20), 14)
    assert first.num_elements == ROW


def test_a_view_moves_nothing_and_a_collective_its_payload():
    tensors = (tensor("x", ROW), tensor("y", ROW), tensor("z", ROW))
    dims = CollectiveDims(kind=CollectiveKind.ALL_REDUCE, payload_bytes=Affine(0, 80), num_members=4)
    view = op("view", (0,), (1,), OpKind.VIEW)
    reduce = op("reduce", (1,), (2,), OpKind.COLLECTIVE, collective=dims)
    graph = op_graph([view, reduce], tensors)
    assert graph.ops[0].input_bytes == graph.ops[0].output_bytes == Affine()
    assert graph.ops[1].input_bytes == graph.ops[1].output_bytes == Affine(0, 80)


def test_a_gather_reads_the_rows_it_selects_not_the_table():
    tensors = (tensor("table", Affine(1000), TensorRole.PARAMETER), tensor("rows", Affine(0, 4)))
    work = (VectorWork(function="gather", num_elements=Affine(0, 4)),)
    graph = op_graph([op("lookup", (0,), (1,), OpKind.GATHER, vector=work)], tensors)
    assert graph.ops[0].input_bytes == Affine(0, 8)


def layer_of(ops, tensors, backward=(), backward_tensors=(), **more):
    return layer_type(
        "layer", op_graph(ops, tensors), op_graph(backward, tuple(backward_tensors)), **NO_TENSORS | more
    )


def test_working_memory_is_the_largest_sum_of_tensors_alive_at_once():
    tensors = (
        tensor("x", ROW, TensorRole.INPUT),
        tensor("a", Affine(0, 3)),
        tensor("b", Affine(0, 5)),
        tensor("c", Affine(0, 1), TensorRole.OUTPUT),
        tensor("d", Affine(0, 4)),
    )
    ops = [op("1", (0,), (1,)), op("2", (1,), (2,)), op("3", (2,), (3,)), op("4", (3,), (4,))]
    # a and b live together while operator 2 runs; the input belongs to who made it.
    assert layer_of(ops, tensors).working_bytes == Affine(0, 2 * (3 + 5))
    # What is kept for backward is counted as saved, not as working: then b, c while 3 runs.
    assert layer_of(ops, tensors, saved=(tensors[1],)).working_bytes == Affine(0, 2 * (5 + 1))


def test_a_view_has_no_memory_of_its_own():
    tensors = (tensor("a", ROW), tensor("v", ROW, storage="a"), tensor("b", Affine(0, 1)))
    ops = [op("1", (), (0,)), op("2", (0,), (1,), OpKind.VIEW), op("3", (1,), (2,))]
    assert layer_of(ops, tensors).working_bytes == Affine(0, 2 * (10 + 1))


def test_gradients_of_weights_are_not_working_memory():
    tensors = (tensor("g", ROW), tensor("dw", Affine(500)))
    ops = [op("1", (), (0,), gradient=Gradient.INPUT), op("2", (0,), (1,), gradient=Gradient.WEIGHT)]
    assert layer_of((), (), ops, tensors).working_bytes == Affine(0, 20)


def test_a_layer_is_sharded_if_an_operator_or_a_parameter_is():
    tensors = (tensor("a", ROW), tensor("b", ROW))
    split = op("1", (0,), (1,), split=Split.ELEMENTS, num_split_units=4)
    table = tensor("table", Affine(100), TensorRole.PARAMETER, num_split_units=50)
    assert not layer_of([op("1", (0,), (1,))], tensors).is_sharded
    assert layer_of([split], tensors).is_sharded
    assert layer_of([op("1", (0,), (1,))], tensors, parameters=(table,)).is_sharded


def test_parameters_saved_tensors_and_inputs_are_summed_each_for_itself():
    layer = layer_of(
        (), (),
        parameters=(tensor("w", Affine(7)), tensor("b", Affine(3))),
        saved=(tensor("s", ROW),),
        saved_inputs=(tensor("i", Affine(0, 4)),),
        inputs=(tensor("x", Affine(0, 6)),),
    )  # fmt: skip
    assert (layer.num_parameters, layer.param_bytes) == (10, 20)
    assert (layer.saved_bytes, layer.saved_input_bytes) == (Affine(0, 20), Affine(0, 8))
    assert layer.input_bytes == Affine(0, 12)
