import pytest

from rephaze.errors import UnsupportedError
from rephaze.types.graph import Affine
from rephaze.workload.extract.affine import affine_product, check_against, merge
from rephaze.workload.extract.trace import Origin, Ref, Trace, TracedOp, TracedTensor


def trace(microbatch, rows, target="aten.relu"):
    def tensor(storage):
        return TracedTensor(
            shape=(rows, 4), dtype="bfloat16", element_bytes=2, storage=storage, storage_bytes=rows * 8,
            origin=Origin.DATA, num_distinct=rows * 4,
        )  # fmt: skip

    op = TracedOp(
        target=target, args=(Ref(0),), inputs=(0,), outputs=(1,), module="", is_backward=False, sequence=0
    )
    return Trace(microbatch=microbatch, tensors=[tensor(1), tensor(2)], ops=[op])


def test_two_sizes_give_the_line_through_both():
    merged = merge(trace(2, 21), trace(5, 51))
    assert merged.shapes[0] == (Affine(1, 10), Affine(4))
    assert merged.num_elements[1] == Affine(4, 40)
    check_against(merged, trace(3, 31))


def test_a_third_size_off_the_line_is_refused():
    with pytest.raises(UnsupportedError, match="not affine"):
        check_against(merge(trace(2, 4), trace(5, 25)), trace(3, 9))


def test_other_operators_at_another_size_are_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"number 0 in the model is aten.relu and aten.gelu"):
        merge(trace(2, 4), trace(5, 10, target="aten.gelu"))


def test_a_product_of_two_batch_axes_is_refused():
    assert affine_product((Affine(0, 3), Affine(5))) == Affine(0, 15)
    with pytest.raises(UnsupportedError, match="square"):
        affine_product((Affine(0, 3), Affine(1, 1)))
