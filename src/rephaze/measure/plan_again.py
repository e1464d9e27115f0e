"""A recorded plan priced again on its chip: where its time and memory go, and what its devices do when.

Layers are estimated and scheduled as the search did; a plan that does not come out as recorded is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from rephaze.errors import RunError
from rephaze.measure.chip_solver import ChipSolver
from rephaze.measure.full_planner import FullPlanner
from rephaze.measure.model_on_chip import with_times
from rephaze.measure.model_work import ModelWork
from rephaze.measure.operators import estimate_operators
from rephaze.measure.plan_schedules import scenario_of_plan
from rephaze.measure.recorded_plan import recorded_plan
from rephaze.measure.units import Memory, Unit
from rephaze.place.full.causes import causes_of
from rephaze.place.full.price import price_full_plan
from rephaze.place.full.replay import MOST_PASSES as MOST_FULL_PASSES
from rephaze.place.full.timeline import PassKind, replay_events
from rephaze.place.price import price_plan
from rephaze.place.simulate import MAX_REPLAYED_PASSES, Activity, replay_plan
from rephaze.types.chip import Chip
from rephaze.types.full import DeviceMemory, TimeCauses
from rephaze.types.operator_estimate import OperatorEstimate
from rephaze.types.placement import PlacementModel
from rephaze.types.plan_account import PlanAccount, PlanTimeline
from rephaze.types.search import ModelPlan, SearchSettings
from rephaze.types.stopping import UNSTOPPED, StopSignal

SAME = 1e-9
"""Relative: times derived again are sums of the same terms."""
MOST_EVENTS = 6000
"""Of a timeline that are kept: of a longer one half of them from its begin, half from its end."""

_Event = tuple[int, int, int, float, float]
"""Device, kind, microbatch, start, end."""


class PricedAgain:
    """One model's plan on one chip.

    Args:
        settings: Of the search.
        chip: The chip.
        plan: As recorded.
        stop: Ends the work with ``StoppedError``.

    Raises:
        RunError: The plan has another time now than was recorded, or the model no such cut.
    """

    def __init__(
        self, settings: SearchSettings, chip: Chip, plan: ModelPlan, stop: StopSignal = UNSTOPPED
    ) -> None:
        scenario = scenario_of_plan(settings.scenario, plan)
        self._plan, self._chip, self._cluster = plan, chip, scenario.cluster
        self._work = ModelWork(plan.model, scenario, stop)
        self._solver = ChipSolver(chip, scenario, stop=stop)
        self._estimate_model = scenario.estimate_model
        cut = self._work.cut_of(plan)
        if cut is None:
            raise RunError(f"{plan.model} has no cut into tp {plan.tp}, cp {plan.cp}, ep {plan.ep} now")
        self._unit = Unit(cut, plan.microbatch, self._work.units[0].policy)
        self._memory = Memory(plan.hbm_bytes, chip.hbm_bytes_per_s)
        self._operators: list[OperatorEstimate] | None = None
        self._is_full = scenario.placement_model is PlacementModel.FULL
        if self._is_full:
            self.full_problem = FullPlanner(self._solver, self._work, self._unit, self._memory).problem()
            self.full_price = price_full_plan(self.full_problem, self.full_problem.graphs[0], plan.full_plan)
            batch_s = self.full_price.batch_s
        else:
            problem = self._work.placement_problem((self._unit,), self._memory)
            graph = with_times(problem.graphs[0], cut, self._solver, self._work)
            self._problem = replace(problem, graphs=(graph,))
            self._decision = recorded_plan(self._problem, plan)
            self._priced = price_plan(self._problem, self._decision)
            batch_s = self._priced.batch_s
        if abs(batch_s - plan.batch_s) > SAME * plan.batch_s:
            raise RunError(f"a batch of {plan.model} took {plan.batch_s:.9g} s in the search, {batch_s:.9g} s now")

    @property
    def operators(self) -> list[OperatorEstimate]:
        """Every operator of the model, cut as the plan cuts it, on all cores of the chip."""
        if self._operators is None:
            graph = self._work.graph(self._unit.cut)
            self._operators = estimate_operators(
                graph, self._chip, self._plan.microbatch, self._cluster, self._estimate_model
            )
        return self._operators

    def account(self) -> PlanAccount:
        """Time and memory by cause."""
        if self._is_full:
            graph = self.full_problem.graphs[0]
            causes = causes_of(self.full_problem, graph, self.full_price)
            devices, num_positions = self.full_price.devices, max(len(layer.keep) for layer in graph.layers)
        else:
            time = self._priced.time
            causes = TimeCauses(
                compute_s=time.compute_s,
                replay_s=time.replay_s,
                messages_s=time.transfer_s,
                gathers_s=0.0,
                bubble_s=time.bubble_s,
                sync_s=time.sync_s,
                tied_s=time.tied_s,
                step_s=time.step_s,
                regather_s=0.0,
            )
            names = [one.name for one in fields(DeviceMemory)]
            devices = tuple(
                DeviceMemory(**{name: getattr(stage.memory, name) for name in names})
                for stage in self._priced.stages
            )
            num_positions = 1
        return PlanAccount(
            model=self._plan.model,
            causes=causes,
            devices=devices,
            num_keep_positions=num_positions,
            bound_by_fractions=_bound_by(self.operators),
        )

    def timeline(self) -> PlanTimeline | None:
        """The batch replayed pass by pass; None without a schedule to replay, or if it is very long."""
        if self._is_full:
            return self._full_timeline()
        count = self._priced.num_microbatches
        if self._problem.cost_model is PlacementModel.PAPER or 2 * count * self._plan.pp > MAX_REPLAYED_PASSES:
            return None
        replayed = replay_plan(self._problem, self._decision)
        kinds = tuple(str(kind) for kind in Activity)
        events = [
            (one.stage, kinds.index(one.activity), one.microbatch, one.start_s, one.end_s)
            for one in replayed.events
        ]
        return _timeline(events, kinds, self._plan.pp, count)

    def _full_timeline(self) -> PlanTimeline | None:
        plan, graph = self.full_price.plan, self.full_problem.graphs[0]
        count = -(-self.full_problem.num_microbatches(graph) // plan.dp)
        if len(PassKind) * count * len(plan.stages) > MOST_FULL_PASSES // 10:
            return None
        kinds = tuple(str(kind) for kind in PassKind)
        events = [
            (one.device, kinds.index(one.kind), one.microbatch, one.start_s, one.end_s)
            for one in replay_events(self.full_problem, graph, self.full_price)
        ]
        return _timeline(events, kinds, plan.pp, count)


def _bound_by(operators: Sequence[OperatorEstimate]) -> dict[str, float]:
    """The part of the time each resource binds, largest first."""
    found: dict[str, float] = {}
    for one in operators:
        found[one.bound_by] = found.get(one.bound_by, 0.0) + one.time_share
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _timeline(events: list[_Event], kinds: tuple[str, ...], num_devices: int, count: int) -> PlanTimeline:
    batch_s = max(event[4] for event in events)
    from_s = to_s = 0.0
    if len(events) > MOST_EVENTS:
        by_time = sorted(events, key=lambda event: event[3])
        from_s, to_s = by_time[MOST_EVENTS // 2][3], by_time[-MOST_EVENTS // 2][3]
        # Passes that run into what is left out are kept whole.
        events = [event for event in events if event[3] < from_s or event[3] >= to_s]
    device_e, kind_e, microbatch_e, start_s_e, end_s_e = zip(*events, strict=True)
    return PlanTimeline(
        num_devices=num_devices,
        num_microbatches=count,
        batch_s=batch_s,
        kinds=kinds,
        device_e=device_e,
        kind_e=kind_e,
        microbatch_e=microbatch_e,
        start_s_e=start_s_e,
        end_s_e=end_s_e,
        left_out_from_s=from_s,
        left_out_to_s=to_s,
    )
