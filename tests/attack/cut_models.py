"""A model cut in every way a search may cut it, found by trying: what a cut refuses is not in the space."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from rephaze.errors import SpecError
from rephaze.types.cut import GraphCut
from rephaze.types.graph import ModelGraph
from rephaze.types.placement import PlacementModel
from rephaze.types.scenario import Scenario
from rephaze.workload.passes.fuse import fuse_graph
from rephaze.workload.passes.parallel import GraphCutter, cut_graph


@dataclass(frozen=True, kw_only=True, slots=True)
class CutModel:
    """A model cut one way, in every form attention over a cut sequence may have."""

    unfused: tuple[ModelGraph, ...]
    fused: tuple[ModelGraph, ...]


def cut_models(whole: ModelGraph, scenario: Scenario) -> dict[GraphCut, CutModel]:
    """Every legal cut of the scenario's lists, with its graphs."""
    found = {}
    for cut in _asked(whole, scenario):
        try:
            forms = tuple(
                cut_graph(whole, replace(cut, context_form=form))
                for form in GraphCutter(whole).legal_context_forms(cut.tp, cut.cp)
            )
        except SpecError:
            continue
        if forms:
            found[cut] = CutModel(unfused=forms, fused=tuple(fuse_graph(form) for form in forms))
    return found


def _asked(whole: ModelGraph, scenario: Scenario):
    training = scenario.training
    if scenario.placement_model is not PlacementModel.FULL:
        yield from (GraphCut(tp=tp) for tp in training.tp_degrees)
        return
    # A dense model has no experts to deal out: what is listed for them does not matter.
    eps = training.ep_degrees if whole.num_experts else (1,)
    etps = (training.etp_degrees or (None,)) if whole.num_experts else (None,)
    for tp, cp, ep, etp in product(training.tp_degrees, training.cp_degrees, eps, etps):
        if ep * (etp or 1) > scenario.cluster.num_devices:
            continue
        for sp in training.sequence_parallel if tp > 1 else (False,):
            yield GraphCut(tp=tp, sp=sp, cp=cp, ep=ep, etp=etp, imbalance_factor=training.imbalance_factor)
