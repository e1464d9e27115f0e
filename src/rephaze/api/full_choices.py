"""Choices asked about that a model cannot be cut by, told before anything is solved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rephaze.errors import SpecError
from rephaze.types.full import FullLimits, PlanFamily
from rephaze.types.graph import AttentionKind, ModelGraph
from rephaze.types.scenario import Scenario

MOST_LISTED = 12
"""Legal values that a message lists."""


def check_choices(model: str | Path, scenario: Scenario, limits: FullLimits) -> None:
    """Raise unless the model can be cut as asked, with the legal values.

    Args:
        model: Zoo name or graph file.
        scenario: Lists of what is not asked about.
        limits: What is.
    """
    from rephaze.measure.full_on_chip import limited_scenario
    from rephaze.measure.legal_cuts import legal_cuts
    from rephaze.workload.zoo import load_model

    base = load_model(str(model), scenario.attention)
    _check_degree("tp", limits.tp, base.legal_tp, f"{base.name} can be sharded")
    has_forms = base.attention == AttentionKind.FUSED
    what = f"{base.name}'s sequence, {base.seq_len}, can be cut"
    _check_degree("cp", limits.cp, base.legal_cp if has_forms else (1,), what)
    _check_experts(base, scenario, limits)
    if limits.sp and limits.tp == 1:
        raise SpecError("--why sp", "on", "there is nothing to cut a sequence over at tp 1", "legal: off")
    _check_microbatch(scenario, limits)
    try:
        next(legal_cuts(base, limited_scenario(scenario, limits)))
    except SpecError:
        asked = {name: getattr(limits, name) for name in ("tp", "sp", "cp", "ep", "etp")}
        told = ", ".join(f"{name}={_shown(value)}" for name, value in asked.items() if value is not None)
        rule = (
            f"{base.name} cannot be cut so beside the scenario's degrees: with sp tp times cp must divide the "
            f"sequence, {base.seq_len}; ep above 1 needs sp where tp is above 1; ep times etp chips must be there"
        )
        raise SpecError("--why", told, rule, "sp=off may do" if limits.sp is None else "") from None


def _check_experts(base: ModelGraph, scenario: Scenario, limits: FullLimits) -> None:
    if not base.num_experts:
        for name in ("ep", "etp"):
            if getattr(limits, name) not in (None, 1):
                raise SpecError(f"--why {name}", getattr(limits, name), f"{base.name} has no experts", "legal: 1")
        return
    _check_degree("ep", limits.ep, base.legal_ep, f"{base.name}'s {base.num_experts} experts can be dealt out")
    degrees = (limits.tp,) if limits.tp is not None else scenario.training.tp_degrees
    if limits.etp is not None and not any(tp % limits.etp == 0 for tp in degrees):
        legal = sorted({etp for tp in degrees for etp in range(1, tp + 1) if tp % etp == 0})
        raise SpecError("--why etp", limits.etp, f"must divide tp, {_listed(degrees)}", f"legal: {_listed(legal)}")


def _check_microbatch(scenario: Scenario, limits: FullLimits) -> None:
    batch, family = scenario.training.global_batch, limits.family or scenario.plans.family
    if limits.microbatch is None:
        return
    if limits.microbatch > batch:
        raise SpecError("--why microbatch", limits.microbatch, f"must be from 1 to the global batch, {batch}")
    if family is not PlanFamily.ANY and batch % limits.microbatch:
        legal = [size for size in range(1, batch + 1) if batch % size == 0]
        rule = f"must divide the global batch, {batch} (family {family})"
        raise SpecError("--why microbatch", limits.microbatch, rule, f"legal: {_listed(legal)}")


def _check_degree(name: str, value: int | None, legal: Sequence[int], what: str) -> None:
    if value is not None and value not in legal:
        raise SpecError(f"--why {name}", value, f"{what} {_listed(legal)} ways only")


def _listed(values: Sequence[int]) -> str:
    more = ", ..." if len(values) > MOST_LISTED else ""
    return ", ".join(map(str, values[:MOST_LISTED])) + more


def _shown(value: int | bool) -> str:
    return ("off", "on")[value] if isinstance(value, bool) else str(value)
