"""A recorded plan of cost model ``full`` with its problem and price, derived again."""

from __future__ import annotations

from dataclasses import dataclass

from rephaze.measure.plan_again import PricedAgain
from rephaze.types.chip import Chip
from rephaze.types.full import FullGraph, FullPrice, FullProblem
from rephaze.types.search import ModelPlan, SearchSettings
from rephaze.types.stopping import UNSTOPPED, StopSignal


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanAgain:
    """A plan as placement sees it."""

    problem: FullProblem
    graph: FullGraph
    price: FullPrice


def plan_again(settings: SearchSettings, chip: Chip, plan: ModelPlan, stop: StopSignal = UNSTOPPED) -> PlanAgain:
    """The plan priced on layers that are estimated and scheduled as the search did.

    Raises:
        RunError: That gives another time than was recorded.
        StoppedError: When cut.
    """
    again = PricedAgain(settings, chip, plan, stop)
    problem = again.full_problem
    return PlanAgain(problem=problem, graph=problem.graphs[0], price=again.full_price)
