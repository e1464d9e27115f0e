"""What operators need of each other, by memory: views, writes in place, sums over a group."""

from rephaze.types.graph import Affine, CollectiveDims, CollectiveKind, Op, OpKind, Tensor, TensorRole
from rephaze.workload import fuse_graph, load_model
from rephaze.workload.derived_sizes import op_graph
from rephaze.workload.passes.storage_values import OUTSIDE, trace_values


def tensor(name, storage="", role=TensorRole.LOCAL, size=1):
    return Tensor(name=name, num_elements=Affine(0, size), element_bytes=1, role=role, storage=storage)


def op(name, inputs, outputs, kind=OpKind.VECTOR, collective=None):
    return Op(name=name, target=name, kind=kind, module="", inputs=inputs, outputs=outputs, collective=collective)


def makers(traced, position):
    return [traced.values[number].maker for number in traced.read_o[position]]


def test_another_view_of_a_storage_is_what_its_maker_wrote():
    """As fusion leaves it: the maker lists one view, the reader reads another that no operator lists."""
    tensors = (
        tensor("x", role=TensorRole.INPUT),
        tensor("half_0", "joined"),
        tensor("half_1", "joined"),
        tensor("y"),
    )
    traced = trace_values(op_graph([op("make", (0,), (1,)), op("read", (2,), (3,))], tensors))
    assert makers(traced, 1) == [0]
    graph = fuse_graph(load_model("gpt2-xl")).layer_types[1].forward
    position = next(n for n, op in enumerate(graph.ops) if op.kind is OpKind.ATTENTION)
    sources = [graph.ops[maker].name for maker in makers(trace_values(graph), position)]
    assert sources == ["addmm_0"]


def test_a_write_in_place_makes_a_new_value_of_the_same_storage():
    tensors = (
        tensor("x", role=TensorRole.INPUT),
        tensor("a", size=4),
        tensor("a_", "a", size=2),
        tensor("b"),
        tensor("c"),
    )
    ops = [op("make", (0,), (1,)), op("early", (1,), (3,)), op("write", (0,), (2,)), op("late", (2,), (4,))]
    traced = trace_values(op_graph(ops, tensors))
    assert makers(traced, 1) == [0]
    assert makers(traced, 2) == [OUTSIDE, 0], "what it does not write over stays"
    assert makers(traced, 3) == [2]
    (last,) = traced.last_of["a"]
    assert traced.values[last].maker == 2
    assert traced.values[last].num_bytes == Affine(0, 4), "the storage, not the part written"


def test_a_sum_over_the_group_takes_the_place_of_its_parts_but_a_gather_does_not():
    dims = CollectiveDims(kind=CollectiveKind.REDUCE_SCATTER, payload_bytes=Affine(0, 8), num_members=4)
    gather = CollectiveDims(kind=CollectiveKind.ALL_GATHER, payload_bytes=Affine(0, 8), num_members=4)
    tensors = (
        tensor("x", role=TensorRole.INPUT), tensor("mm", size=8), tensor("mm.sum", size=2),
        tensor("shown", "mm", size=2), tensor("mm.all", size=8), tensor("y"),
    )  # fmt: skip
    ops = [
        op("mm", (0,), (1,)),
        op("mm.sum", (1,), (2,), OpKind.COLLECTIVE, dims),
        op("show", (2,), (3,), OpKind.VIEW),
        op("mm.all", (3,), (4,), OpKind.COLLECTIVE, gather),
        op("read", (4,), (5,)),
    ]
    traced = trace_values(op_graph(ops, tensors))
    assert makers(traced, 3) == [1], "the view shows the sum"
    assert makers(traced, 4) == [3]
    (last,) = traced.last_of["mm"]
    assert (traced.values[last].maker, traced.values[last].num_bytes) == (1, Affine(0, 2))
    assert "mm.all" in traced.last_of
    assert "mm.sum" not in traced.last_of


def test_a_view_with_memory_of_its_own_name_stands_for_what_it_shows():
    tensors = (tensor("x", role=TensorRole.INPUT), tensor("a"), tensor("shown"), tensor("empty"), tensor("y"))
    ops = [
        op("make", (0,), (1,)),
        op("show", (1,), (2,), OpKind.VIEW),
        op("allocate", (), (3,), OpKind.VIEW),
        op("read", (2, 3), (4,)),
    ]
    traced = trace_values(op_graph(ops, tensors))
    assert makers(traced, 3) == [0]
    assert traced.last_of["empty"] == ()
