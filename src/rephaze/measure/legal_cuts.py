"""Every way a scenario's lists allow a model's layers to be cut, and the graphs that come of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rephaze.errors import SpecError
from rephaze.types.cut import GraphCut
from rephaze.types.graph import AttentionKind, ModelGraph
from rephaze.types.placement import PlacementModel
from rephaze.types.scenario import Scenario, TrainingSettings
from rephaze.workload.passes.parallel import GraphCutter, is_expert_group


def legal_cuts(base: ModelGraph, scenario: Scenario) -> Iterator[GraphCut]:
    """The cuts of a model that the scenario's lists allow; ``SpecError`` where a list has none that is legal.

    Args:
        base: The whole model.
        scenario: Its training section has the lists; cost models other than ``full`` know tp only.
    """
    training = scenario.training
    degrees = _legal("tp_degrees", training.tp_degrees, base.legal_tp, f"{base.name} can be sharded")
    if scenario.placement_model is not PlacementModel.FULL:
        yield from (GraphCut(tp=tp) for tp in degrees)
        return
    contexts: tuple[int, ...] = (1,)
    # Attention as separate products has no form in which chips share a sequence.
    if base.attention == AttentionKind.FUSED or training.cp_degrees == (1,):
        contexts = _legal("cp_degrees", training.cp_degrees, base.legal_cp, f"{base.name}'s sequence can be cut")
    experts: tuple[int, ...] = (1,)
    if base.num_experts:
        what = f"{base.name}'s experts can be dealt out"
        experts = _legal("ep_degrees", training.ep_degrees, base.legal_ep, what)
    num_before = 0
    for tp in degrees:
        for sp in training.sequence_parallel if tp > 1 else (False,):
            for cp in contexts:
                if sp and base.seq_len % (tp * cp):
                    continue
                for ep, etp in _expert_degrees(base, training, tp, sp, experts):
                    num_devices = ep * (etp or 1)
                    if num_devices <= scenario.cluster.num_devices and is_expert_group(num_devices, tp, cp):
                        num_before += 1
                        yield GraphCut(
                            tp=tp, sp=sp, cp=cp, ep=ep, etp=etp, imbalance_factor=training.imbalance_factor
                        )
    if not num_before:
        rule = f"no tp, sp, cp and ep of the lists go together for {base.name}"
        raise SpecError("tp_degrees", list(degrees), rule, "ep above 1 needs sp where tp is above 1")


def _legal(field: str, asked: Sequence[int], legal: Sequence[int], what: str) -> tuple[int, ...]:
    found = tuple(degree for degree in asked if degree in legal)
    if not found:
        listed = ", ".join(str(degree) for degree in legal)
        raise SpecError(field, list(asked), f"{what} {listed} ways only")
    return found


def _expert_degrees(
    base: ModelGraph, training: TrainingSettings, tp: int, sp: bool, experts: Sequence[int]
) -> Iterator[tuple[int, int | None]]:
    """Degrees of a mixture's experts; of other models none."""
    if not base.num_experts:
        yield 1, None
        return
    for ep in experts:
        if ep > 1 and tp > 1 and not sp:
            continue
        if training.etp_degrees is None:
            yield ep, None
            continue
        for etp in training.etp_degrees:
            # An expert that each chip of a group holds whole works on the chip's own tokens: it must have some.
            if tp % etp == 0 and (etp == tp or sp):
                yield ep, etp


def cut_forms(cutter: GraphCutter, cut: GraphCut) -> Iterator[ModelGraph]:
    """The model cut this way, not yet fused, once for each legal form of attention over a cut sequence."""
    for form in cutter.legal_context_forms(cut.tp, cut.cp):
        yield cutter.cut(replace(cut, context_form=form))
