"""Vector operators over the same tokens merged into one kernel, reductions along a token's row included.

A norm written out as cast, square, mean, root and products is one pass over memory in any tuned library: a
token's row fits on the chip, so what the parts hand to each other never leaves it. Operators join along edges if
they are vector work whose results grow with the microbatch (one row a token), compute the same kind of gradient,
and no path leaves the kernel and comes back. Sums over tokens, as in weight gradients, stay apart.
"""

from __future__ import annotations

from collections import defaultdict

from rephaze.types.graph import Op, OpGraph, OpKind, Tensor


def row_groups(graph: OpGraph) -> list[list[int]]:
    """Every operator in one group, members ascending, groups in topological order of the merged graph."""
    ancestors = _ancestors(graph)
    producers: dict[int, set[int]] = defaultdict(set)
    for src, dst in graph.edges:
        producers[dst].add(src)
    group_of: dict[int, int] = {}
    members: dict[int, int] = {}
    """By group (its first operator), the members as bits."""
    for number, op in enumerate(graph.ops):
        group_of[number], members[number] = number, 1 << number
        if not _is_row_wise(op, graph):
            continue
        for source in sorted(producers[number]):
            own, other = group_of[number], group_of[source]
            if own == other or not _may_join(graph, source, number):
                continue
            union = members[own] | members[other]
            if _leaves_and_returns(union, ancestors):
                continue
            first = min(own, other)
            members[first] = union
            del members[max(own, other)]
            for member in _bits(union):
                group_of[member] = first
    return _sorted([_bits(bits) for bits in members.values()], graph)


def _is_row_wise(op: Op, graph: OpGraph) -> bool:
    if op.kind not in (OpKind.VECTOR, OpKind.VIEW) or not op.outputs:
        return False
    return all(is_of_tokens(graph.tensors[t]) for t in op.outputs)


def is_of_tokens(tensor: Tensor) -> bool:
    """Whether a tensor is rows of tokens alone, as many as the microbatch has."""
    return tensor.num_elements.per_sample > 0 and tensor.num_elements.const == 0


def _may_join(graph: OpGraph, source: int, number: int) -> bool:
    before, after = graph.ops[source], graph.ops[number]
    return _is_row_wise(before, graph) and before.gradient is after.gradient


def _ancestors(graph: OpGraph) -> list[int]:
    """For each operator, those it depends on, as bits."""
    found = [0] * len(graph.ops)
    for src, dst in sorted(graph.edges, key=lambda edge: edge[1]):
        found[dst] |= found[src] | 1 << src
    return found


def _leaves_and_returns(union: int, ancestors: list[int]) -> bool:
    """Whether some operator outside depends on the union and the union on it."""
    needed = 0
    for member in _bits(union):
        needed |= ancestors[member]
    return any(ancestors[outside] & union for outside in _bits(needed & ~union))


def _bits(bits: int) -> list[int]:
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found


def _sorted(groups: list[list[int]], graph: OpGraph) -> list[list[int]]:
    """Groups so that each comes after all it depends on; among free ones, the earliest first."""
    group_of = {member: g for g, group in enumerate(groups) for member in group}
    waits_for: list[set[int]] = [set() for _ in groups]
    for src, dst in graph.edges:
        if group_of[src] != group_of[dst]:
            waits_for[group_of[dst]].add(group_of[src])
    done: set[int] = set()
    ordered: list[list[int]] = []
    left = sorted(range(len(groups)), key=lambda g: groups[g][-1])
    while left:
        free = next(g for g in left if waits_for[g] <= done)
        left.remove(free)
        done.add(free)
        ordered.append(groups[free])
    return ordered
