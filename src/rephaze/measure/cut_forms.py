"""A model's graphs cut in many ways and made ready for chips: each layer that differs once.

Cuts share most of their layers (``GraphCutter``), and with a layer all that is worked out of it: kernels, what
scheduling asks of its passes, what may be kept of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property

from rephaze.estimate.estimator import engine_of
from rephaze.estimate.op_at import op_at
from rephaze.estimate.op_block import OpBlock
from rephaze.measure.legal_cuts import cut_forms
from rephaze.measure.pass_classes import CommonPass, PassWork, Structures, common_pass, has_ring
from rephaze.types.cut import GraphCut
from rephaze.types.graph import LayerType, ModelGraph, OpGraph, OpKind
from rephaze.workload.passes.fuse import Fuser, fuse_graph
from rephaze.workload.passes.keep_choices import Group, KeepChoice
from rephaze.workload.passes.keep_sets import KeepSets, keep_sets
from rephaze.workload.passes.made_once import MadeOnce
from rephaze.workload.passes.parallel import GraphCutter
from rephaze.workload.passes.pass_shape import pass_shape
from rephaze.workload.passes.split_backward import input_part, input_part_positions

Members = list[tuple[PassWork, int]]
"""Passes, each with its microbatch size."""


class LayerForms:
    """What is worked out of fused layers, each found again by its record.

    Args:
        has_split_backward: Zero-bubble schedules are among the options.
    """

    def __init__(self, *, has_split_backward: bool) -> None:
        self.fuser, self.structures = Fuser(), Structures()
        self._has_split = has_split_backward
        self._passes = MadeOnce[tuple[PassWork, ...]]()
        self._positions: dict[Hashable, tuple[int, ...]] = {}
        self._keep_sets = MadeOnce[KeepSets]()
        self._choices: dict[Group, list[KeepChoice]] = {}
        self._replayable = MadeOnce[OpBlock]()

    def passes(self, layer: LayerType) -> tuple[PassWork, ...]:
        """The forward and the backward pass; then the part of it that earlier layers wait for."""

        def made() -> tuple[PassWork, ...]:
            split = (input_part(layer, self._input_part_positions(layer)),) if self._has_split else ()
            return tuple(self._pass_work(graph) for graph in (layer.forward, layer.backward, *split))

        return self._passes.get(layer, None, made)

    def _input_part_positions(self, layer: LayerType) -> tuple[int, ...]:
        shape = pass_shape(layer.backward)
        if shape not in self._positions:
            self._positions[shape] = input_part_positions(layer)
        return self._positions[shape]

    def keep_sets(self, layer: LayerType, unfused: LayerType) -> KeepSets:
        """What a layer may keep of its forward pass."""
        return self._keep_sets.get(layer, None, lambda: keep_sets(layer, unfused, known=self._choices))

    def replayable(self, sets: KeepSets, microbatch: int) -> OpBlock:
        """The operators of ``sets`` on a microbatch; None for views, which are free."""

        def made() -> OpBlock:
            return OpBlock([None if op.kind is OpKind.VIEW else op_at(op, microbatch) for op in sets.ops])

        return self._replayable.get(sets, microbatch, made)

    def _pass_work(self, graph: OpGraph) -> PassWork:
        engines = tuple(engine_of(op) for op in graph.ops)
        return PassWork(graph=graph, structure=self.structures.get(engines, graph.edges))


class CutForm:
    """A model cut one way, with one way for attention to meet the keys of other chips.

    Args:
        whole: Cut, not yet fused.
        layers: Of all forms of the model.
    """

    def __init__(self, whole: ModelGraph, layers: LayerForms) -> None:
        self.whole, self.graph, self._layers = whole, fuse_graph(whole, layers.fuser), layers

    @cached_property
    def passes(self) -> tuple[tuple[PassWork, ...], ...]:
        """By layer type the forward and the backward pass; then the part of it that earlier layers wait for."""
        return tuple(self._layers.passes(layer) for layer in self.graph.layer_types)

    def keep_sets(self, kind: int) -> KeepSets:
        """What a layer type may keep of its forward pass."""
        return self._layers.keep_sets(self.graph.layer_types[kind], self.whole.layer_types[kind])

    def replayable(self, kind: int, microbatch: int) -> OpBlock:
        """The operators of ``keep_sets`` on a microbatch; None for views, which are free."""
        return self._layers.replayable(self.keep_sets(kind), microbatch)


class CutForms:
    """A model cut every way it is asked for.

    Args:
        base: The whole model.
        has_split_backward: Zero-bubble schedules are among the options.
    """

    def __init__(self, base: ModelGraph, *, has_split_backward: bool) -> None:
        self._cutter, self._layers = GraphCutter(base), LayerForms(has_split_backward=has_split_backward)
        self._first: dict[GraphCut, CutForm] = {}
        self._all: dict[GraphCut, tuple[CutForm, ...]] = {}
        self._common: dict[tuple[bool, tuple[tuple[int, int], ...]], CommonPass] = {}

    def all(self, cut: GraphCut) -> tuple[CutForm, ...]:
        """The model cut this way, once for each way attention may meet the keys of other chips."""
        if cut not in self._all:
            first, *others = cut_forms(self._cutter, cut)
            made = (CutForm(whole, self._layers) for whole in others)
            self._all[cut] = (self.first(cut, first), *made)
        return self._all[cut]

    def first(self, cut: GraphCut, whole: ModelGraph | None = None) -> CutForm:
        """The first of ``all``, made without the others."""
        if cut not in self._first:
            self._first[cut] = CutForm(whole or next(cut_forms(self._cutter, cut)), self._layers)
        return self._first[cut]

    def common_pass(self, pairs: Sequence[tuple[GraphCut, int]], kind: int, direction: int) -> CommonPass:
        """What the passes of cuts have in common in all their forms, each cut given with its microbatch size."""
        return self._found(self._members(pairs, kind, direction), joins_rings=True)

    def schedulable_passes(
        self, pairs: Sequence[tuple[GraphCut, int]], kind: int, direction: int
    ) -> tuple[CommonPass, ...]:
        """The same, rings apart from other forms: no pass has a shorter schedule than the shortest of these."""
        members = self._members(pairs, kind, direction)
        groups = [[one for one in members if has_ring(one[0]) == is_ring] for is_ring in (False, True)]
        return tuple(self._found(group, joins_rings=False) for group in groups if group)

    def own_pass(self, form: CutForm, microbatch: int, kind: int, direction: int) -> CommonPass:
        """One pass of one form alone."""
        return self._found([(form.passes[kind][direction], microbatch)], joins_rings=False)

    def _members(self, pairs: Sequence[tuple[GraphCut, int]], kind: int, direction: int) -> Members:
        return [
            (form.passes[kind][direction], microbatch)
            for cut, microbatch in pairs
            for form in (self.all(cut) if cut.cp > 1 else (self.first(cut),))
        ]

    def _found(self, members: Members, *, joins_rings: bool) -> CommonPass:
        # Passes are kept in here: a number of one means nothing else. Cuts of experts share all but theirs.
        key = (joins_rings, tuple((id(one), microbatch) for one, microbatch in members))
        if key not in self._common:
            self._common[key] = common_pass(members, self._layers.structures, joins_rings=joins_rings)
        return self._common[key]
