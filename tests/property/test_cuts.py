"""Random cuts of shipped models: what devices do and hold adds up to the model."""

from functools import cache
from math import prod

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from rephaze.errors import SpecError
from rephaze.types.cut import GraphCut
from rephaze.types.graph import CommGroup, ContextForm
from rephaze.workload import cut_graph, fuse_graph, load_model

NAMES = ("llama2-7b", "llama3-8b", "gpt3-175b", "megatron-gpt2-2.5b", "mixtral-8x7b", "deepseek-v3",
         "qwen3-235b-a22b", "gpt-oss-120b")  # fmt: skip
POWERS = (1, 2, 4, 8)


@cache
def model(name):
    return load_model(name)


@st.composite
def cuts(draw):
    """A model and a cut it allows."""
    name = draw(st.sampled_from(NAMES))
    base = model(name)
    tp = draw(st.sampled_from([tp for tp in POWERS if tp in base.legal_tp]))
    sp = draw(st.booleans()) and tp > 1
    etp = None
    ep = draw(st.sampled_from(base.legal_ep)) if sp or tp == 1 else 1
    if base.num_experts and sp:
        etp = draw(st.sampled_from([d for d in POWERS if tp % d == 0]))
    cut = GraphCut(
        tp=tp,
        sp=sp,
        cp=draw(st.sampled_from(POWERS)),
        context_form=draw(st.sampled_from([form for form in ContextForm if form])),
        ep=ep,
        etp=etp,
    )
    return name, cut


def flops(graph, b):
    return sum(op.num_flops.at(b) for op in graph.ops)


def cut_or_reject(base, cut):
    try:
        return cut_graph(base, cut)
    except SpecError:
        # What depends on two degrees at once is not always drawn legal.
        return reject()


@settings(max_examples=40, deadline=None)
@given(cuts(), st.sampled_from([1, 3]))
def test_work_and_weights_add_up_over_devices(drawn, b):
    base, cut = model(drawn[0]), drawn[1]
    graph = cut_or_reject(base, cut)
    num_devices = cut.tp * cut.cp
    for whole, local in zip(base.layer_types, graph.layer_types, strict=True):
        for one, other in ((whole.forward, local.forward), (whole.backward, local.backward)):
            # Without sp, what tensor parallelism does not cut runs on every chip of its group.
            copies = {op.name: 1 if op.split != "none" or cut.sp else cut.tp for op in one.ops}
            total = sum(op.num_flops.at(b) * copies[op.name] for op in one.ops)
            # Vocabularies are padded.
            assert total <= flops(other, b) * num_devices <= 1.001 * total
        held = local.expert_param_bytes * graph.ep * graph.etp
        # Biases of down projections are added to whole sums, so chips that share an expert all have them.
        assert whole.expert_param_bytes <= held <= 1.001 * whole.expert_param_bytes
        assert held == whole.expert_param_bytes or drawn[0] == "gpt-oss-120b"
        dense, own = (one.param_bytes - one.expert_param_bytes for one in (whole, local))
        assert dense <= own * cut.tp
        # Each device keeps its tokens' part; only what shares experts or key heads is held more than once.
        held_twice = graph.etp * (cut.cp if cut.context_form is ContextForm.ULYSSES else 1)
        kept, kept_here = whole.saved_bytes.per_sample, local.saved_bytes.per_sample
        assert kept <= kept_here * num_devices <= cut.tp * held_twice * kept


@settings(max_examples=25, deadline=None)
@given(cuts())
def test_products_do_the_work_that_is_counted(drawn):
    base, cut = model(drawn[0]), drawn[1]
    graph = cut_or_reject(base, cut)
    for layer in graph.layer_types:
        for op in (*layer.forward.ops, *layer.backward.ops):
            if op.gemm is not None:
                done = 2 * prod(getattr(op.gemm, axis).at(1) for axis in ("batch", "m", "n", "k"))
                assert done == op.num_flops.at(1)


@settings(max_examples=25, deadline=None)
@given(cuts())
def test_groups_have_as_many_members_as_the_cut_says_and_passes_stay_sound(drawn):
    base, cut = model(drawn[0]), drawn[1]
    graph = cut_or_reject(base, cut)
    members = {
        CommGroup.TP: (cut.tp, 1),
        CommGroup.CP: (cut.cp, cut.tp),
        CommGroup.EP: (graph.ep, graph.etp),
        CommGroup.ETP: (graph.etp, 1),
    }
    for one in (graph, fuse_graph(graph)):
        for layer in one.layer_types:
            for ops in (layer.forward, layer.backward):
                names = [op.name for op in ops.ops]
                assert len(set(names)) == len(names)
                assert len({t.name for t in ops.tensors}) == len(ops.tensors)
                assert all(src < dst for src, dst in ops.edges)
                found = [op.collective for op in ops.ops if op.collective]
                assert all((c.num_members, c.stride) == members[c.group] and c.num_members > 1 for c in found)
