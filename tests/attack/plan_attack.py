"""A better plan than the solver's, looked for without any of its bounds: every plan if few, else drawn ones.

Plans are listed from their definitions (``tests/property/full_cases``) and priced one by one. A drawn plan replays
what it must to fit, device by device: plans that fit only just are where a solver goes wrong.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

from rephaze.place.full.price import price_full_plan
from rephaze.types.full import FullPlan, FullPrice, FullProblem, FullStage, PlanFamily
from tests.property.full_cases import all_plans, legal_shapes, shard_choices

MOST_KEPT = 16
"""Positions of a list, at most."""


class PlanAttack:
    """The plans of one problem with one graph.

    Args:
        problem: The problem.
        most: Plans to price, at most.
        seed: Of the draws.
    """

    def __init__(self, problem: FullProblem, most: int, seed: int) -> None:
        self.problem, self.graph, self.most = problem, problem.graphs[0], most
        self._rng = random.Random(seed)
        self.num_priced = 0

    def best(self, start: FullPlan | None) -> FullPrice | None:
        """The best plan found that fits.

        Args:
            start: A plan whose neighbours are tried too.
        """
        return min(self._fitting(start), key=lambda price: price.batch_s, default=None)

    def drawn(self) -> FullPrice | None:
        """Some plan, whether or not it fits, all stages at one position; None if there is none."""
        choices = list(self.layouts())
        for _ in range(20 if choices else 0):
            plan = self._rng.choice(choices)
            layers = self._cut(plan, None)
            if layers is not None:
                keep = self._rng.choice((0, 0, 3, 8, MOST_KEPT - 1))
                stages = tuple(FullStage(layers=own, keep=keep) for own in layers)
                return price_full_plan(self.problem, self.graph, replace(plan, stages=stages))
        return None

    def _fitting(self, start: FullPlan | None) -> Iterator[FullPrice]:
        everything = list(itertools.islice((plan for _, plan in all_plans(self.problem)), self.most + 1))
        if len(everything) <= self.most:
            for plan in everything:
                yield from self._priced(plan)
            return
        choices = list(self.layouts())
        while choices and self.num_priced < self.most:
            plan = self._rng.choice(choices)
            if start is not None and self._rng.random() < 0.3:
                plan = replace(start, stages=())
            layers = self._cut(plan, start)
            if layers is not None:
                yield from self._with_replays(plan, layers)

    def _priced(self, plan: FullPlan) -> Iterator[FullPrice]:
        self.num_priced += 1
        price = price_full_plan(self.problem, self.graph, plan)
        if price.fits:
            yield price

    def layouts(self) -> Iterator[FullPlan]:
        """Every plan with stages that have no layers yet."""
        graph = self.graph
        for dp, pp, order, schedule, chunks in legal_shapes(self.problem, graph):
            for sharding, f, reshard in shard_choices(self.problem, graph, dp):
                if schedule == "zero-bubble" and sharding == "weights" and reshard:
                    continue
                yield FullPlan(
                    tp=graph.tp, cp=graph.cp, ep=graph.ep, etp=graph.etp, sp=graph.sp, dp=dp,
                    microbatch=graph.microbatch, order=order, sharding=sharding, shard_group=f, reshard=reshard,
                    schedule=schedule, chunks=chunks, stages=(FullStage(layers=()),) * (pp * chunks),
                )  # fmt: skip

    def _cut(self, plan: FullPlan, start: FullPlan | None) -> list[tuple[int, ...]] | None:
        """Layers along the file's order, cut anywhere, or as the start is but for one border."""
        num_layers, rng = len(self.graph.layers), self._rng
        if not plan.stages:
            assert start is not None
            borders = [stage.layers[0] for stage in start.stages[1:]]
            is_in_order = [v for stage in start.stages for v in stage.layers] == list(range(num_layers))
            if not is_in_order:
                return [stage.layers for stage in start.stages]
            if borders:
                at = rng.randrange(len(borders))
                borders[at] += rng.choice((-1, 0, 1))
        else:
            borders = sorted(rng.sample(range(1, num_layers), len(plan.stages) - 1))
        ends = [0, *borders, num_layers]
        if any(a >= b for a, b in itertools.pairwise(ends)):
            return None
        layers = [tuple(range(a, b)) for a, b in itertools.pairwise(ends)]
        return layers if self._has_family(layers) else None

    def _has_family(self, layers: list[tuple[int, ...]]) -> bool:
        if self.problem.options.family not in (PlanFamily.MEGATRON, PlanFamily.MAXTEXT):
            return True
        blocks = [sum(self.graph.layers[v].is_block for v in stage) for stage in layers]
        return all(number == max(blocks) for number in blocks[1:-1])

    def _with_replays(self, plan: FullPlan, layers: list[tuple[int, ...]]) -> Iterator[FullPrice]:
        """The plan with no replays where it fits so; else with ever more of them on the devices that overflow."""
        pp = len(layers) // plan.chunks
        keep = [0] * len(layers)
        for _ in range(MOST_KEPT * pp):
            stages = tuple(FullStage(layers=own, keep=at) for own, at in zip(layers, keep, strict=True))
            self.num_priced += 1
            price = price_full_plan(self.problem, self.graph, replace(plan, stages=stages))
            if price.fits:
                yield price
                return
            if price.plan.num_devices > price.num_cluster_devices:
                return
            longest = [max(len(self.graph.layers[v].keep) for v in own) for own in layers]
            moved = False
            for device, memory in enumerate(price.devices):
                if memory.total_bytes > price.device_memory_bytes:
                    own = [at for at in range(device, len(layers), pp) if keep[at] + 1 < longest[at]]
                    if not own:
                        return
                    keep[self._rng.choice(own)] += 1
                    moved = True
            if not moved:
                return


def better_plan(
    problem: FullProblem, best: FullPrice | None, most: int, seed: int
) -> tuple[FullPrice | None, int]:
    """A plan that fits and is faster than the best by more than rounding, if any; and how many were priced."""
    attack = PlanAttack(problem, most, seed)
    found = attack.best(best.plan if best else None)
    if found is None or (best is not None and found.batch_s >= best.batch_s * (1 - 1e-9)):
        return None, attack.num_priced
    return found, attack.num_priced


def drawn_bytes(problem: FullProblem, rng: random.Random) -> float | None:
    """What the fullest device of some plan holds; None if the problem has no plan."""
    price = PlanAttack(problem, 1, rng.randrange(2**31)).drawn()
    return max(device.total_bytes for device in price.devices) if price is not None else None


def bytes_at(problem: FullProblem, keep: int) -> float:
    """What a device holds if one has all layers, at some position of what to keep."""
    attack = PlanAttack(problem, 1, 0)
    plan = next(plan for plan in attack.layouts() if plan.dp == len(plan.stages) == 1)
    stage = FullStage(layers=tuple(range(len(attack.graph.layers))), keep=keep)
    return price_full_plan(problem, attack.graph, replace(plan, stages=(stage,))).devices[0].total_bytes
