"""What a layer may keep of its forward pass, and which operators make the rest again before the backward pass.

A set of operators to replay decides what is kept: of what autograd keeps (``LayerType.saved``), all that these
operators do not make again; and each result that one of them reads but autograd does not keep and none of them
makes, such as the sum in the middle of a block, from which the norm after it is made again. Every set is legal.
Parameters, constants and the batch are at hand. The layer's inputs are, too; those that ``saved_inputs`` does not
have count when they are read. Dropout makes the same mask again from its seed.

Sets are not listed one by one. What autograd keeps cuts a layer into groups of operators that share no result it
does not keep: a decision about one group changes neither the bytes nor the operators of another. So a layer has
some ten decisions with a few choices each, bytes and times of a set are sums over them, and the front over all
sets is found exactly (``measure/keep_points.py``). Within a decision, choices no chip wants are left out: another
one keeps no more bytes at any microbatch and replays some of the same operators.

Rebuilding never needs more than the forward pass did. Of a set on a front, take the operators that are replayed
later than some moment: to go without them keeps more bytes, so what they are to make again is more than the
results kept for them alone. Kept results that the forward pass had not made at that moment are among these; all
others were alive in the forward pass at that moment, too. (Inputs are left out of this, as of every working set.)

Axis letters: d = decision, h = choice, n = operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.types.graph import Affine, LayerType, Op, OpGraph, OpKind, TensorRole
from rephaze.workload.passes.keep_choices import (
    NOTHING,
    Group,
    KeepChoice,
    choices_of,
    few_decisions,
    without_trifles,
)
from rephaze.workload.passes.replay_tails import Tail, find_tails
from rephaze.workload.passes.storage_values import OUTSIDE, PassValues, trace_values

MAX_DECISIONS = 24
"""With more, those that free the fewest bytes are taken together: all of them, or none."""
TRIFLE_SHARE = 1e-3
"""Of the bytes a layer keeps. What is smaller, all of it together, is kept until everything goes: a router's sums
beside its experts would make fronts of hundreds of points that differ by nothing."""

_AT_HAND = (TensorRole.PARAMETER, TensorRole.CONSTANT)


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class KeepSets:
    """Every set worth a look: one choice for each decision, and at the end nothing but the layer's inputs."""

    ops: tuple[Op, ...]
    """What can be replayed: the forward operators, then their tails. Views are free and in no set."""
    tails: OpGraph
    """The operators after the forward ones, for whoever estimates their times."""
    full_bytes: Affine
    """Everything kept (``none``)."""
    least_bytes: Affine
    """The layer's inputs (``block``). A set that replays anything is counted with no less."""
    least_replayed_n: NDArray[np.bool_]
    """What makes everything again from the inputs."""
    first_choice_d: NDArray[np.int64]
    """Where a decision's choices start, and the number of all at the end; there is at least one decision. The
    first choice of each replays nothing."""
    const_bytes_h: NDArray[np.int64]
    """Change of the kept bytes, and below per sample."""
    per_sample_bytes_h: NDArray[np.int64]
    replayed_hn: NDArray[np.bool_]
    dropped_h: tuple[tuple[str, ...], ...]
    """Of what autograd keeps, the storages that are made again."""
    added_h: tuple[tuple[str, ...], ...]
    """Kept besides: results and inputs that the replay starts from."""
    saved: tuple[str, ...]
    """Storages that are kept if nothing is replayed, without inputs."""

    def bytes_h(self, microbatch: int) -> NDArray[np.int64]:
        """Change of the kept bytes by each choice."""
        found: NDArray[np.int64] = self.const_bytes_h + self.per_sample_bytes_h * microbatch
        return found

    def replayed_ops(self, choice_d: Sequence[int]) -> tuple[int, ...]:
        """Positions of the operators that one set replays; a negative choice means all but the inputs dropped."""
        is_least = self._is_least(choice_d)
        rows = self.least_replayed_n[np.newaxis] if is_least else self.replayed_hn[self._rows(choice_d)]
        return tuple(int(n) for n in np.flatnonzero(rows.any(axis=0)))

    def kept_storages(self, choice_d: Sequence[int]) -> tuple[str, ...]:
        """Names of what one set keeps, without inputs that the backward pass reads anyhow."""
        if self._is_least(choice_d):
            return ()
        rows = self._rows(choice_d)
        dropped = {name for h in rows for name in self.dropped_h[h]}
        kept = [name for name in self.saved if name not in dropped]
        return (*kept, *(name for h in rows for name in self.added_h[h]))

    def _is_least(self, choice_d: Sequence[int]) -> bool:
        return any(choice < 0 for choice in choice_d)

    def _rows(self, choice_d: Sequence[int]) -> list[int]:
        return [int(first) + int(c) for first, c in zip(self.first_choice_d[:-1], choice_d, strict=True)]


def keep_sets(
    layer: LayerType,
    unfused: LayerType | None = None,
    trifle_share: float = TRIFLE_SHARE,
    known: dict[Group, list[KeepChoice]] | None = None,
) -> KeepSets:
    """What a layer may keep, at any microbatch and on any chip.

    Args:
        layer: As a chip runs it: sharded and fused.
        unfused: The same layer before fusion. With it, what follows a product can be replayed without the product
            (``replay_tails.py``); without it, kernels are replayed whole.
        trifle_share: Of the kept bytes, what is not decided about.
        known: Choices of groups seen before, to which those of this layer are added.
    """
    known = {} if known is None else known
    traced = trace_values(layer.forward)
    memory = _Memory.of(layer, traced)
    tails = find_tails(layer.forward, unfused.forward) if unfused else ()
    ops = (*layer.forward.ops, *(tail.op for tail in tails))
    needs = _Needs.of(traced, tails)
    decisions = []
    for group in _groups(needs, traced, memory):
        if group not in known:
            known[group] = choices_of(group)
        decisions.append(known[group])
    full = layer.saved_bytes + layer.saved_input_bytes
    decisions = without_trifles([found for found in decisions if len(found) > 1], full, trifle_share)
    decisions = few_decisions(decisions, MAX_DECISIONS) or [[NOTHING]]
    choices = [choice for decision in decisions for choice in decision]
    replayed_hn = np.zeros((len(choices), len(ops)), dtype=np.bool_)
    for h, choice in enumerate(choices):
        replayed_hn[h, list(choice.ops)] = True
    return KeepSets(
        ops=ops,
        tails=OpGraph(ops=ops[len(layer.forward.ops) :], edges=(), tensors=layer.forward.tensors),
        full_bytes=full,
        least_bytes=layer.input_bytes,
        least_replayed_n=_least_replayed(layer, traced, len(ops)),
        first_choice_d=np.cumsum([0, *(len(decision) for decision in decisions)]),
        const_bytes_h=np.array([choice.change.const for choice in choices], dtype=np.int64),
        per_sample_bytes_h=np.array([choice.change.per_sample for choice in choices], dtype=np.int64),
        replayed_hn=replayed_hn,
        dropped_h=tuple(choice.dropped for choice in choices),
        added_h=tuple(choice.added for choice in choices),
        saved=tuple(tensor.name for tensor in layer.saved),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Memory:
    """What the values of a forward pass are to a choice of what to keep."""

    droppable: dict[int, Affine]
    """Kept by autograd, and made by an operator of this layer alone."""
    chargeable: dict[int, Affine]
    """Not kept: whoever reads one has it made again or pays for it."""

    @classmethod
    def of(cls, layer: LayerType, traced: PassValues) -> _Memory:
        # What leaves the layer is another's input, and that layer may count on it: it goes only with all the rest.
        leaving = {
            home
            for tensor, home in zip(layer.forward.tensors, traced.homes, strict=True)
            if tensor.role is TensorRole.OUTPUT
        }
        droppable: dict[int, Affine] = {}
        at_hand: set[int] = set()
        for tensor in layer.saved:
            last = traced.last_of.get(tensor.name, ())
            at_hand.update(last)
            made = [number for number in last if traced.values[number].maker != OUTSIDE]
            if len(made) == len(last) == 1 and tensor.name not in leaving:
                droppable[made[0]] = tensor.num_bytes
        home_of = {t.name: home for t, home in zip(layer.forward.tensors, traced.homes, strict=True)}
        saved_inputs = {home_of.get(tensor.name, tensor.name) for tensor in layer.saved_inputs}
        inputs = {home_of.get(tensor.name, tensor.name): tensor.num_bytes for tensor in layer.inputs}
        chargeable: dict[int, Affine] = {}
        for number, value in enumerate(traced.values):
            if value.maker == OUTSIDE:
                # Inputs that come from no layer are the batch, which is there for every pass.
                is_batch = value.role is TensorRole.INPUT and value.storage not in inputs
                if is_batch or value.role in _AT_HAND or value.storage in saved_inputs:
                    continue
            if number not in at_hand:
                chargeable[number] = inputs.get(value.storage, value.num_bytes)
        return cls(droppable=droppable, chargeable=chargeable)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Needs:
    """Values by what can be replayed: operators, then tails."""

    read_n: tuple[tuple[int, ...], ...]
    made_n: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, traced: PassValues, tails: Sequence[Tail]) -> _Needs:
        read_n, made_n = list(traced.read_o), list(traced.made_o)
        for tail in tails:
            known = (*traced.read_o[tail.whole], *traced.made_o[tail.whole])
            reads = {traced.homes[tensor] for tensor in tail.op.inputs}
            makes = {traced.homes[tensor] for tensor in tail.op.outputs}
            read_n.append(tuple(number for number in known if traced.values[number].storage in reads))
            made_n.append(
                tuple(number for number in traced.made_o[tail.whole] if traced.values[number].storage in makes)
            )
        return cls(read_n=tuple(read_n), made_n=tuple(made_n))


def _groups(needs: _Needs, traced: PassValues, memory: _Memory) -> list[Group]:
    """The decisions: operators that can help to make something again, joined by what is not kept."""
    useful = _useful(needs, traced, memory)
    parent = {op: op for op in useful}

    def root(op: int) -> int:
        while parent[op] != op:
            op = parent[op]
        return op

    users: dict[int, list[int]] = {}
    for op in useful:
        shared = [number for number in needs.read_n[op] if number in memory.chargeable]
        for number in (*shared, *needs.made_n[op]):
            users.setdefault(number, []).append(op)
    for first, *others in users.values():
        for other in others:
            parent[root(other)] = root(first)
    members: dict[int, list[int]] = {}
    for op in useful:
        members.setdefault(root(op), []).append(op)
    return [_group(group, needs, traced, memory) for group in members.values()]


def _useful(needs: _Needs, traced: PassValues, memory: _Memory) -> list[int]:
    """What makes something that can be dropped, or something not kept that one of these reads."""
    useful: set[int] = set()
    waiting = [n for n, made in enumerate(needs.made_n) if any(number in memory.droppable for number in made)]
    while waiting:
        op = waiting.pop()
        if op != OUTSIDE and op not in useful:
            useful.add(op)
            waiting.extend(_makers(traced, (number for number in needs.read_n[op] if number in memory.chargeable)))
    return sorted(useful)


def _group(ops: list[int], needs: _Needs, traced: PassValues, memory: _Memory) -> Group:
    numbers = sorted({number for op in ops for number in (*needs.read_n[op], *needs.made_n[op])})
    makers = {number: _bits(ops, needs.made_n, number) for number in numbers}
    readers = {number: _bits(ops, needs.read_n, number) for number in numbers}
    return Group(
        ops=tuple((op,) for op in ops),
        droppable=tuple(
            (traced.values[number].storage, memory.droppable[number], makers[number])
            for number in numbers
            if number in memory.droppable and makers[number]
        ),
        chargeable=tuple(
            (traced.values[number].storage, memory.chargeable[number], makers[number], readers[number])
            for number in numbers
            if number in memory.chargeable and readers[number]
        ),
    )


def _bits(ops: Sequence[int], values_n: Sequence[Sequence[int]], number: int) -> int:
    return sum(1 << bit for bit, op in enumerate(ops) if number in values_n[op])


def _least_replayed(layer: LayerType, traced: PassValues, num_ops: int) -> NDArray[np.bool_]:
    """The operators that make all of ``saved`` from the layer's inputs."""
    replayed_n = np.zeros(num_ops, dtype=np.bool_)
    if not all(traced.last_of.get(tensor.name) for tensor in layer.saved):
        # Where something was made is not known: then everything runs again.
        replayed_n[: len(layer.forward.ops)] = [op.kind is not OpKind.VIEW for op in layer.forward.ops]
        return replayed_n
    waiting = _makers(traced, (number for tensor in layer.saved for number in traced.last_of[tensor.name]))
    while waiting:
        op = waiting.pop()
        if op != OUTSIDE and not replayed_n[op]:
            replayed_n[op] = True
            waiting.extend(_makers(traced, traced.read_o[op]))
    return replayed_n


def _makers(traced: PassValues, numbers: Iterable[int]) -> list[int]:
    return [traced.values[number].maker for number in numbers]
