"""Records of a small search, every name in them chosen by the test."""

import math
from dataclasses import replace

import numpy as np
import pytest

from rephaze.hardware.area import chip_items
from rephaze.hardware.assumptions import scenario_assumptions
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.scenarios import load_scenario
from rephaze.report.explored import ExploredDesigns, MarkedChip
from rephaze.report.search_report import SearchRecords
from rephaze.types.chip import chip_table
from rephaze.types.comparison import Baseline, ChipAnswer
from rephaze.types.full import DeviceMemory, TimeCauses
from rephaze.types.latency import Engine
from rephaze.types.operator_estimate import OperatorEstimate
from rephaze.types.pareto import ChipPoint, ChipPoints, PointKind
from rephaze.types.plan_account import BaselineAccounts, PlanAccount, PlanDetail, PlanTimeline
from rephaze.types.run_record import Incumbent, RunInfo, RunVersions
from rephaze.types.schedule import (
    Mode,
    PassSchedule,
    Schedule,
    ScheduledOp,
    ScheduleOp,
    ScheduleProblem,
    ScheduleStatus,
)
from rephaze.types.search import (
    Aggregate,
    Certificate,
    Evaluation,
    ModelPlan,
    Objective,
    SearchResult,
    SearchSettings,
    SearchStatus,
    StagePlan,
)
from rephaze.types.space import AreaModel


@pytest.fixture
def make_records():
    def make(name="plain", *, chip=True, objective=Objective.THROUGHPUT):
        return search_records(name, has_chip=chip, objective=objective)

    return make


def search_records(name, *, has_chip, objective):
    scenario = load_scenario("coarse")
    settings = SearchSettings(
        models=(name,),
        weights=(1.0,),
        scenario=scenario,
        objective=objective,
        aggregate=Aggregate.GEOMEAN,
        seed=0,
        exhaustive=False,
    )
    winner = preset_chip("tpuv4")
    plans = (model_plan(name),) if has_chip else ()
    result = SearchResult(
        status=SearchStatus.OPTIMAL if has_chip else SearchStatus.INFEASIBLE,
        objective=300.0 if has_chip else 0.0,
        bound=300.0 if has_chip else 0.0,
        gap=0.0,
        design=2 if has_chip else None,
        chip=winner if has_chip else None,
        area_um2=2.5e8 if has_chip else 0.0,
        plans=plans,
        certificate=Certificate(
            num_designs=5,
            num_solved_exactly=2 if has_chip else 0,
            num_dropped_by_bound={name: 1} if has_chip else {},
            num_infeasible=1 if has_chip else 5,
            num_within={"1 %": (1, 2)} if has_chip else {"1 %": (0, 0)},
            binding=name if has_chip else "",
        ),
        reason="" if has_chip else f"no plan of {name} fits",
        search_s=12.5,
    )
    solved = [
        Evaluation(design=1, is_exact=True, objective=200.0, bound=200.0, plans=()),
        Evaluation(design=2, is_exact=True, objective=300.0, bound=300.0, plans=plans),
        Evaluation(design=3, is_exact=False, objective=-math.inf, bound=250.0, plans=(), dropped_by=name),
        Evaluation(design=4, is_exact=True, objective=-math.inf, bound=-math.inf, plans=(), reason=name),
    ]
    return SearchRecords(
        info=RunInfo(
            settings=settings,
            versions=RunVersions(
                estimator=name, rephaze="0.1", python="3.11", packages={name: "1"}, input_digests={name: "abc"}
            ),
            created_at="2026-01-01T00:00:00+00:00",
            updated_at="2026-01-01T00:01:00+00:00",
            num_sessions=1,
        ),
        result=result,
        explored=ExploredDesigns(
            chips=chip_table([winner] * 5),
            area_um2_c=np.linspace(2e8, 3e8, 5),
            area_limit_um2=scenario.space.area_limit_um2,
            evaluations=solved if has_chip else [],
        ),
        incumbents=[Incumbent(elapsed_s=3.0, objective=200.0, bound=400.0, design=1)] if has_chip else [],
        plans=[plan_detail(name)] if has_chip else [],
        baselines=[baseline(name, winner)] if has_chip else [],
        accounts=[BaselineAccounts(name=f"{name}, expert plan", plans=(plan_account(name),))] if has_chip else [],
        points=chip_points(name, scenario) if has_chip else None,
        items=[chip_items(winner, AreaModel.CORRECTED)] * 2 if has_chip else [],
        assumptions=scenario_assumptions(scenario),
        marked=[
            MarkedChip(name=name, area_um2=3e8, objective=150.0, bound=150.0),
            MarkedChip(name=f"far {name}", area_um2=9e8, objective=150.0, bound=165.0),
        ]
        if has_chip
        else [],
    )


def model_plan(name):
    stage = StagePlan(
        first_layer=name,
        last_layer=name,
        num_layers=2,
        num_devices=4,
        load_s=0.0125,
        memory_bytes=3 * 2**30,
        recompute="block",
    )
    return ModelPlan(
        model=name,
        samples_per_s=300.0,
        batch_s=0.5,
        tp=2,
        dp=4,
        pp=2,
        microbatch=8,
        recompute="block",
        hbm_bytes=2**35,
        energy_per_sample_j=0.1,
        stages=(stage, stage),
    )


def plan_account(name, kept_gib=(1, 13)):
    causes = TimeCauses(
        compute_s=0.4, replay_s=0.05, messages_s=0.0, gathers_s=0.0, bubble_s=0.03, sync_s=0.02, tied_s=0.0,
        step_s=0.0, regather_s=0.0,
    )  # fmt: skip
    devices = [
        DeviceMemory(
            weights_bytes=2**30, gradients_bytes=2**30, state_bytes=2**30, kept_bytes=gib * 2**30,
            replay_bytes=0.0, working_bytes=0.0,
        )
        for gib in kept_gib
    ]  # fmt: skip
    return PlanAccount(
        model=name,
        causes=causes,
        devices=tuple(devices),
        num_keep_positions=16,
        bound_by_fractions={"array": 0.75, "hbm": 0.25},
    )


def plan_detail(name):
    timeline = PlanTimeline(
        num_devices=2,
        num_microbatches=1,
        batch_s=0.5,
        kinds=("forward", "backward", "sync"),
        device_e=(0, 1, 1, 0, 0),
        kind_e=(0, 0, 1, 1, 2),
        microbatch_e=(0, 0, 0, 0, -1),
        start_s_e=(0.0, 0.1, 0.2, 0.3, 0.45),
        end_s_e=(0.1, 0.2, 0.3, 0.45, 0.5),
    )
    operator = OperatorEstimate(
        layer=name, direction="forward", name=name, target=name, engine=Engine.TENSOR, num_times=48, time_s=1e-5,
        one_core_s=1e-4, energy_j=0.1, time_share=0.5, bound_by="array", num_flops=1e9, num_model_flops=10**9,
        hbm_bytes=1e6, hbm_share=0.5, buffer_share=0.5, tensor_utilization=0.5,
    )  # fmt: skip
    return PlanDetail(
        model=name,
        account=plan_account(name),
        timeline=timeline,
        operators=(operator,),
        passes=(pass_schedule(name),),
    )


def baseline(name, chip):
    plan = replace(model_plan(name), samples_per_s=150.0, batch_s=1.0)
    answer = ChipAnswer(chip=chip, area_um2=3e8, objective=150.0, bound=150.0, plans=(plan,))
    return Baseline(name=f"{name}, expert plan", answer=answer, num_evaluations=1, search_s=1.0, note=name)


def chip_points(name, scenario):
    def point(kind, speed, area_um2, fits=True):
        return ChipPoint(
            kind=kind, name=name, objective=speed, samples_per_s=speed, area_um2=area_um2, energy_per_sample_j=0.1,
            chip_usd=500.0, fits_limits=fits,
        )  # fmt: skip

    points = (
        point(PointKind.WINNER, 300.0, 2.5e8),
        point(PointKind.SOLVED, 200.0, 2.25e8),
        point(PointKind.CHANGED, 320.0, 4e8, fits=False),
        point(PointKind.KNOWN, 150.0, 3e8),
    )
    return ChipPoints(points=points, known_names=(name,), area_limit_um2=scenario.space.area_limit_um2)


def pass_schedule(name):
    op = ScheduleOp(name=name, engine=Engine.TENSOR, one_core_cycles=9, all_cores_cycles=4)
    return PassSchedule(
        model=name,
        layer=name,
        direction="forward",
        num_layers=48,
        tp=2,
        microbatch=8,
        clock_hz=1e9,
        problem=ScheduleProblem(num_tensor_cores=1, num_vector_cores=1, ops=(op,), edges=()),
        schedule=Schedule(
            status=ScheduleStatus.OPTIMAL,
            makespan_cycles=4,
            bound_cycles=4,
            starts=(ScheduledOp(op=name, start_cycles=0, mode=Mode.ALL_CORES),),
            solve_s=0.0,
        ),
    )
