"""What passes have in common: by name, and never an operator twice."""

from dataclasses import replace

import pytest

from rephaze.estimate.estimator import engine_of
from rephaze.measure.pass_classes import PassWork, common_pass
from rephaze.schedule.structure import compile_structure
from rephaze.types.graph import Affine, AttentionDims, Op, OpGraph, OpKind, VectorWork
from rephaze.types.latency import Engine

DIMS = AttentionDims(
    batch=Affine(0, 1),
    num_heads=4,
    num_kv_heads=4,
    query_len=64,
    key_len=64,
    head_dim=8,
    value_dim=8,
    causal=False,
    backward=False,
)


def add(name, elements=64):
    work = VectorWork(function="add", num_elements=Affine(elements))
    return Op(name=name, target="aten.add", kind=OpKind.VECTOR, module="", vector=(work,))


def attention(name, **dims):
    return Op(name=name, target="a", kind=OpKind.ATTENTION, module="", attention=replace(DIMS, **dims))


def ring(name):
    steps = {"query_len": 32, "num_ring_members": 2}
    return attention(f"{name}.ring", **steps), attention(name, **steps)


def one_pass(*ops, edges=()):
    graph = OpGraph(ops=ops, edges=tuple(edges))
    return PassWork(graph=graph, structure=compile_structure([engine_of(op) for op in ops], edges))


def names(common):
    return [{one.op.name for chain in chains for one in chain} for chains in common.chains_o]


def test_a_pass_alone_is_itself():
    own = one_pass(add("a"), Op(name="v", target="", kind=OpKind.VIEW, module=""))
    found = common_pass([(own, 2)])
    assert found.structure is own.structure
    assert [len(chains) for chains in found.chains_o] == [1, 0]


def test_what_some_pass_lacks_is_left_out_and_order_holds_only_where_all_have_it():
    first = one_pass(add("a"), add("b"), add("c"), edges=[(0, 1), (1, 2)])
    other = one_pass(add("a"), add("c", 128), edges=[])
    found = common_pass([(first, 1), (other, 1)])
    assert names(found) == [{"a"}, {"c"}]
    assert [len(chains) for chains in found.chains_o] == [1, 2], "alike once, different both"
    assert not found.structure.before_oo.any()
    kept = common_pass([(first, 1), (first, 1)])
    assert kept.structure.before_oo.sum() == 3


def test_a_name_that_is_there_twice_stands_for_nothing():
    twice = one_pass(add("a", 8), add("b"), add("a", 800))
    assert names(common_pass([(twice, 1), (twice, 1)])) == [{"b"}]


def test_the_steps_of_a_ring_count_once_and_with_their_last():
    steps, last = ring("x")
    whole, cut = one_pass(attention("x")), one_pass(steps, last, edges=[(0, 1)])
    for passes in ([whole, cut], [cut, whole], [cut, cut]):
        found = common_pass([(one, 1) for one in passes])
        assert [chain[-1].op.name for chain in found.chains_o[0]] == ["x"] * len(found.chains_o[0])
        assert len(found.chains_o) == 1
    apart = common_pass([(whole, 1), (one_pass(steps, last), 1)])
    assert {len(chain) for chain in apart.chains_o[0]} == {1}, "steps that need not follow are left out"


@pytest.mark.parametrize("suffix", ["", "."])
def test_a_name_that_only_looks_like_a_ring_is_an_operator(suffix):
    own = one_pass(add("x"), add(f"x{suffix}ring"), edges=[(0, 1)])
    found = common_pass([(own, 1), (own, 1)])
    assert names(found) == [{"x"}, {f"x{suffix}ring"}]


def test_engines_are_what_all_hold():
    plain, other = one_pass(add("x")), one_pass(attention("x"))
    assert common_pass([(plain, 1), (other, 1)]).structure.engines == (Engine.VECTOR,)
