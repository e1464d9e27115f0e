"""Cuts of a model that share their layers: the same as made one at a time."""

from dataclasses import fields, replace

import numpy as np
import pytest

from rephaze.estimate.estimator import engine_of
from rephaze.measure.cut_forms import CutForms
from rephaze.schedule.structure import compile_structure
from rephaze.types.cut import GraphCut
from rephaze.workload.passes.fuse import fuse_graph
from rephaze.workload.passes.keep_sets import KeepSets, keep_sets
from rephaze.workload.passes.parallel import cut_graph
from rephaze.workload.passes.split_backward import input_part
from rephaze.workload.zoo import load_model

DENSE = [
    GraphCut(),
    GraphCut(tp=2),
    GraphCut(tp=2, sp=True),
    GraphCut(cp=2),
    GraphCut(cp=4),
    GraphCut(tp=2, sp=True, cp=2),
]
MIXED = [
    GraphCut(),
    GraphCut(ep=4),
    GraphCut(ep=4, imbalance_factor=1.5),
    GraphCut(ep=2),
    GraphCut(tp=2),
    GraphCut(tp=2, sp=True, etp=2),
    GraphCut(tp=2, sp=True, ep=2, etp=1),
    GraphCut(tp=2, sp=True, ep=4, etp=2),
    GraphCut(cp=2),
    GraphCut(cp=2, ep=4),
    GraphCut(tp=2, sp=True, cp=2, ep=8, etp=2),
    GraphCut(tp=2, sp=True, cp=2, ep=2, etp=1),
]
KINDS = [
    ("llama3-8b", DENSE),  # a decoder with shared keys
    ("bert-large", DENSE),  # an encoder
    ("t5-large", DENSE),  # both, with attention from one to the other
    ("vit-large", [GraphCut(), GraphCut(tp=2), GraphCut(tp=4)]),  # no sequence to cut
    ("mixtral-8x7b", MIXED),  # experts in every layer
    ("deepseek-v3", MIXED),  # dense layers beside those with experts, a shared expert
    ("gpt-oss-120b", MIXED),  # biases looked up by expert, windows
]


@pytest.mark.parametrize(("name", "cuts"), KINDS)
def test_cuts_that_share_layers_are_those_made_one_at_a_time(name, cuts):
    base = load_model(name)
    shared = CutForms(base, has_split_backward=True)
    # Twice, and in another order, so that each is made beside different ones.
    for cut in (*cuts, *reversed(cuts)):
        shared.all(cut)
    for cut in cuts:
        for form in shared.all(cut):
            whole = cut_graph(base, replace(cut, context_form=form.graph.context_form))
            fused = fuse_graph(whole)
            assert form.whole == whole
            assert form.graph == fused
            for kind, (layer, unfused) in enumerate(zip(fused.layer_types, whole.layer_types, strict=True)):
                assert_same_sets(form.keep_sets(kind), keep_sets(layer, unfused))
                graphs = layer.forward, layer.backward, input_part(layer)
                assert tuple(one.graph for one in form.passes[kind]) == graphs
                for one in form.passes[kind]:
                    alone = compile_structure([engine_of(op) for op in one.graph.ops], one.graph.edges)
                    assert one.structure.engines == alone.engines
                    assert np.array_equal(one.structure.before_oo, alone.before_oo)


def assert_same_sets(one: KeepSets, other: KeepSets) -> None:
    for item in fields(KeepSets):
        mine, its = getattr(one, item.name), getattr(other, item.name)
        assert np.array_equal(mine, its) if isinstance(mine, np.ndarray) else mine == its


def test_only_layers_with_experts_are_made_again_for_other_degrees_of_theirs():
    forms = CutForms(load_model("deepseek-v3"), has_split_backward=True)
    few, many = (forms.first(GraphCut(tp=2, sp=True, ep=ep, etp=1)) for ep in (2, 8))
    same = [a is b for a, b in zip(few.graph.layer_types, many.graph.layer_types, strict=True)]
    has_experts = [bool(layer.expert_param_bytes) for layer in few.graph.layer_types]
    assert same == [not experts for experts in has_experts]
    assert any(same)
    assert not all(same)
    for kind, is_same in enumerate(same):
        assert (few.passes[kind] is many.passes[kind]) == is_same
        assert few.passes[kind][0].structure is many.passes[kind][0].structure


def test_layers_without_attention_are_the_same_in_all_forms():
    ring, gather, *_ = CutForms(load_model("llama3-8b"), has_split_backward=False).all(GraphCut(cp=2))
    same = [a is b for a, b in zip(ring.graph.layer_types, gather.graph.layer_types, strict=True)]
    has_attention = [any(op.attention is not None for op in layer.forward.ops) for layer in ring.graph.layer_types]
    assert same == [not attention for attention in has_attention]


def test_passes_of_shared_layers_are_bounded_once():
    forms = CutForms(load_model("deepseek-v3"), has_split_backward=False)
    few, many = ([(GraphCut(ep=ep), 1), (GraphCut(ep=ep, cp=2), 2)] for ep in (2, 8))
    kinds = range(len(forms.first(GraphCut(ep=2)).graph.layer_types))
    same = [forms.common_pass(few, kind, 0) is forms.common_pass(many, kind, 0) for kind in kinds]
    experts = [bool(layer.expert_param_bytes) for layer in forms.first(GraphCut(ep=2)).graph.layer_types]
    assert same == [not has_experts for has_experts in experts]
    first = forms.common_pass(few, 0, 0)
    assert first is forms.common_pass(list(few), 0, 0)
    assert first is not forms.common_pass([(cut, 2 * b) for cut, b in few], 0, 0)
