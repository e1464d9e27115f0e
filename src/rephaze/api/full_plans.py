"""Plans of cost model ``full`` (files of format 2) through the door: the best one, or the price of a given one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rephaze.api.full_views import MEMORY_PARTS, answer_blocks
from rephaze.api.present import Block, Shown
from rephaze.errors import SpecError
from rephaze.types.full import DeviceMemory, FullGraph, FullPrice, FullProblem, TimeCauses
from rephaze.types.placement import PlanLimits

if TYPE_CHECKING:
    from rephaze.place.full.replay import FullReplay
    from rephaze.place.full.timeline import PassEvent as PassEvent


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class FullAnswer(Shown):
    """A plan of cost model ``full`` with its price and what is proven of it, or why there is none."""

    label: str
    status: str
    bound_s: float
    """No plan of the options and the family is faster; of a given plan its price."""
    problem: FullProblem
    graph: FullGraph | None
    price: FullPrice | None
    causes: TimeCauses | None = None
    """What its time is spent on."""
    replay: FullReplay | None = None
    """The batch as the devices would run it."""
    timeline: tuple[PassEvent, ...] | None = None
    """What every device does when, if asked for."""
    reason: str = ""
    solve_s: float | None = None
    """None of a plan that was given."""

    @property
    def replay_note(self) -> str:
        """A sentence if the replay is well above the formula."""
        from rephaze.place.full.replay import replay_note

        if self.replay is None or self.price is None:
            return ""
        return replay_note(self.replay.batch_s, self.price.batch_s)

    def record(self) -> dict[str, Any]:
        """As plain data."""
        answer: dict[str, Any] = {"status": self.status}
        if self.reason:
            answer["reason"] = self.reason
        if self.solve_s is not None:
            answer["solve_s"] = self.solve_s
        if self.price is None or self.graph is None:
            return answer
        answer |= {"batch_s": self.price.batch_s, "bound_s": self.bound_s}
        answer["family"] = str(self.problem.options.family)
        answer |= price_record(self.graph, self.price)
        if self.causes is not None:
            answer["causes"] = asdict(self.causes)
        if self.replay is not None:
            answer["replay_s"] = self.replay.batch_s
            if self.replay.is_extrapolated:
                answer["replay_is_extrapolated"] = True
            if self.replay_note:
                answer["replay_note"] = self.replay_note
        if self.timeline is not None:
            answer["timeline"] = [asdict(event) for event in self.timeline]
        return answer

    def blocks(self) -> Sequence[Block]:
        """Headline, replay, stages, where the time goes, memory of the fullest device."""
        return answer_blocks(self)


def is_full(data: Mapping[str, Any]) -> bool:
    """Whether a problem or plan file is of format 2."""
    return str(data.get("format", "")) in ("rephaze.placement-problem/2", "rephaze.placement-plan/2")


def place_full_problem(label: str, data: dict[str, Any], limits: PlanLimits | None) -> FullAnswer:
    """The fastest plan of a problem file of format 2."""
    from time import perf_counter

    from rephaze.place.full.problem_file import parse_full_problem
    from rephaze.place.full.solver import FullPlacer

    if limits is not None:
        raise SpecError("why", "given", "compares plans of cost models 1f1b and paper", "leave it out here")
    problem = parse_full_problem(data)
    began = perf_counter()
    found = FullPlacer(problem).solve()
    solve_s = perf_counter() - began
    if found.best is None:
        return FullAnswer(
            label=label,
            status=str(found.status),
            bound_s=found.bound_s,
            problem=problem,
            graph=None,
            price=None,
            reason=found.reason,
            solve_s=solve_s,
        )
    graph = _graph_of(problem, found.best)
    return FullAnswer(
        label=label,
        status=str(found.status),
        bound_s=found.bound_s,
        problem=problem,
        graph=graph,
        price=found.best,
        **_told(problem, graph, found.best),
        reason=found.reason,
        solve_s=solve_s,
    )


def evaluate_full_plan(label: str, data: dict[str, Any], *, timeline: bool) -> FullAnswer:
    """The price of a plan file of format 2.

    Args:
        label: Of the file.
        data: Its content.
        timeline: Also tell what every device does when.
    """
    from rephaze.place.full.legality import check_plan
    from rephaze.place.full.price import price_full_plan
    from rephaze.place.full.problem_file import parse_full_plan
    from rephaze.place.full.timeline import replay_events

    problem, graph, plan = parse_full_plan(data)
    check_plan(problem, graph, plan)
    price = price_full_plan(problem, graph, plan)
    reason = "" if price.fits else "the fullest device has too little memory"
    return FullAnswer(
        label=label,
        status="feasible" if price.fits else "infeasible",
        bound_s=price.batch_s,
        problem=problem,
        graph=graph,
        price=price,
        **_told(problem, graph, price),
        timeline=replay_events(problem, graph, price) if timeline else None,
        reason=reason,
    )


def price_record(graph: FullGraph, price: FullPrice) -> dict[str, Any]:
    """A price as plain data."""
    return {
        "plan": _plan_record(graph, price),
        "time": {name: getattr(price.time, name) for name in price.time.__slots__},
        "stages": [{"load_s": load_s} for load_s in price.stage_load_s],
        "devices": [_device_record(device) for device in price.devices],
        "num_devices": price.plan.num_devices,
    }


def _told(problem: FullProblem, graph: FullGraph, price: FullPrice) -> dict[str, Any]:
    from rephaze.place.full.causes import causes_of
    from rephaze.place.full.replay import replay_full_plan

    return {"causes": causes_of(problem, graph, price), "replay": replay_full_plan(problem, graph, price)}


def _graph_of(problem: FullProblem, price: FullPrice) -> FullGraph:
    from rephaze.place.full.legality import GRAPH_FIELDS

    wanted = [getattr(price.plan, field) for field in GRAPH_FIELDS]
    return next(graph for graph in problem.graphs if [getattr(graph, field) for field in GRAPH_FIELDS] == wanted)


def _device_record(device: DeviceMemory) -> dict[str, float]:
    parts = {name: getattr(device, f"{name}_bytes") for name in MEMORY_PARTS}
    return {"memory_bytes": device.total_bytes, **parts}


def _plan_record(graph: FullGraph, price: FullPrice) -> dict[str, Any]:
    """As a plan file takes it."""
    plan = price.plan
    names = ("tp", "cp", "ep", "etp", "sp", "dp", "microbatch", "order", "sharding", "shard_group", "reshard")
    record = {name: getattr(plan, name) for name in names}
    return record | {
        "schedule": plan.schedule,
        "chunks": plan.chunks,
        "stages": [
            {"layers": [graph.layers[v].name for v in stage.layers], "keep": stage.keep} for stage in plan.stages
        ],
    }
