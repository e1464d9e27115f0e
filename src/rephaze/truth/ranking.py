"""Whether predictions put plans into the order that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from rephaze.types.truth import FitTable, GroupRanking, ValidatedRow

SAME = 0.005
"""Times closer than this are ties: repeated runs of one system differ by 0.2 % to 2 %."""


def rank_groups(rows: Sequence[ValidatedRow]) -> tuple[GroupRanking, ...]:
    """Every group with two or more plans that have both times."""
    groups: dict[str, list[ValidatedRow]] = {}
    for row in rows:
        if row.group and row.is_scored and row.error is not None:
            groups.setdefault(row.group, []).append(row)
    found = [_ranking(name, members) for name, members in groups.items() if len(members) > 1]
    return tuple(sorted(found, key=lambda one: one.group))


def _ranking(name: str, rows: list[ValidatedRow]) -> GroupRanking:
    measured = [row.measured_s or 0.0 for row in rows]
    predicted = [row.predicted_s or 0.0 for row in rows]
    # A plan is picked only if it keeps a margin of memory: beyond it runs collapse or die.
    order = sorted(range(len(rows)), key=lambda at: (not rows[at].fits, predicted[at]))
    best = min(measured)
    return GroupRanking(
        group=name,
        num_plans=len(rows),
        tau=kendall_tau(measured, predicted),
        regret=measured[order[0]] / best - 1,
        regret_of_three=min(measured[at] for at in order[:3]) / best - 1,
        pick=rows[order[0]].plan,
        best=rows[measured.index(best)].plan,
    )


def kendall_tau(measured: Sequence[float], predicted: Sequence[float]) -> float:
    """Pairs in the same order less pairs in the other, over all that measurably differ (1 where none does)."""
    agree, total = 0, 0
    for i, j in combinations(range(len(measured)), 2):
        if abs(measured[i] / measured[j] - 1) <= SAME:
            continue
        total += 1
        product = (measured[i] - measured[j]) * (predicted[i] - predicted[j])
        agree += (product > 0) - (product < 0)
    return agree / total if total else 1.0


def fit_table(rows: Sequence[ValidatedRow]) -> FitTable:
    """Over the rows of groups in which plans that ran out of memory are listed too, else over all."""
    counts = {(fits, ran): 0 for fits in (True, False) for ran in (True, False)}
    with_failures = {row.file for row in rows if row.status == "oom"}
    for row in rows:
        if row.fits is not None and row.file in with_failures:
            counts[row.fits, row.status == "ok"] += 1
    return FitTable(
        num_fit_and_ran=counts[True, True],
        num_fit_but_out_of_memory=counts[True, False],
        num_refused_but_ran=counts[False, True],
        num_refused_and_out_of_memory=counts[False, False],
    )
