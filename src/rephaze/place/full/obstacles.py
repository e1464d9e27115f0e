"""Why no plan runs: which rule leaves none, or how much memory is lacking, on which device, for what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from rephaze.place.full.layouts import are_experts_legal, layouts
from rephaze.place.full.least_memory import LeastMemory, least_memory
from rephaze.place.full.limits import GRAPH_CHOICES, chosen_of, limited_problem, told_choice
from rephaze.types.full import (
    DeviceMemory,
    DeviceOrder,
    FullGraph,
    FullLimits,
    FullPlan,
    FullProblem,
    PipelineSchedule,
    PlanFamily,
    ShardGroups,
    Sharding,
)
from rephaze.units import GIB

PURPOSES = ("weights", "gradients", "state", "kept", "replay", "working")
MOST_LISTED = 8
_WHOLE = (
    "dp x pp x tp x cp must be all {devices} devices, dp times the microbatch size divide the batch, {batch}, "
    "the order be pp-outer"
)
_FAMILY_RULES = {
    PlanFamily.EXACT: "dp times the microbatch size must divide the global batch, {batch}",
    PlanFamily.MEGATRON: f"{_WHOLE}, sharding none or optimizer, the stages have equal blocks",
    PlanFamily.TORCHTITAN: f"{_WHOLE}, sharding weights",
    PlanFamily.MAXTEXT: f"{_WHOLE}, sharding weights, the stages have equal blocks",
}


_SCHEDULE_RULES = {
    PipelineSchedule.ONE_F_ONE_B: "1f1b has one chunk a device",
    PipelineSchedule.INTERLEAVED: "interleaved takes pp of 2 or more, microbatches of a replica that are a "
    "multiple of pp, two or more chunks a device, and no more of them than layers",
    PipelineSchedule.ZERO_BUBBLE: "zero-bubble takes weight_backward_s in every layer, one chunk a device, and no "
    "weights gathered for every pass",
}
_GRAPH_RULES = {
    "tp": "shard every layer evenly",
    "sp": "be off at tp 1",
    "cp": "divide the sequence",
    "ep": "divide the number of experts",
    "etp": "divide tp",
    "microbatch": "be no larger than the batch",
}
_CHOICE_RULES = {
    "order": "the graph's collectives or the family want the other one",
    "sharding": "one replica is not sharded, more as the family allows",
    "shard_group": "a divisor of cp, or cp times a divisor of dp; 1 goes with sharding none",
    "reshard": "on goes with sharding weights, and not with zero-bubble",
    "family": "its rules leave no plan",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Obstacle:
    """What is in the way of every plan."""

    text: str
    needed_bytes: float | None = None
    """A memory with which there would be a plan; None where a rule is in the way."""


def why_nothing_fits(problem: FullProblem) -> Obstacle:
    """For a problem without a plan: the memory that would do, or the rule that leaves no plan."""
    least = least_memory(problem)
    return Obstacle(text=_no_legal_plan(problem)) if least is None else _lacking_memory(problem, least)


def why_choices_fail(problem: FullProblem, limits: FullLimits) -> Obstacle:
    """For choices under which there is no plan: which of them is illegal, with the legal values, or the memory."""
    limited = limited_problem(problem, limits)
    least = least_memory(limited)
    if least is not None:
        return _lacking_memory(limited, least)
    chosen = chosen_of(limits)
    beside = " beside the other choices" if len(chosen) > 1 else ""
    for name, value in chosen.items():
        legal = _legal_values(limited_problem(problem, replace(limits, **{name: None})), name)
        if legal and value not in legal:
            return Obstacle(text=_illegal(limited, name, value, legal, beside))
    # No choice is illegal only because of the others: one may be so by itself.
    for name, value in chosen.items():
        legal = _legal_values(limited_problem(problem, FullLimits(family=limits.family)), name)
        if legal and value not in legal:
            alone = limited_problem(problem, FullLimits(**{"family": limits.family, name: value}))
            return Obstacle(text=_illegal(alone, name, value, legal, ""))
    together = ", ".join(told_choice(name, value) for name, value in chosen.items())
    return Obstacle(text=f"no plan has {together}: {_no_legal_plan(limited)}")


def _illegal(limited: FullProblem, name: str, value: Any, legal: list[Any], beside: str) -> str:
    rule = _choice_rule(limited, name)
    return f"{told_choice(name, value)} is not legal{beside}: {rule}; legal: {_listed(legal)}"


def _lacking_memory(problem: FullProblem, least: LeastMemory) -> Obstacle:
    """Which device of the leanest plan lacks how much, by purpose."""
    devices, limit = least.price.devices, problem.device_memory_bytes
    number = max(range(len(devices)), key=lambda k: devices[k].total_bytes)
    lacks = least.needed_bytes - limit
    bound = "no plan needs less" if least.is_least else "interleaved plans were only cut evenly"
    text = (
        f"memory: the leanest plan, {short_plan(least.price.plan)}, needs {least.needed_bytes / GIB:.4g} GiB on "
        f"device {number} of a pipeline, {lacks / GIB:.3g} GiB more than the {limit / GIB:.4g} GiB there are "
        f"({purposes(devices[number])}); {bound}"
    )
    if lacks <= 0:
        text = f"the search did not find a plan that fits: {short_plan(least.price.plan)}"
    return Obstacle(text=text, needed_bytes=least.needed_bytes)


def purposes(device: DeviceMemory) -> str:
    """GiB of a device by purpose, the largest first."""
    sizes = {name: getattr(device, f"{name}_bytes") / GIB for name in PURPOSES}
    ordered = sorted(sizes.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {size:.3g}" for name, size in ordered if size > 0)


def short_plan(plan: FullPlan) -> str:
    """A plan in a few words."""
    parts = [f"tp {plan.tp}", f"cp {plan.cp}" if plan.cp > 1 else "", f"ep {plan.ep}" if plan.ep > 1 else ""]
    parts += [f"pp {plan.pp}", f"dp {plan.dp}", f"microbatch {plan.microbatch}", str(plan.schedule)]
    if plan.sharding is not Sharding.NONE:
        again = ", gathered for every pass" if plan.is_gathering else ""
        parts.append(f"{plan.sharding} over {plan.shard_group}{again}")
    kept = {stage.keep for stage in plan.stages}
    parts.append(f"keep {min(kept)}" if len(kept) == 1 else f"keep {min(kept)} to {max(kept)}")
    return ", ".join(part for part in parts if part)


def _legal_values(problem: FullProblem, name: str) -> list[Any]:
    """The values a choice takes over all layouts of a problem."""
    if name in GRAPH_CHOICES:
        return sorted({getattr(graph, name) for graph in problem.graphs if _has_layouts(problem, [graph])})
    if name == "family":
        return [one for one in PlanFamily if _has_layouts(_of_family(problem, one), problem.graphs)]
    if name == "keep":
        return []  # any position is legal
    if name != "shard_group":  # any size will do
        problem = replace(problem, options=replace(problem.options, shard_group=(ShardGroups.ALL,)))
    found = {getattr(layout, name) for graph in problem.graphs for layout in layouts(problem, graph)}
    return sorted(found)


def _choice_rule(problem: FullProblem, name: str) -> str:
    """What a choice must keep to."""
    if name in GRAPH_CHOICES and problem.graphs:
        return _no_legal_plan(problem)  # there are graphs of it, but nothing to lay them out by
    if name in GRAPH_CHOICES:
        return f"it must {_GRAPH_RULES[name]}, and the problem must have a graph of it"
    if name in ("dp", "pp"):
        bound = "the number of microbatches" if name == "dp" else "the number of layers"
        rule = f"dp x pp x tp x cp is at most {problem.cluster.num_devices} devices, {name} at most {bound}"
        family = problem.options.family
        if family in _FAMILY_RULES:
            rule += f"; {_family_rule(problem)} (family {family})"
        if problem.options.schedule == (PipelineSchedule.INTERLEAVED,):
            rule += f"; {_SCHEDULE_RULES[PipelineSchedule.INTERLEAVED]}"
        return rule
    if name in ("schedule", "chunks"):
        return "; ".join(_SCHEDULE_RULES[one] for one in problem.options.schedule)
    return _CHOICE_RULES[name]


def _family_rule(problem: FullProblem) -> str:
    rule = _FAMILY_RULES[problem.options.family]
    return rule.format(batch=problem.global_batch, devices=problem.cluster.num_devices)


def _no_legal_plan(problem: FullProblem) -> str:
    """The one rule without which there would be plans; without any such, what all say together."""
    devices = problem.cluster.num_devices
    narrowest = min((graph.stage_width for graph in problem.graphs), default=0)
    if not problem.graphs:
        return "no graph of the problem is cut this way"
    if narrowest > devices:
        return f"devices: a stage takes tp times cp, {narrowest}, of them, the cluster has {devices}"
    if not any(are_experts_legal(graph, dp) for graph in problem.graphs for dp in _degrees(problem, graph)):
        return "experts: ep times etp devices are no whole factors of tp, cp and any dp there is room for"
    for told, relaxed in _relaxed(problem):
        if _has_layouts(relaxed, relaxed.graphs):
            return told
    return "no plan keeps to the options and the family together"


def _relaxed(problem: FullProblem) -> Iterator[tuple[str, FullProblem]]:
    """A rule in words, and the problem without it."""
    options, family = problem.options, problem.options.family
    if family in _FAMILY_RULES:
        yield f"family {family} leaves no plan: {_family_rule(problem)}", _of_family(problem, PlanFamily.ANY)
    rules = "; ".join(_SCHEDULE_RULES[one] for one in options.schedule)
    yield (
        f"schedule {_listed(options.schedule)} leaves no plan: {rules}",
        replace(problem, options=replace(options, schedule=(PipelineSchedule.ONE_F_ONE_B,))),
    )
    yield (
        f"sharding {_listed(options.sharding)} leaves no plan with more than one replica",
        replace(problem, options=replace(options, sharding=tuple(Sharding), reshard=(False, True))),
    )
    yield (
        f"order {_listed(options.order)} leaves no plan",
        replace(problem, options=replace(options, order=tuple(DeviceOrder))),
    )


def _degrees(problem: FullProblem, graph: FullGraph) -> range:
    """Numbers of replicas there is room for."""
    most = min(problem.num_microbatches(graph), problem.cluster.num_devices // graph.stage_width)
    return range(1, most + 1)


def _of_family(problem: FullProblem, family: PlanFamily) -> FullProblem:
    return replace(problem, options=replace(problem.options, family=family))


def _has_layouts(problem: FullProblem, graphs: Iterable[FullGraph]) -> bool:
    return any(True for graph in graphs for _ in layouts(problem, graph))


def _listed(values: Iterable[Any]) -> str:
    told = [("off", "on")[value] if isinstance(value, bool) else str(value) for value in values]
    more = f" and {len(told) - MOST_LISTED} more" if len(told) > MOST_LISTED else ""
    return ", ".join(told[:MOST_LISTED]) + more
