"""A model's graph cut over the chips of a replica: tensor, sequence, context and expert parallelism at once."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from rephaze.errors import SpecError
from rephaze.types.checks import check_choice, check_count, check_number
from rephaze.types.cut import GraphCut
from rephaze.types.graph import ContextForm, LayerType, ModelGraph, divisors
from rephaze.workload.passes.context_parallel import attention_dims, divide_sequence
from rephaze.workload.passes.expert_layout import with_whole_experts
from rephaze.workload.passes.expert_parallel import ExpertDegrees, ExpertSpreader, spread_experts
from rephaze.workload.passes.made_once import MadeOnce
from rephaze.workload.passes.tensor_parallel import has_split_experts, shard_graph

_MOST = 2**20


def cut_graph(base: ModelGraph, cut: GraphCut) -> ModelGraph:
    """What one chip of a replica runs and holds, with the collectives that join it to others.

    Args:
        base: Not cut and not fused, as extracted or loaded.
        cut: Degrees that the model allows; else one line says which it does.
    """
    return GraphCutter(base).cut(cut)


class GraphCutter:
    """A model to be cut in many ways: what cuts have in common is made once, and is one record in all of them.

    Attention and dense layers do not change with the experts' degrees, nor layers without attention with the form
    in which it meets the keys of other chips.

    Args:
        base: Not cut and not fused, as extracted or loaded.
    """

    def __init__(self, base: ModelGraph) -> None:
        if base.tp != 1 or base.cp != 1 or base.ep != 1 or base.is_fused:
            raise SpecError("graph", base.name, "must be whole and not fused", "cut first, then fuse")
        self._base, self._num_experts = base, base.num_experts
        self._head_counts = {dims.num_heads for dims in attention_dims(base)}
        self._sharded: dict[tuple[int, bool, bool], ModelGraph] = {}
        self._divided: dict[tuple[int, bool, bool, int, ContextForm], ModelGraph] = {}
        self._sharded_layers, self._divided_layers = MadeOnce[LayerType](), MadeOnce[LayerType]()
        self._spreaders = MadeOnce[ExpertSpreader]()

    def cut(self, cut: GraphCut) -> ModelGraph:
        """What one chip of a replica runs and holds, with the collectives that join it to others."""
        base, num_experts = self._base, self._num_experts
        for name in ("tp", "cp", "ep"):
            check_count(name, getattr(cut, name), at_most=_MOST)
        if cut.tp not in base.legal_tp:
            raise SpecError("tp", cut.tp, f"{base.name} allows {', '.join(map(str, base.legal_tp))}")
        form = _context_form(base, cut, self._head_counts)
        etp = _expert_share(base, cut, num_experts)
        apart = num_experts > 0 and (cut.ep, etp) != (1, cut.tp) and (cut.sp or cut.tp == 1)
        graph = self._with_part_of_tokens(cut, form, apart=apart)
        if not apart:
            return graph
        imbalance = cut.imbalance_factor if cut.ep > 1 else 1.0
        degrees = ExpertDegrees(num_experts=num_experts, ep=cut.ep, etp=etp, imbalance=imbalance)
        return spread_experts(graph, base, degrees, self._spreaders)

    def legal_context_forms(self, tp: int, cp: int) -> tuple[ContextForm, ...]:
        """Ways to divide the sequence of the model over ``cp`` chips; none if cp does not divide it."""
        if cp == 1:
            return (ContextForm.NONE,)
        if self._base.seq_len % cp:
            return ()
        forms = (ContextForm.RING, ContextForm.GATHER)
        has_heads = all(heads % (tp * cp) == 0 for heads in self._head_counts)
        return (*forms, ContextForm.ULYSSES) if has_heads else forms

    def _with_part_of_tokens(self, cut: GraphCut, form: ContextForm, *, apart: bool) -> ModelGraph:
        key = (cut.tp, cut.sp, apart, cut.cp, form)
        if key not in self._divided:
            graph = self._with_part_of_heads(cut, apart=apart)
            self._divided[key] = divide_sequence(graph, cut.cp, form, self._divided_layers)
        return self._divided[key]

    def _with_part_of_heads(self, cut: GraphCut, *, apart: bool) -> ModelGraph:
        key = (cut.tp, cut.sp, apart)
        if key not in self._sharded:
            self._sharded[key] = shard_graph(
                self._with_whole_experts if apart else self._base,
                cut.tp,
                cut.sp,
                experts_apart=apart,
                made=self._sharded_layers,
            )
        return self._sharded[key]

    @cached_property
    def _with_whole_experts(self) -> ModelGraph:
        layers = tuple(with_whole_experts(layer) for layer in self._base.layer_types)
        return replace(self._base, layer_types=layers)


def _context_form(base: ModelGraph, cut: GraphCut, head_counts: set[int]) -> ContextForm:
    if cut.cp not in base.legal_cp:
        raise SpecError("cp", cut.cp, f"must divide the sequence of {base.seq_len} tokens", _among(base.legal_cp))
    if cut.cp == 1:
        return ContextForm.NONE
    if not cut.context_form:
        cut = replace(cut, context_form=ContextForm.RING)
    tokens = base.seq_len // cut.cp
    if cut.sp and tokens % cut.tp:
        fitting = [cp for cp in base.legal_cp if base.seq_len % (cp * cut.tp) == 0]
        rule = f"leaves {tokens} tokens, which tp {cut.tp} does not divide for sequence parallelism"
        # Tokens that tp does not divide are not divided by tp after any cut either.
        raise SpecError("cp", cut.cp, rule, _among(fitting) if fitting else "turn sequence parallelism off")
    check_choice("context_form", cut.context_form, [form.value for form in ContextForm if form])
    form = ContextForm(cut.context_form)
    if form is ContextForm.ULYSSES:
        heads = {count // cut.tp for count in head_counts}
        if any(count % cut.cp for count in heads):
            fitting = [cp for cp in base.legal_cp if not any(count % cp for count in heads)]
            shown = " and ".join(map(str, sorted(heads)))
            rule = f"must divide the {shown} heads of a chip at tp {cut.tp} to trade them for tokens"
            raise SpecError("cp", cut.cp, rule, f"{_among(fitting)}, or the form ring or gather")
    return form


def _expert_share(base: ModelGraph, cut: GraphCut, num_experts: int) -> int:
    """The chips that share each expert, once all of it is legal."""
    if not num_experts:
        if cut.ep != 1 or cut.etp not in (None, 1):
            name, value = ("ep", cut.ep) if cut.ep != 1 else ("etp", cut.etp)
            raise SpecError(name, value, f"must be 1: {base.name} has no experts")
        return 1
    if num_experts % cut.ep:
        raise SpecError("ep", cut.ep, f"must divide the {num_experts} experts", _among(base.legal_ep))
    check_number("imbalance_factor", cut.imbalance_factor, at_least=1.0, fix="1 is forced balance")
    is_split = has_split_experts(base)
    etp = cut.etp
    if etp is None:
        etp = cut.tp if cut.ep == 1 and is_split else 1
    shares = divisors(cut.tp) if is_split else (1,)
    if etp not in shares:
        rule = f"must divide tp {cut.tp}" if is_split else f"must be 1: experts of {base.name} are not cut"
        raise SpecError("etp", etp, rule, _among(shares))
    if cut.tp > 1 and not cut.sp and (cut.ep > 1 or (is_split and etp != cut.tp)):
        name, value = ("ep", cut.ep) if cut.ep > 1 else ("etp", etp)
        rule = f"with tp {cut.tp} needs sequence parallelism, so that each chip has tokens of its own"
        raise SpecError(name, value, rule, f"turn it on, or use ep 1 and etp {cut.tp}")
    if not is_expert_group(cut.ep * etp, cut.tp, cut.cp):
        fitting = [ep for ep in base.legal_ep if is_expert_group(ep * etp, cut.tp, cut.cp)]
        rule = f"with etp {etp} takes {cut.ep * etp} devices, no group of tp {cut.tp} and cp {cut.cp}"
        raise SpecError("ep", cut.ep, rule, _among(fitting))
    return etp


def is_expert_group(num_devices: int, tp: int, cp: int) -> bool:
    """Whether experts take whole tensor groups, and of those whole parts or multiples of a context group."""
    if tp % num_devices == 0:
        return True
    groups, rest = divmod(num_devices, tp)
    return rest == 0 and (cp % groups == 0 or groups % cp == 0)


def _among(values: tuple[int, ...] | list[int]) -> str:
    return f"one of {', '.join(map(str, values))}" if len(values) > 1 else f"use {values[0]}"
