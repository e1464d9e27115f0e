"""What operators must do for a sample, by hand."""

import pytest

from rephaze.estimate.least_work import least_gemm_bytes, least_hbm_bytes, least_macs, num_macs
from rephaze.types.graph import Affine, GemmDims, Op, OpGraph, OpKind, VectorWork

# A weight of 5 x 7 applied to 4 rows a sample, and three products a sample of 4 x 5 by 5 x 7.
WEIGHT = GemmDims(batch=Affine(1), m=Affine(0, 4), n=Affine(7), k=Affine(5), shared_rhs=True)
BATCHED = GemmDims(batch=Affine(0, 3), m=Affine(4), n=Affine(7), k=Affine(5), shared_rhs=False)
# Rows that do not come by the sample: a router's spare places.
PADDED = GemmDims(batch=Affine(1), m=Affine(8, 4), n=Affine(7), k=Affine(5), shared_rhs=True)
ADD = Op(
    name="add",
    target="aten.add",
    kind=OpKind.VECTOR,
    module="",
    vector=(VectorWork(function="add", num_elements=Affine(0, 10)),),
    input_bytes=Affine(1000, 40),
    output_bytes=Affine(0, 20),
)


def gemm(dims, name="g"):
    return Op(name=name, target="aten.mm", kind=OpKind.GEMM, module="", gemm=dims)


def graph(*ops):
    return OpGraph(ops=ops, edges=())


def test_multiply_accumulates_of_a_microbatch():
    assert num_macs(gemm(WEIGHT), 2) == 8 * 7 * 5
    assert num_macs(gemm(BATCHED), 2) == 6 * 4 * 7 * 5
    assert num_macs(ADD, 2) == 0


def test_a_sample_costs_least_in_the_microbatch_that_shares_most():
    assert least_macs(graph(gemm(PADDED), ADD), (1, 2, 8)) == 5 * 7 * (8 + 4 * 8) / 8
    assert least_macs(graph(gemm(PADDED), ADD), (1, 2), OpKind.ATTENTION) == 0


@pytest.mark.parametrize("sizes", [(1,), (1, 4)])
def test_a_weight_is_read_once_in_the_largest_microbatch(sizes):
    weight_bytes = 2 * 5 * 7 / max(sizes)
    assert least_gemm_bytes(graph(gemm(WEIGHT)), sizes, is_batch_folded=False) == 2 * (20 + 28) + weight_bytes


def test_a_folded_batch_shares_its_right_operand():
    apart = least_gemm_bytes(graph(gemm(BATCHED)), (1,), is_batch_folded=False)
    folded = least_gemm_bytes(graph(gemm(BATCHED)), (1,), is_batch_folded=True)
    assert (apart, folded) == (2 * 3 * (20 + 35 + 28), 2 * (3 * 20 + 35 + 3 * 28))


def test_vector_operators_move_what_comes_by_the_sample():
    assert least_hbm_bytes(graph(ADD), (1, 2)) == 60
    assert least_hbm_bytes(graph(ADD, gemm(BATCHED)), (1, 2)) == 60 + 2 * 3 * (20 + 35 + 28)
