"""The baselines: other ways to a chip and its plans, each measured by the same yardstick.

Searching baselines take an evaluation budget: chips they may look at.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rephaze.hardware.derating import chip_at
from rephaze.hardware.grid import FIELDS
from rephaze.hardware.presets import preset_chip
from rephaze.hardware.template import build_chips
from rephaze.measure.rule_plans import PlanRule
from rephaze.search.bounded_designs import BoundedDesigns
from rephaze.search.workers.base import InProcess
from rephaze.study.bayes import minimise, unit_features
from rephaze.study.candidates import Candidates
from rephaze.study.chip_metric import ChipMetric, metric_of_chip
from rephaze.study.yardstick import Yardstick
from rephaze.types.chip import Chip
from rephaze.types.comparison import Baseline, ChipAnswer
from rephaze.types.scenario import Scenario
from rephaze.types.search import Evaluation
from rephaze.types.space import AreaModel
from rephaze.types.stopping import UNSTOPPED
from rephaze.units import GIB, MIB

SEARCHED_EXPERT = "searched chip, expert plan"
SEARCHED = "searched chip and plan"
RANDOM = "random search"
PAPER_HEURISTIC = "paper's heuristic"

PATIENCE_GROUPS = 5


def spotlight_name(metric: ChipMetric, plan: str) -> str:
    """The name of a Spotlight-style baseline: its metric, and whose plan."""
    return f"spotlight {metric}, {plan} plan"


def tpuv4_of(scenario: Scenario) -> Chip:
    """TPUv4 as the space's area model knows it: the paper's template with 32 GiB, or the preset at its rates."""
    space = scenario.space
    if space.area_model is not AreaModel.PAPER:
        return chip_at(preset_chip("tpuv4"), scenario)

    def column(value: int) -> NDArray[np.int64]:
        return np.array([value], dtype=np.int64)

    return build_chips(
        num_tensor_cores=column(8),
        tensor_width=column(128),
        tensor_depth=column(128),
        num_vector_cores=column(2),
        vector_lanes=column(128),
        global_buffer_bytes=column(128 * MIB),
        num_hbm_stacks=column(1),
        template=space.template,
        hbm_bytes=32 * GIB,
    ).chip(0, "tpuv4")


def chip_with_expert_plans(yardstick: Yardstick, name: str, chip: Chip) -> Baseline:
    """One chip as it is, with the expert's plans."""
    return _measured(name, chip, yardstick.with_expert_plans)


def chip_with_rule_plans(yardstick: Yardstick, name: str, chip: Chip, rule: PlanRule) -> Baseline:
    """One chip as it is, with what a practitioner's rule gives."""
    return _measured(name, chip, lambda one: yardstick.with_expert_plans(one, rule))


def chip_with_searched_plans(yardstick: Yardstick, name: str, chip: Chip) -> Baseline:
    """One chip as it is, with the best plans."""
    return _measured(name, chip, yardstick.with_searched_plans)


def _measured(name: str, chip: Chip, measure: Callable[[Chip], ChipAnswer]) -> Baseline:
    began = time.perf_counter()
    answer = measure(chip)
    return Baseline(
        name=name,
        answer=answer,
        num_evaluations=1,
        search_s=time.perf_counter() - began,
        note=answer.reason,
    )


def search_spotlight_style(
    yardstick: Yardstick, candidates: Candidates, metric: ChipMetric, budget: int, seed: int
) -> tuple[Baseline, Baseline]:
    """The chip a Bayesian search for one chip's metric finds: placed by the expert, and by our placement.

    Both carry the evaluations and the time of the one chip search they share.
    """
    began = time.perf_counter()
    evaluator = candidates.evaluator
    chips = evaluator.census.chips

    def cost(design: int) -> float:
        return metric_of_chip(evaluator, evaluator.solver(design), metric)

    points_kf = unit_features([getattr(chips, name) for name in FIELDS])
    best, tried = minimise(points_kf, cost, budget, seed)
    searched_s = time.perf_counter() - began
    found = []
    for plan, measure in (
        ("expert", yardstick.with_expert_plans),
        ("searched", yardstick.with_searched_plans),
    ):
        name = spotlight_name(metric, plan)
        if best is None:
            note = _joined(candidates.note, "no chip it tried runs every layer")
            found.append(
                Baseline(name=name, answer=None, num_evaluations=len(tried), search_s=searched_s, note=note)
            )
            continue
        placed = _measured(name, chips.chip(best), measure)
        found.append(
            Baseline(
                name=name,
                answer=placed.answer,
                num_evaluations=len(tried),
                search_s=searched_s + placed.search_s,
                note=_joined(candidates.note, placed.note),
            )
        )
    return found[0], found[1]


def search_at_random(yardstick: Yardstick, candidates: Candidates, budget: int, seed: int) -> Baseline:
    """The best of ``budget`` designs drawn without replacement, plans searched for each."""
    began = time.perf_counter()
    num_designs = candidates.num_designs
    drawn = np.random.default_rng(seed).choice(num_designs, size=min(budget, num_designs), replace=False)
    best, num_tried = _best_of(candidates, drawn.tolist(), None)
    return Baseline(
        name=RANDOM,
        answer=_answer(yardstick, candidates, best),
        num_evaluations=num_tried,
        search_s=time.perf_counter() - began,
        note="" if best else "no chip it drew has a plan for every model",
    )


def search_by_area_groups(yardstick: Yardstick, candidates: Candidates, budget: int) -> Baseline:
    """The paper's heuristic: groups of 10,000 um² by falling area, until five groups bring nothing better.

    Groups without a design do not count. Should the budget end first, the note says so.
    """
    began = time.perf_counter()
    best: Evaluation | None = None
    num_tried, since_better = 0, 0
    note = "every group was looked at"
    for num_groups, group in enumerate(candidates.area_groups()):
        if num_tried >= budget:
            note = f"stopped by the budget after {num_groups} group{'s' * (num_groups > 1)} of area"
            break
        before = best
        best, tried = _best_of(candidates, group[: budget - num_tried], best)
        num_tried += tried
        if tried < len(group):
            note = (
                f"stopped by the budget in group {num_groups + 1} of area, with {len(group) - tried:,} left in it"
            )
            break
        is_better = best is not None and (before is None or best.objective > before.objective)
        since_better = 0 if is_better else since_better + 1
        if best is not None and since_better >= PATIENCE_GROUPS:
            note = f"stopped by its own rule after {num_groups + 1} groups of area"
            break
    return Baseline(
        name=PAPER_HEURISTIC,
        answer=_answer(yardstick, candidates, best),
        num_evaluations=num_tried,
        search_s=time.perf_counter() - began,
        note=note,
    )


def _answer(yardstick: Yardstick, candidates: Candidates, best: Evaluation | None) -> ChipAnswer | None:
    if best is None:
        return None
    return yardstick.of_evaluation(best, candidates.evaluator.census.chips.chip(best.design))


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def _best_of(
    candidates: Candidates, designs: Sequence[int], best: Evaluation | None
) -> tuple[Evaluation | None, int]:
    """The best design of those given and ``best``, and how many were looked at.

    A design is dropped as soon as a bound shows it no better: the same answer, sooner. The bound of the best is
    what any of those looked at might reach, had its schedules been proven.
    """
    if not designs:
        return best, 0
    bounded = BoundedDesigns(candidates.evaluator, InProcess(candidates.evaluator, UNSTOPPED))
    bounded.refine(designs)
    for design in designs:
        (found,) = bounded.evaluate([design], best.objective if best else -math.inf)
        assert isinstance(found, Evaluation), "nothing stops it"
        if not found.is_exact or found.objective <= 0.0:
            continue
        better = found if best is None or found.objective > best.objective else best
        best = replace(better, bound=max(found.bound, best.bound if best else 0.0))
    return best, len(designs)
