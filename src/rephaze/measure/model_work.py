"""One model made ready for a search: graphs by how they are cut, structures, placement problems.

Everything here is independent of the chip's cores and is prepared once a process.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

from rephaze.errors import SpecError
from rephaze.measure.cut_forms import CutForm, CutForms
from rephaze.measure.full_problem import full_graph, full_problem
from rephaze.measure.keep_budgets import keep_budgets
from rephaze.measure.known_passes import KnownPasses
from rephaze.measure.legal_cuts import legal_cuts
from rephaze.measure.pass_classes import CommonPass, PassClass, PassWork
from rephaze.measure.pass_items import PassItems, pass_items
from rephaze.measure.placement_memo import PlacementMemo
from rephaze.measure.stage_graph import stage_graph
from rephaze.measure.units import Memory, Unit
from rephaze.place.bounds import ChipBounds
from rephaze.place.full.chip_bounds import FullChipBounds, LeastReplays
from rephaze.place.full.solver import FullPlacer
from rephaze.place.precision import named_precision
from rephaze.place.price import price_plan
from rephaze.place.solver import Placer
from rephaze.types.cut import GraphCut
from rephaze.types.full import FullGraph, FullLimits, FullProblem, PipelineSchedule
from rephaze.types.graph import ModelGraph
from rephaze.types.placement import PlacementModel, PlacementProblem, Plan, PricedPlan, Recompute, RecomputePolicy
from rephaze.types.scenario import Scenario
from rephaze.types.search import ModelPlan
from rephaze.types.stopping import UNSTOPPED, StopSignal
from rephaze.workload.zoo import load_model

Floats = NDArray[np.float64]


MANY_CLASSES = 100
"""Of a model with more, as mixtures have, little is looked at until there is something to hold it against."""
_numbers = count()


class ModelWork:
    """A model under a scenario.

    Args:
        name: Zoo name or graph file.
        scenario: Degrees, microbatch sizes, cluster, optimizer.
        stop: Ends the preparation with ``StoppedError``.
        limits: Choices made beforehand, under cost model ``full``; what of them is in lists, the scenario has.
        alike: The same model under a scenario that differs in space and cluster alone: shares its graphs.
        base: Its graph, where that was loaded before.
        memo: Of placement problems, shared among models.
    """

    def __init__(
        self,
        name: str,
        scenario: Scenario,
        stop: StopSignal = UNSTOPPED,
        limits: FullLimits | None = None,
        alike: ModelWork | None = None,
        base: ModelGraph | None = None,
        memo: PlacementMemo | None = None,
    ) -> None:
        stop.check()
        self.name, self.scenario, self._limits = name, scenario, limits
        self.same_as = name
        """The first of a search's models that is this one but for the name: what is found of it holds here."""
        self.is_full = scenario.placement_model is PlacementModel.FULL
        self.has_split_backward = self.is_full and PipelineSchedule.ZERO_BUBBLE in scenario.plans.schedule
        training = scenario.training
        self._alike = alike
        self._base: ModelGraph = alike._base if alike else base or load_model(name, scenario.attention)
        self.cuts = tuple(legal_cuts(self._base, scenario))
        """Every way the model's layers may be cut."""
        self.base_cuts = tuple(cut for cut in self.cuts if cut.cp == 1) or self.cuts
        """Those that leave the sequence whole: the others do no less work, on more chips."""
        self._forms: CutForms = (
            alike._forms if alike else CutForms(self._base, has_split_backward=self.has_split_backward)
        )
        for cut in self.base_cuts:
            stop.check()
            self.first_form(cut)
        self.microbatches = tuple(b for b in training.microbatches if b <= training.global_batch)
        if not self.microbatches:
            rule = f"must have one that is no larger than the global batch of {training.global_batch}"
            raise SpecError("microbatches", list(training.microbatches), rule)
        self.units = tuple(
            Unit(cut, microbatch, policy)
            for cut in self.cuts
            for microbatch in self.microbatches
            for policy in ((RecomputePolicy.AUTO,) if self.is_full else _policies(training.recompute))
        )
        self.pairs = tuple(dict.fromkeys((unit.cut, unit.microbatch) for unit in self.units))
        """Cuts and microbatch sizes: what layer times depend on."""
        self.classes = _pass_classes(self.pairs)
        self.class_of = {pair: k for k, one in enumerate(self.classes) for pair in one.pairs}
        self.layer_type_of = self._base.layer_type_of
        self._budgets: dict[tuple[GraphCut, int, int], Floats] = alike._budgets if alike else {}
        self._placers: dict[tuple[Unit, Memory], Placer] = {}
        self._bounds: dict[tuple[Unit, Memory], ChipBounds] = {}
        self._memo = memo or PlacementMemo()
        self._number = next(_numbers)
        """Among those that share the memo."""
        self._full_graphs: dict[tuple[GraphCut, int], FullGraph] = {}
        self.known_passes = KnownPasses()

    def renamed(self, name: str) -> ModelWork:
        """The same model under another name; both know what is found of either."""
        other = copy(self)
        other.name, other._alike = name, self
        return other

    @property
    def has_many_classes(self) -> bool:
        """Whether there is so much to bound that coarse times must do at first."""
        return len(self.classes) > MANY_CLASSES

    @property
    def tp_degrees(self) -> tuple[int, ...]:
        """Tensor-parallel degrees searched."""
        return tuple(dict.fromkeys(cut.tp for cut in self.cuts))

    def forms(self, cut: GraphCut) -> tuple[CutForm, ...]:
        """The model cut this way, once for each way attention may meet the keys of other chips."""
        return self._forms.all(cut)

    def first_form(self, cut: GraphCut) -> CutForm:
        """The first of ``forms``, made without the others."""
        return self._forms.first(cut)

    def graph(self, cut: GraphCut) -> ModelGraph:
        """The model cut this way, in the first of its forms: parameters and sizes are those of any."""
        return self.first_form(cut).graph

    def passes(self, cut: GraphCut) -> tuple[tuple[PassWork, ...], ...]:
        """By layer type the passes, in the first form of the cut."""
        return self.first_form(cut).passes

    def all_forms(self, cut: GraphCut) -> tuple[CutForm, ...]:
        """As ``forms``; of a whole sequence there is one."""
        return self.forms(cut) if cut.cp > 1 else (self.first_form(cut),)

    def common_pass(self, k: int, kind: int, direction: int) -> CommonPass:
        """What the passes of one of ``classes`` have in common, in all their forms."""
        return self._forms.common_pass(self.classes[k].pairs, kind, direction)

    def schedulable_passes(self, k: int, kind: int, direction: int) -> tuple[CommonPass, ...]:
        """No pass of one of ``classes``, in whatever form, has a shorter schedule than the shortest of these."""
        return self._forms.schedulable_passes(self.classes[k].pairs, kind, direction)

    def own_pass(self, cut: GraphCut, microbatch: int, form: int, kind: int, direction: int) -> CommonPass:
        """A pass of one form of a cut, for those who need no more than what its operators take."""
        one = self.first_form(cut) if form == 0 else self.forms(cut)[form]
        return self._forms.own_pass(one, microbatch, kind, direction)

    @cached_property
    def class_of_u(self) -> NDArray[np.intp]:
        """The class of each unit."""
        return np.array([self.class_of[unit.cut, unit.microbatch] for unit in self.units], dtype=np.intp)

    @cached_property
    def units_of_k(self) -> list[NDArray[np.intp]]:
        """The units of each class."""
        return [np.flatnonzero(self.class_of_u == k) for k in range(len(self.classes))]

    @cached_property
    def pass_items(self) -> PassItems:
        """The operators of the passes of all classes, each once."""
        if self._alike is not None and self._alike.classes == self.classes:
            return self._alike.pass_items
        return pass_items(len(self.classes), len(self._base.layer_types), self.common_pass)

    def keep_budgets(self, unit: Unit, kind: int) -> Floats:
        """Bytes a layer type may keep, position by position, whatever the chip: from all to the inputs alone."""
        key = (unit.cut, unit.microbatch, kind)
        if key not in self._budgets:
            self._budgets[key] = keep_budgets(self.first_form(unit.cut).keep_sets(kind), unit.microbatch)
        return self._budgets[key]

    def cut_of(self, plan: ModelPlan) -> GraphCut | None:
        """The cut a plan was made for; None if it is not among those of the scenario."""
        for cut in self.cuts:
            if (cut.tp, cut.sp, cut.cp, cut.ep) != (plan.tp, plan.sp, plan.cp, plan.ep):
                continue
            if not self.is_full or self.graph(cut).etp == plan.etp:
                return cut
        return None

    def num_members(self, cut: GraphCut, kind: int) -> int:
        """Chips that work on a layer of one replica."""
        if self.is_full:
            return cut.tp * cut.cp
        return cut.tp if self.graph(cut).layer_types[kind].is_sharded else 1

    def placer(self, unit: Unit, memory: Memory) -> Placer:
        """The placement problem of one unit on chips with this memory (cost models ``1f1b`` and ``paper``)."""
        key = (unit, memory)
        if key not in self._placers:
            self._placers[key] = Placer(self.placement_problem((unit,), memory))
        return self._placers[key]

    def full_placer(self, unit: Unit, memory: Memory) -> FullPlacer:
        """The same under cost model ``full``."""
        key = (self._number, unit, memory)
        placer = self._memo.placers.get(key)
        if placer is None:
            placer = self._memo.placers[key] = FullPlacer(self.full_problem((unit,), memory))
        return placer

    def batch_bounds_s(
        self,
        unit: Unit,
        memory: Memory,
        forward_s_ct: Floats,
        backward_s_ct: Floats,
        input_s_ct: Floats,
        replays: LeastReplays | None = None,
        longest_s_c: Floats | None = None,
    ) -> Floats:
        """For many chips with this memory, a batch time no plan of the unit beats if nothing takes less.

        Longer ones than ``longest_s_c``, where given, need not be told apart.
        """
        key = (unit, memory)
        if self.is_full:
            bounds = self._memo.bounds.get((self._number, unit, memory))
            if bounds is None:
                kinds = range(forward_s_ct.shape[1])
                kept_bytes_tk = np.stack([self.keep_budgets(unit, kind) for kind in kinds])
                bounds = FullChipBounds(self.full_problem((unit,), memory), self.layer_type_of, kept_bytes_tk)
                self._memo.bounds[self._number, unit, memory] = bounds
            weight_s_ct = weight_part(backward_s_ct, input_s_ct)
            return bounds.batch_s(forward_s_ct, backward_s_ct, weight_s_ct, replays, longest_s_c)
        if key not in self._bounds:
            self._bounds[key] = ChipBounds(self.placer(unit, memory), self.layer_type_of)
        return self._bounds[key].batch_s([(forward_s_ct, backward_s_ct)])

    def placement_problem(self, units: tuple[Unit, ...], memory: Memory) -> PlacementProblem:
        """The problem with layer times left at zero, to be filled for each chip."""
        training = self.scenario.training
        is_paper = self.scenario.placement_model is PlacementModel.PAPER
        return PlacementProblem(
            cost_model=self.scenario.placement_model,
            cluster=self.scenario.cluster,
            device_memory_bytes=float(memory.hbm_bytes),
            graphs=tuple(stage_graph(self.graph(unit.cut), unit.tp, unit.microbatch) for unit in units),
            recompute=units[0].policy,
            optimizer=training.optimizer,
            precision=named_precision(training.precision, training.optimizer),
            global_batch=training.global_batch,
            # The paper's optimizer step costs no time.
            hbm_bytes_per_s=None if is_paper else memory.hbm_bytes_per_s,
        )

    def full_problem(self, units: tuple[Unit, ...], memory: Memory) -> FullProblem:
        """The problem under cost model ``full``, with layer times left at zero, to be filled for each chip."""
        graphs = [self._full_graph(unit.cut, unit.microbatch) for unit in units]
        found = full_problem(self.scenario, graphs, memory.hbm_bytes, memory.hbm_bytes_per_s)
        return replace(found, limits=self._limits)

    def _full_graph(self, cut: GraphCut, microbatch: int) -> FullGraph:
        key = (cut, microbatch)
        if key not in self._full_graphs:
            has_split_backward = self.has_split_backward
            self._full_graphs[key] = full_graph(self.graph(cut), microbatch, has_split_backward=has_split_backward)
        return self._full_graphs[key]

    def priced_plan(self, unit: Unit, memory: Memory, plan: Plan, layer_s: tuple[Floats, Floats]) -> PricedPlan:
        """A plan priced by the independent evaluator (cost models ``1f1b`` and ``paper``).

        Args:
            unit: The plan's.
            memory: What it should fit.
            plan: The plan.
            layer_s: Forward and backward seconds by layer type.
        """
        forward_s_t, backward_s_t = layer_s
        problem = self.placement_problem((unit,), memory)
        graph = problem.graphs[0]
        layers = tuple(
            replace(layer, forward_s=float(forward_s_t[kind]), backward_s=float(backward_s_t[kind]))
            for layer, kind in zip(graph.layers, self.layer_type_of, strict=True)
        )
        return price_plan(replace(problem, graphs=(replace(graph, layers=layers),)), plan)


def model_works(
    names: Sequence[str], scenario: Scenario, stop: StopSignal, others: Sequence[ModelWork | None]
) -> list[ModelWork]:
    """The models of a search; those that are the same but for their names are prepared once.

    Args:
        names: Of the models.
        scenario: Of the search.
        stop: Ends the preparation with ``StoppedError``.
        others: Of each, the same model under a scenario that differs in space and cluster alone, if there is one.
    """
    found: list[ModelWork] = []
    bases: list[ModelGraph] = []
    memo = next((other._memo for other in others if other), PlacementMemo())
    for name, other in zip(names, others, strict=True):
        base = other._base if other else load_model(name, scenario.attention)
        nameless = replace(base, name="")
        first = bases.index(nameless) if nameless in bases else len(found)
        is_new = first == len(found)
        if is_new:
            found.append(ModelWork(name, scenario, stop, alike=other, base=base, memo=memo))
        else:
            found.append(found[first].renamed(name))
        bases.append(nameless)
    return found


def _policies(modes: tuple[Recompute, ...]) -> tuple[RecomputePolicy, ...]:
    """Every mode allowed: the solver picks stage by stage. Otherwise one mode for the whole model at a time."""
    if set(modes) == set(Recompute):
        return (RecomputePolicy.AUTO,)
    return tuple(RecomputePolicy(mode) for mode in modes)


def weight_part(backward_s: Floats, input_s: Floats) -> Floats:
    """What of a backward pass no earlier layer waits for: all of it but the input part alone.

    Beside each other the two parts take less than one after the other; what that gains is credited to this one.
    """
    with np.errstate(invalid="ignore"):
        found: Floats = np.maximum(backward_s - np.minimum(input_s, backward_s), 0.0)
    return found


def _pass_classes(pairs: Sequence[tuple[GraphCut, int]]) -> tuple[PassClass, ...]:
    """Pairs with the same tokens a chip together, those with a whole sequence first."""
    members: dict[tuple[GraphCut, Fraction], list[tuple[GraphCut, int]]] = {}
    for cut, microbatch in pairs:
        members.setdefault((replace(cut, cp=1), Fraction(microbatch, cut.cp)), []).append((cut, microbatch))
    return tuple(
        PassClass(tokens=tokens, pairs=tuple(sorted(own, key=lambda pair: pair[0].cp)))
        for (_, tokens), own in members.items()
    )
