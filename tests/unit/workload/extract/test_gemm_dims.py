import pytest

from rephaze.types.graph import Affine, Gradient
from rephaze.workload.extract.affine import AffineTrace
from rephaze.workload.extract.gemm_dims import attention_dims, products_of
from rephaze.workload.extract.trace import Ref

TOKENS = Affine(0, 10)


def op_with_shapes(step, target, shapes, args, weights=(), num_outputs=1):
    """The operator, and a trace in which tensor i has ``shapes[i]``; the last ones are its outputs."""
    for number, shape in enumerate(shapes):
        step.tensor(*(size.at(2) for size in shape), parameter="w" if number in weights else "")
    made = len(shapes) - num_outputs
    step.op(target, args, made)
    (op,) = step.trace.ops
    op.outputs = tuple(range(made, len(shapes)))
    return op, AffineTrace(
        ops=[op], tensors=step.trace.tensors, shapes=list(shapes), num_elements=[], storage_bytes=[]
    )


def sizes(*values):
    return tuple(value if isinstance(value, Affine) else Affine(value) for value in values)


@pytest.mark.parametrize(
    ("target", "shapes", "args", "weight"),
    [
        ("aten.mm", [(TOKENS, 8), (8, 6), (TOKENS, 6)], (Ref(0), Ref(1)), 1),
        ("aten.addmm", [(6,), (TOKENS, 8), (8, 6), (TOKENS, 6)], (Ref(0), Ref(1), Ref(2)), 2),
        # The weight on the left: the same product, transposed.
        ("aten.mm", [(6, 8), (8, TOKENS), (6, TOKENS)], (Ref(0), Ref(1)), 0),
    ],
)
def test_a_weight_product_has_its_weight_as_the_right_matrix(step, target, shapes, args, weight):
    op, trace = op_with_shapes(step, target, [sizes(*s) for s in shapes], args, weights=(weight,))
    (product,) = products_of(op, trace)
    dims = product.dims
    assert (dims.m, dims.n, dims.k, dims.shared_rhs) == (TOKENS, Affine(6), Affine(8), True)
    assert product.num_flops == Affine(0, 2 * 10 * 6 * 8)


def test_a_batched_product_keeps_its_batch(step):
    heads = Affine(0, 4)
    shapes = [sizes(heads, 5, 8), sizes(heads, 8, 6), sizes(heads, 5, 6)]
    op, trace = op_with_shapes(step, "aten.bmm", shapes, (Ref(0), Ref(1)))
    (product,) = products_of(op, trace)
    assert (product.dims.batch, product.dims.m, product.dims.shared_rhs) == (heads, Affine(5), False)
    assert product.num_flops.at(1) == 2 * 4 * 5 * 6 * 8


def test_experts_get_the_average_of_tokens_rounded_up_and_the_flops_are_exact(step):
    shapes = [sizes(TOKENS, 8), sizes(4, 8, 6), sizes(TOKENS, 6)]
    op, trace = op_with_shapes(step, "aten._grouped_mm", shapes, (Ref(0), Ref(1)), weights=(1,))
    (product,) = products_of(op, trace)
    assert (product.dims.num_experts, product.dims.m) == (4, Affine(0, 3))
    assert product.num_flops == Affine(0, 2 * 10 * 6 * 8)


def test_the_gradient_of_experts_weights_sums_over_tokens(step):
    shapes = [sizes(8, TOKENS), sizes(TOKENS, 6), sizes(4, 8, 6)]
    op, trace = op_with_shapes(step, "aten._grouped_mm", shapes, (Ref(0), Ref(1)))
    (product,) = products_of(op, trace)
    dims = product.dims
    assert (dims.batch, dims.m, dims.n, dims.k) == (Affine(4), Affine(8), Affine(6), Affine(0, 3))


IMAGE, KERNEL, RESULT = sizes(Affine(0, 1), 3, 8, 8), sizes(16, 3, 2, 2), sizes(Affine(0, 1), 16, 4, 4)
STRIDES = ((2, 2), (0, 0), (1, 1), False, (0, 0), 1)


def test_a_convolution_is_a_product_over_its_windows(step):
    args = (Ref(0), Ref(1), None, *STRIDES)
    op, trace = op_with_shapes(step, "aten.convolution", [IMAGE, KERNEL, RESULT], args, weights=(1,))
    (product,) = products_of(op, trace)
    assert (product.dims.m, product.dims.n, product.dims.k) == (Affine(0, 16), Affine(16), Affine(12))


def test_the_backward_of_a_convolution_is_two_products(step):
    args = (Ref(0), Ref(1), Ref(2), None, *STRIDES, (True, True, False))
    shapes = [RESULT, IMAGE, KERNEL, IMAGE, KERNEL]
    op, trace = op_with_shapes(step, "aten.convolution_backward", shapes, args, weights=(2,), num_outputs=2)
    first, second = products_of(op, trace)
    assert (first.gradient, first.outputs, first.dims.k) == (Gradient.INPUT, (0,), Affine(16))
    assert (second.gradient, second.outputs, second.dims.k) == (Gradient.WEIGHT, (1,), Affine(0, 16))
    assert first.num_flops == second.num_flops == Affine(0, 2 * 16 * 16 * 12)


def test_attention_backward_is_five_products_where_forward_has_two(step):
    query, key = sizes(Affine(0, 1), 4, 10, 16), sizes(Affine(0, 1), 2, 12, 16)
    forward, trace = op_with_shapes(
        step, "rephaze.attention", [query, key, key, query], (Ref(0), Ref(1), Ref(2), None, 0.0, True, 5)
    )
    dims, flops = attention_dims(forward, trace)
    assert (dims.num_heads, dims.num_kv_heads, dims.query_len, dims.key_len) == (4, 2, 10, 12)
    assert (dims.causal, dims.backward, dims.window_len) == (True, False, 5)
    assert flops == Affine(0, 2 * 2 * 4 * 10 * 12 * 16)
    forward.target = "rephaze.attention_backward"
    forward.args = (Ref(3), Ref(0), Ref(1), Ref(2), None, Ref(3), Ref(3), 0.0, False, 5, False)
    dims, backward_flops = attention_dims(forward, trace)
    # A window is one of a causal mask.
    assert (dims.causal, dims.backward, dims.window_len) == (False, True, 0)
    assert 2 * backward_flops.at(3) == 5 * flops.at(3)


def test_attention_backward_has_three_products_over_keys_and_two_over_values(step):
    query, value = sizes(Affine(0, 1), 4, 10, 16), sizes(Affine(0, 1), 4, 10, 8)
    args = (Ref(3), Ref(0), Ref(1), Ref(2), None, Ref(3), Ref(3), 0.0, True, 10, False)
    op, trace = op_with_shapes(step, "rephaze.attention_backward", [query, query, value, value], args)
    dims, flops = attention_dims(op, trace)
    assert flops == Affine(0, 2 * 4 * 10 * 10 * (3 * 16 + 2 * 8))
    # A window as long as the sequence is none.
    assert dims.window_len == 0
