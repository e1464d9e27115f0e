"""Which cuts of a model a scenario's lists allow."""

from dataclasses import replace

import pytest

from rephaze.errors import SpecError
from rephaze.hardware.scenarios import load_scenario
from rephaze.measure.legal_cuts import cut_forms, legal_cuts
from rephaze.types.cut import GraphCut
from rephaze.types.graph import ContextForm
from rephaze.workload.passes.parallel import GraphCutter
from rephaze.workload.zoo import load_model

FULL = load_scenario("default")


def cuts_of(model, **training):
    scenario = replace(FULL, training=replace(FULL.training, **training))
    return list(legal_cuts(load_model(model), scenario))


def test_other_cost_models_know_tp_alone():
    found = list(legal_cuts(load_model("llama2-7b"), load_scenario("coarse")))
    assert found == [GraphCut(tp=tp) for tp in (1, 2, 4, 8)]


def test_a_dense_model_has_no_experts_to_deal_out():
    found = cuts_of("llama2-7b", tp_degrees=(1, 2), cp_degrees=(1, 2), sequence_parallel=(True, False))
    assert [(cut.tp, cut.sp, cut.cp) for cut in found] == [
        (1, False, 1), (1, False, 2), (2, True, 1), (2, True, 2), (2, False, 1), (2, False, 2),
    ]  # fmt: skip
    assert {(cut.ep, cut.etp) for cut in found} == {(1, None)}


def test_experts_beside_tensor_parallelism_need_a_cut_sequence():
    asked = {"tp_degrees": (2,), "cp_degrees": (1,), "ep_degrees": (1, 4), "etp_degrees": (1, 2)}
    whole = cuts_of("mixtral-8x7b", sequence_parallel=(False,), **asked)
    assert {(cut.ep, cut.etp) for cut in whole} == {(1, 2)}
    cut = cuts_of("mixtral-8x7b", sequence_parallel=(True,), **asked)
    assert {(one.ep, one.etp) for one in cut} == {(1, 1), (1, 2), (4, 1), (4, 2)}


@pytest.mark.parametrize(
    ("field", "asked", "rule"),
    [
        ("tp_degrees", (3,), "llama2-7b can be sharded 1, 2, 4"),
        ("cp_degrees", (3, 5), "llama2-7b's sequence can be cut 1, 2, 4"),
    ],
)
def test_a_list_without_a_legal_degree_is_one_line_with_the_legal_ones(field, asked, rule):
    with pytest.raises(SpecError, match=rule):
        cuts_of("llama2-7b", **{field: asked})
    with pytest.raises(SpecError, match="experts can be dealt out 1, 2, 4, 8 ways only"):
        cuts_of("mixtral-8x7b", ep_degrees=(3,))


def test_attention_over_a_cut_sequence_has_three_forms_where_heads_allow():
    forms = [graph.context_form for graph in cut_forms(GraphCutter(load_model("llama2-7b")), GraphCut(cp=2))]
    assert forms == [ContextForm.RING, ContextForm.GATHER, ContextForm.ULYSSES]
    odd = [graph.context_form for graph in cut_forms(GraphCutter(load_model("gpt2-xl")), GraphCut(cp=2))]
    assert odd == [ContextForm.RING, ContextForm.GATHER]  # 25 heads


def test_experts_that_are_no_group_of_a_cut_sequence_are_left_out_and_nothing_else():
    whole = replace(load_model("mixtral-8x7b"), seq_len=3 * 4096)
    lists = {"tp_degrees": (1, 2), "cp_degrees": (1, 3), "ep_degrees": (1, 2, 4), "etp_degrees": (1, 2)}
    scenario = replace(FULL, training=replace(FULL.training, **lists))
    found, cutter = list(legal_cuts(whole, scenario)), GraphCutter(whole)
    assert {(cut.tp, cut.ep) for cut in found if cut.cp == 3} == {(1, 1), (2, 1), (2, 2)}
    assert {(cut.tp, cut.ep) for cut in found if cut.cp == 1} == {(tp, ep) for tp in (1, 2) for ep in (1, 2, 4)}
    for cut in found:
        assert list(cut_forms(cutter, cut))
