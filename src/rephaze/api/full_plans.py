"""Plans of cost model ``full`` (files of format 2) through the door: the best one, or the price of a given one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rephaze.api.present import Block, Shown, TextTable
from rephaze.errors import SpecError
from rephaze.types.full import DeviceMemory, FullGraph, FullPrice, FullProblem
from rephaze.types.placement import PlanLimits
from rephaze.units import GIB, S_PER_MS

MEMORY_PARTS = ("weights", "gradients", "state", "kept", "replay", "working")


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
    reason: str = ""
    solve_s: float | None = None
    """None of a plan that was given."""

    def record(self) -> dict[str, Any]:
        """As plain data."""
        answer: dict[str, Any] = {"status": self.status}
        if self.reason:
            answer["reason"] = self.reason
        if self.solve_s is not None:
            answer["solve_s"] = self.solve_s
        if self.price is None or self.graph is None:
            return answer
        price, graph = self.price, self.graph
        return answer | {
            "batch_s": price.batch_s,
            "bound_s": self.bound_s,
            "family": str(self.problem.options.family),
            "plan": _plan_record(graph, price),
            "time": {name: getattr(price.time, name) for name in price.time.__slots__},
            "stages": [{"load_s": load_s} for load_s in price.stage_load_s],
            "devices": [_device_record(device) for device in price.devices],
            "num_devices": price.plan.num_devices,
        }

    def blocks(self) -> Sequence[Block]:
        """Headline, stages, where the time goes, memory of the fullest device."""
        if self.price is None:
            return [f"{self.label}: {self.status}: {self.reason}"]
        return [
            f"{self.label}: {self._sentence()}",
            self._stages(),
            self._time_sentence(),
            self._memory_sentence(),
        ]

    def _sentence(self) -> str:
        assert self.price is not None
        plan, price = self.price.plan, self.price
        cut = f"{plan.sharding} sharded over {plan.shard_group}" if plan.shard_group > 1 else "nothing sharded"
        again = ", gathered for every pass" if plan.is_gathering else ""
        chunks = f" of {plan.chunks} chunks a device" if plan.chunks > 1 else ""
        proof = f"none of family {self.problem.options.family} is faster than {self.bound_s:.6g} s"
        told = self.status if self.solve_s is None else f"{self.status}: {proof}"
        return (
            f"{price.batch_s:.6g} s a batch ({told}) with "
            f"tp {plan.tp}{' and sp' if plan.sp else ''}, cp {plan.cp}, "
            f"ep {plan.ep}, pp {plan.pp}, dp {plan.dp}, microbatch {plan.microbatch}; "
            f"{plan.schedule}{chunks}, {cut}{again}; "
            f"{plan.num_devices} of {price.num_cluster_devices} devices"
        )

    def _stages(self) -> TextTable:
        assert self.price is not None
        assert self.graph is not None
        rows = []
        for at, (stage, load_s) in enumerate(zip(self.price.plan.stages, self.price.stage_load_s, strict=True)):
            names = [self.graph.layers[v].name for v in stage.layers]
            told = names[0] if len(names) == 1 else f"{names[0]}..{names[-1]} ({len(names)})"
            device = self.price.devices[at % self.price.plan.pp]
            held = f"{device.total_bytes / GIB:.3g}"
            rows.append((str(at), told, str(stage.keep), f"{load_s / S_PER_MS:.4g}", held))
        headings = ("stage", "layers", "keep", "load ms", "GiB on its device")
        return TextTable(headings=headings, rows=tuple(rows), left=frozenset({"layers"}))

    def _time_sentence(self) -> str:
        assert self.price is not None
        total_s = self.price.batch_s or 1.0
        parts = {name.removesuffix("_s"): getattr(self.price.time, name) for name in self.price.time.__slots__}
        return "time: " + ", ".join(f"{name} {part / total_s:.1%}" for name, part in parts.items() if part > 0)

    def _memory_sentence(self) -> str:
        assert self.price is not None
        fullest = max(self.price.devices, key=lambda device: device.total_bytes)
        left = self.price.device_memory_bytes - fullest.total_bytes
        told = f"{left / GIB:.3g} GiB left" if left >= 0 else f"{-left / GIB:.3g} GiB over"
        sizes = {name: getattr(fullest, f"{name}_bytes") / GIB for name in MEMORY_PARTS}
        parts = ", ".join(f"{name} {size:.3g}" for name, size in sizes.items() if size > 0)
        return f"fullest device: {told} of {self.price.device_memory_bytes / GIB:.4g} GiB ({parts})"


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
    return FullAnswer(
        label=label,
        status=str(found.status),
        bound_s=found.bound_s,
        problem=problem,
        graph=None if found.best is None else _graph_of(problem, found.best),
        price=found.best,
        reason=found.reason,
        solve_s=perf_counter() - began,
    )


def evaluate_full_plan(label: str, data: dict[str, Any], *, timeline: bool) -> FullAnswer:
    """The price of a plan file of format 2."""
    from rephaze.place.full.legality import check_plan
    from rephaze.place.full.price import price_full_plan
    from rephaze.place.full.problem_file import parse_full_plan

    if timeline:
        raise SpecError("timeline", True, "is for plans of cost model 1f1b", "leave it out here")
    problem, graph, plan = parse_full_plan(data)
    check_plan(problem, graph, plan)
    price = price_full_plan(problem, graph, plan)
    reason = "" if price.fits else "the fullest device has too little memory"
    status = "feasible" if price.fits else "infeasible"
    return FullAnswer(
        label=label,
        status=status,
        bound_s=price.batch_s,
        problem=problem,
        graph=graph,
        price=price,
        reason=reason,
    )


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
