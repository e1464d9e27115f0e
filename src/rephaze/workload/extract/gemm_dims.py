"""The matrix products behind GEMM operators: their dimensions, from the shapes they were called with."""

from __future__ import annotations

from dataclasses import dataclass

from rephaze.types.graph import Affine, AttentionDims, GemmDims, Gradient
from rephaze.workload.extract.affine import ONE, AffineTrace, affine_product
from rephaze.workload.extract.trace import TracedOp, integers_of


@dataclass(frozen=True, slots=True)
class Product:
    """One GEMM of an operator; only a convolution's backward holds two."""

    dims: GemmDims
    num_flops: Affine
    outputs: tuple[int, ...]
    """Positions among the operator's outputs."""
    gradient: Gradient | None = None
    """Known from the operator itself; None where it depends on its place in the graph."""


def products_of(op: TracedOp, trace: AffineTrace) -> list[Product]:
    """The GEMMs of an operator of kind GEMM."""
    every_output = tuple(range(len(op.outputs)))
    if op.name in ("convolution", "convolution_backward"):
        return _convolution(op, trace)
    if op.name == "linalg_solve_triangular":
        *batches, rows, columns = trace.shapes[op.outputs[0]]
        batch = affine_product(batches)
        dims = GemmDims(batch=batch, m=rows, n=columns, k=rows, shared_rhs=False)
        # Half of the matrix is zero.
        return [Product(dims=dims, num_flops=affine_product((batch, rows, columns, rows)), outputs=every_output)]
    first = 1 if op.name in ("addmm", "baddbmm") else 0
    left, right = op.tensor_at(first), op.tensor_at(first + 1)
    a, b = trace.shapes[left], trace.shapes[right]
    if op.name == "_grouped_mm":
        return [_grouped(a, b, trace.shapes[op.outputs[0]], every_output)]
    shared = trace.tensors[right].parameter != ""
    if op.name in ("mm", "addmm"):
        batch, (m, k), n = ONE, a, b[1]
        if trace.tensors[left].parameter and not shared:
            m, n, shared = n, m, True  # the weight is on the left: the same product, transposed
    else:
        batch, m, k, n = a[0], a[1], a[2], b[2]
        shared = False
    dims = GemmDims(batch=batch, m=m, n=n, k=k, shared_rhs=shared)
    return [Product(dims=dims, num_flops=_flops(batch, m, n, k), outputs=every_output)]


def attention_dims(op: TracedOp, trace: AffineTrace) -> tuple[AttentionDims, Affine]:
    """The sizes and FLOPs of a fused attention operator, forward or backward."""
    backward = op.target.endswith("_backward")
    first = 1 if backward else 0
    query, key, value = (trace.shapes[op.tensor_at(first + position)] for position in range(3))
    causal_at = 8 if backward else 5
    is_causal, window_len = bool(op.args[causal_at]), op.args[causal_at + 1]
    assert isinstance(window_len, int)
    heads, query_len, head_dim = (size.const for size in query[1:])
    key_len, value_dim = key[2].const, value[3].const
    # Scores and output; backward the scores again, their gradient, and those of queries, keys and values.
    depth = 3 * head_dim + 2 * value_dim if backward else head_dim + value_dim
    dims = AttentionDims(
        batch=query[0],
        num_heads=heads,
        num_kv_heads=key[1].const,
        query_len=query_len,
        key_len=key_len,
        head_dim=head_dim,
        value_dim=value_dim,
        causal=is_causal,
        backward=backward,
        window_len=window_len if is_causal and window_len < key_len else 0,
    )
    return dims, affine_product((query[0], Affine(2 * heads * query_len * key_len * depth)))


def _flops(*dims: Affine) -> Affine:
    return affine_product(dims).times(2)


def _share(size: Affine, parts: int) -> Affine:
    """What one of ``parts`` gets on average, in whole numbers."""
    return Affine(-(-size.const // parts), -(-size.per_sample // parts))


def _grouped(
    a: tuple[Affine, ...], b: tuple[Affine, ...], out: tuple[Affine, ...], outputs: tuple[int, ...]
) -> Product:
    """Experts' products: tokens by weights (2-D by 3-D), or the weights' gradient (2-D by 2-D)."""
    if len(b) == 3:
        num_experts, k, n = (size.const for size in b)
        tokens = a[0]
        m_each, n_each, k_each = _share(tokens, num_experts), Affine(n), Affine(k)
        flops = _flops(tokens, Affine(n), Affine(k))
    else:
        num_experts = out[0].const
        tokens = a[1]
        m_each, n_each, k_each = a[0], b[1], _share(tokens, num_experts)
        flops = _flops(a[0], b[1], tokens)
    dims = GemmDims(
        batch=Affine(num_experts), m=m_each, n=n_each, k=k_each, shared_rhs=False, num_experts=num_experts
    )
    return Product(dims=dims, num_flops=flops, outputs=outputs)


def _convolution(op: TracedOp, trace: AffineTrace) -> list[Product]:
    is_backward = op.target.endswith("_backward")
    image, weight = (op.tensor_at(position) for position in ((1, 2) if is_backward else (0, 1)))
    result = op.tensor_at(0) if is_backward else op.outputs[0]
    (groups,) = integers_of(op.args[9] if is_backward else op.args[8])
    is_transposed = bool(op.args[7] if is_backward else op.args[6])
    # A transposed convolution is the input gradient of a plain one: its image plays the result's part.
    rows_from = trace.shapes[image if is_transposed else result]
    shape = trace.shapes[weight]
    rows = affine_product((rows_from[0], *rows_from[2:]))
    columns = Affine(shape[0].const // groups)
    window = affine_product(shape[1:])
    batch = Affine(groups)
    flops = _flops(batch, rows, columns, window)

    def product(m: Affine, n: Affine, k: Affine, outputs: tuple[int, ...], gradient: Gradient | None) -> Product:
        dims = GemmDims(batch=batch, m=m, n=n, k=k, shared_rhs=groups == 1 and gradient is not Gradient.WEIGHT)
        return Product(dims=dims, num_flops=flops, outputs=outputs, gradient=gradient)

    if not is_backward:
        return [product(rows, columns, window, (0,), None)]
    wants_input, *wants_rest = (bool(wanted) for wanted in integers_of(op.args[10]))
    found = []
    if wants_input:
        found.append(product(rows, window, columns, (0,), Gradient.INPUT))
    if any(wants_rest):
        rest = tuple(range(int(wants_input), len(op.outputs)))
        found.append(product(columns, window, rows, rest, Gradient.WEIGHT))
    return found
