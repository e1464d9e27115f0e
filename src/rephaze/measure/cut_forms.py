"""A model's graphs cut in many ways and made ready for chips: each layer that differs once.

Cuts share most of their layers (``GraphCutter``), and with a layer all that is worked out of it: kernels, what
scheduling asks of its passes, what may be kept of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property

from rephaze.estimate.estimator import engine_of
from rephaze.estimate.op_at import OpAt, op_at
from rephaze.measure.legal_cuts import cut_forms
from rephaze.measure.pass_classes import PassWork
from rephaze.schedule.structure import ScheduleStructure, compile_structure
from rephaze.types.cut import GraphCut
from rephaze.types.graph import LayerType, ModelGraph, OpGraph, OpKind
from rephaze.workload.passes.fuse import Fuser, fuse_graph
from rephaze.workload.passes.keep_sets import KeepSets, keep_sets
from rephaze.workload.passes.made_once import MadeOnce
from rephaze.workload.passes.parallel import GraphCutter
from rephaze.workload.passes.split_backward import input_part


class LayerForms:
    """What is worked out of fused layers, each found again by its record.

    Args:
        has_split_backward: Zero-bubble schedules are among the options.
    """

    def __init__(self, *, has_split_backward: bool) -> None:
        self.fuser = Fuser()
        self._has_split = has_split_backward
        self._passes = MadeOnce[tuple[PassWork, ...]]()
        self._keep_sets = MadeOnce[KeepSets]()
        self._replayable = MadeOnce[tuple[OpAt | None, ...]]()
        self._structures: dict[Hashable, ScheduleStructure] = {}

    def passes(self, layer: LayerType) -> tuple[PassWork, ...]:
        """The forward and the backward pass; then the part of it that earlier layers wait for."""

        def made() -> tuple[PassWork, ...]:
            split = (input_part(layer),) if self._has_split else ()
            return tuple(self._pass_work(graph) for graph in (layer.forward, layer.backward, *split))

        return self._passes.get(layer, None, made)

    def keep_sets(self, layer: LayerType, unfused: LayerType) -> KeepSets:
        """What a layer may keep of its forward pass."""
        return self._keep_sets.get(layer, None, lambda: keep_sets(layer, unfused))

    def replayable(self, sets: KeepSets, microbatch: int) -> tuple[OpAt | None, ...]:
        """The operators of ``sets`` on a microbatch; None for views, which are free."""

        def made() -> tuple[OpAt | None, ...]:
            return tuple(None if op.kind is OpKind.VIEW else op_at(op, microbatch) for op in sets.ops)

        return self._replayable.get(sets, microbatch, made)

    def _pass_work(self, graph: OpGraph) -> PassWork:
        engines = tuple(engine_of(op) for op in graph.ops)
        key = (engines, graph.edges)
        if key not in self._structures:
            self._structures[key] = compile_structure(engines, graph.edges)
        return PassWork(graph=graph, structure=self._structures[key])


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

    def replayable(self, kind: int, microbatch: int) -> tuple[OpAt | None, ...]:
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
