"""The choices of one decision: sets of operators to replay that some chip may want.

A group of operators is small, so all its sets are looked at, as bits. Larger groups are made small first: two
operators that hand a result to each other are then replayed together or not at all, which leaves every set legal
but no longer looks at all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rephaze.types.graph import ZERO, Affine
from rephaze.workload.derived_sizes import COMPARED_MICROBATCH, total

MAX_MEMBERS = 12
"""Groups of more operators are made this small: 4,096 sets."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Operators that share results which are not kept; the masks have a bit for each of ``ops``."""

    ops: tuple[tuple[int, ...], ...]
    """Each member: one operator, or several that are replayed together."""
    droppable: tuple[tuple[str, Affine, int], ...]
    """Storage, size, and the members that make it."""
    chargeable: tuple[tuple[str, Affine, int, int], ...]
    """Storage, size, the members that make it, and those that read it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeepChoice:
    """One set of operators to replay."""

    ops: tuple[int, ...]
    change: Affine
    """Of the kept bytes, against replaying nothing."""
    dropped: tuple[str, ...]
    added: tuple[str, ...]


NOTHING = KeepChoice(ops=(), change=ZERO, dropped=(), added=())


def choices_of(group: Group) -> list[KeepChoice]:
    """The sets of a group that no other one makes superfluous, the empty one first."""
    group = _made_small(group)
    masks = np.arange(1 << len(group.ops), dtype=np.int64)
    const, per_sample = np.zeros_like(masks), np.zeros_like(masks)
    for _, size, makers in group.droppable:
        is_dropped = (masks & makers) != 0
        const -= is_dropped * size.const
        per_sample -= is_dropped * size.per_sample
    for _, size, makers, readers in group.chargeable:
        is_added = ((masks & readers) != 0) & ((masks & makers) == 0)
        const += is_added * size.const
        per_sample += is_added * size.per_sample
    # What is affine is nowhere larger if it is not at one sample and grows no faster.
    at_one = const + per_sample
    left = masks[_beats_itself_less_one(len(group.ops), masks, at_one, per_sample)]
    left = left[_not_superfluous(left, at_one[left], per_sample[left])]
    return [_choice(group, int(mask), Affine(int(const[mask]), int(per_sample[mask]))) for mask in left]


def without_trifles(decisions: list[list[KeepChoice]], full: Affine, share: float) -> list[list[KeepChoice]]:
    """Decisions without those that together change no more than a share of the bytes at any microbatch."""
    by_saving = sorted(range(len(decisions)), key=lambda d: _saved_bytes(_largest(decisions[d])))
    trifles: set[int] = set()
    const = per_sample = 0
    for d in by_saving:
        const += max(0, *(-choice.change.const for choice in decisions[d]))
        per_sample += max(0, *(-choice.change.per_sample for choice in decisions[d]))
        if const + per_sample > share * full.at(1) or per_sample > share * full.per_sample:
            break
        trifles.add(d)
    return [decision for d, decision in enumerate(decisions) if d not in trifles]


def few_decisions(decisions: list[list[KeepChoice]], most: int) -> list[list[KeepChoice]]:
    """At most so many decisions: those that free least become one, with two choices."""
    if len(decisions) <= most:
        return decisions
    by_saving = sorted(range(len(decisions)), key=lambda d: _saved_bytes(_largest(decisions[d])), reverse=True)
    own = sorted(by_saving[: most - 1])
    rest = [_largest(decisions[d]) for d in sorted(by_saving[most - 1 :])]
    together = KeepChoice(
        ops=tuple(op for choice in rest for op in choice.ops),
        change=total(choice.change for choice in rest),
        dropped=tuple(name for choice in rest for name in choice.dropped),
        added=tuple(name for choice in rest for name in choice.added),
    )
    return [*(decisions[d] for d in own), [NOTHING, together]]


def _saved_bytes(choice: KeepChoice) -> int:
    return -choice.change.at(COMPARED_MICROBATCH)


def _largest(choices: list[KeepChoice]) -> KeepChoice:
    return max(choices, key=_saved_bytes)


def _beats_itself_less_one(
    num_members: int, masks: NDArray[np.int64], at_one: NDArray[np.int64], per_sample: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Sets that keep fewer bytes than they would without any one of their members, at some microbatch."""
    wanted = np.ones(len(masks), dtype=np.bool_)
    for member in range(num_members):
        less = masks & ~(1 << member)
        is_no_larger = (at_one[less] <= at_one) & (per_sample[less] <= per_sample)
        wanted &= (less == masks) | ~is_no_larger
    return wanted


def _not_superfluous(
    masks: NDArray[np.int64], at_one: NDArray[np.int64], per_sample: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Sets without a proper part of theirs that keeps no more bytes at any microbatch."""
    wanted = np.ones(len(masks), dtype=np.bool_)
    for row, mask in enumerate(masks):
        is_part = ((masks & ~mask) == 0) & (masks != mask)
        is_no_larger = (at_one <= at_one[row]) & (per_sample <= per_sample[row])
        wanted[row] = not (is_part & is_no_larger).any()
    return wanted


def _choice(group: Group, mask: int, change: Affine) -> KeepChoice:
    return KeepChoice(
        ops=tuple(op for bit, ops in enumerate(group.ops) if mask >> bit & 1 for op in ops),
        change=change,
        dropped=tuple(name for name, _, makers in group.droppable if mask & makers),
        added=tuple(name for name, _, makers, readers in group.chargeable if mask & readers and not mask & makers),
    )


def _made_small(group: Group) -> Group:
    """The group with operators put together until there are few.

    First those with the largest result between them, which is the last one would keep.
    """
    while len(group.ops) > MAX_MEMBERS:
        one, other = _closest(group)
        group = Group(
            ops=tuple(
                (*ops, *group.ops[other]) if bit == one else ops
                for bit, ops in enumerate(group.ops)
                if bit != other
            ),
            droppable=tuple((name, size, _put_together(m, one, other)) for name, size, m in group.droppable),
            chargeable=tuple(
                (name, size, _put_together(makers, one, other), _put_together(readers, one, other))
                for name, size, makers, readers in group.chargeable
            ),
        )
    return group


def _closest(group: Group) -> tuple[int, int]:
    """Two members that hand each other the largest result, or both read it."""
    between = [
        (size.at(COMPARED_MICROBATCH), makers | readers)
        for _, size, makers, readers in group.chargeable
        if (makers | readers).bit_count() > 1
    ]
    _, mask = max(between, default=(0, 0b11))
    bits = [bit for bit in range(len(group.ops)) if mask >> bit & 1]
    return bits[0], bits[1]


def _put_together(mask: int, one: int, other: int) -> int:
    """A mask after member ``other`` became part of the earlier ``one``."""
    merged = mask | (mask >> other & 1) << one
    return merged & ((1 << other) - 1) | merged >> (other + 1) << other
