import itertools

import numpy as np
import pytest

from rephaze.schedule.packing import pack
from rephaze.schedule.relaxation import NEVER, relax
from rephaze.schedule.tables import Preds
from rephaze.schedule.teams import no_teams

# Operators 0 -> 2, 1 -> 2, and 3, 4 alone.
ANCESTORS = np.array([[0], [0], [0b11], [0], [0]], dtype=np.uint64)
DESCENDANTS = np.array([[0b100], [0b100], [0], [0], [0]], dtype=np.uint64)
PREDS = Preds(start_i=np.array([0, 0, 0, 2, 2, 2], dtype=np.int64), pred=np.array([0, 1], dtype=np.int64))
TOGETHER = ((0, 1, 3, 4), (2, 3, 4))
"""Largest sets none of which precedes another."""


def packed(dur, need, cap, teams=None):
    teams = teams or no_teams(ANCESTORS, DESCENDANTS, 4, 64)
    weight = np.full((5, 2), np.nan)
    return pack(dur, need, cap, ANCESTORS, teams, 500, weight), weight


def random_part(seed):
    rng = np.random.default_rng(seed)
    return rng.integers(1, 50, (5, 2)), rng.integers(0, 11, (5, 2, 2)), np.array([10, 10])


def teams_of(need, cap):
    for ops in TOGETHER:
        for size in range(1, len(ops) + 1):
            for some in itertools.combinations(ops, size):
                for modes in itertools.product((0, 1), repeat=size):
                    team = list(zip(some, modes, strict=True))
                    if (sum(need[i, m] for i, m in team) <= cap).all():
                        yield team


@pytest.mark.parametrize("seed", range(12))
def test_no_team_weighs_more_than_one_and_the_bound_is_the_price_of_all(seed):
    dur, need, cap = random_part(seed)
    bound, weight = packed(dur, need, cap)
    assert bound == pytest.approx((weight * dur).min(axis=1).sum())
    heaviest = max(sum(weight[i, m] for i, m in team) for team in teams_of(need, cap))
    assert heaviest == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_no_mixture_of_loads_and_paths_tells_more(seed):
    dur, need, cap = random_part(seed)
    weight, pick = np.zeros((5, 2)), np.zeros(5, dtype=np.int64)
    mixed = relax(dur, need / cap, np.zeros(dur.shape, dtype=np.bool_), PREDS, 2000, 1e-9, weight, pick)
    assert packed(dur, need, cap)[0] >= mixed * (1 - 1e-9)


def test_operators_that_clash_only_in_some_modes_are_counted_by_mode():
    # Slow and narrow or fast and wide: the wide never overlap, two narrow do. Loads alone say 3 * 6 * 0.6.
    dur = np.array([[NEVER, NEVER], [NEVER, NEVER], [9, 6], [9, 6], [9, 6]], dtype=np.int64)
    need = np.zeros((5, 2, 1), dtype=np.int64)
    need[:, 0], need[:, 1] = 5, 6
    assert packed(dur, need, np.array([10]))[0] == pytest.approx(27 / 2)


def test_an_operator_that_is_done_weighs_nothing():
    dur, need, cap = random_part(1)
    dur[0] = NEVER
    bound, weight = packed(dur, need, cap)
    assert bound > 0
    assert weight[0].tolist() == [0, 0]


def test_teams_found_before_change_nothing():
    dur, need, cap = random_part(2)
    teams = no_teams(ANCESTORS, DESCENDANTS, 4, 64)
    packed(random_part(3)[0], need, cap, teams)
    assert teams.num[0] > 0
    assert packed(dur, need, cap, teams)[0] == pytest.approx(packed(dur, need, cap)[0])
