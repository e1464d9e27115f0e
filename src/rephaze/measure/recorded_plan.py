"""A recorded plan of cost models ``1f1b`` and ``paper`` as the decision it stands for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from rephaze.place.solver import Placer
from rephaze.types.placement import PlacementProblem, Plan, PlanLimits, PlannedStage, Recompute
from rephaze.types.search import ModelPlan


def recorded_plan(problem: PlacementProblem, plan: ModelPlan) -> Plan:
    """The decision a recorded plan stands for: stages are runs of layers in the graph's order.

    Where layers branch a stage may be no such run, and its ends do not tell what is between them: then it is the
    best plan of the recorded degrees, and its stages must come out as recorded.
    """
    names = [layer.name for layer in problem.graphs[0].layers]
    ends = np.cumsum([0] + [stage.num_layers for stage in plan.stages]).tolist()
    runs = [tuple(range(first, last)) for first, last in pairwise(ends)]
    is_line = all(link.dst == link.src + 1 for link in problem.graphs[0].links)
    if not is_line and ends[-1] == len(names):
        given = [(stage.first_layer, stage.last_layer) for stage in plan.stages]
        if given != [(names[run[0]], names[run[-1]]) for run in runs]:
            placer = Placer(problem, PlanLimits(dp=plan.dp, pp=plan.pp))
            return placer.plan(placer.solve())
    return Plan(
        tp=plan.tp,
        dp=plan.dp,
        microbatch=plan.microbatch,
        stages=tuple(
            PlannedStage(layers=run, recompute=Recompute(stage.recompute))
            for run, stage in zip(runs, plan.stages, strict=True)
        ),
    )
