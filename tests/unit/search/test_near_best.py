"""Settling designs near the best: every count becomes exact, work done before is used, a stop leaves the rest."""

import numpy as np
import pytest

from rephaze.search.engine import run_best_first
from rephaze.search.near_best import settle_near_best
from rephaze.types.search import Evaluation, Unsettled
from rephaze.types.stopping import StoppedError

TRUTH = [100.0, 99.95, 99.5, 99.2, 98.0, 90.0, 50.0]
COARSE = np.array([130.0, 120.0, 99.9, 99.3, 99.4, 99.6, 60.0])
REFINED = np.array([101.0, 99.99, 99.9, 99.3, 99.4, 99.5, 55.0])


class Solver:
    """Solves; a design far below is dropped at a finer bound."""

    def __init__(self):
        self.asked = []

    def __call__(self, designs, cutoff):
        for design in designs:
            self.asked.append(design)
            finer = TRUTH[design] + 0.01
            is_exact = finer >= cutoff * (1 - 1e-9)
            yield Evaluation(
                design=design,
                is_exact=is_exact,
                objective=TRUTH[design] if is_exact else -np.inf,
                bound=TRUTH[design] if is_exact else finer,
                plans=(),
                dropped_by="" if is_exact else "finer",
            )


@pytest.fixture
def outcome():
    found = run_best_first(
        COARSE, Solver(), tie_key=lambda _: (), batch_size=1, refine=lambda d: REFINED[d], refine_size=2
    )
    assert (found.incumbent.design, sorted(found.evaluations), sorted(found.refined)) == (0, [0], [0, 1])
    return found


def settle(outcome, within, **options):
    solver = Solver()
    settle_near_best(
        outcome,
        COARSE,
        within,
        refine=lambda d: REFINED[d],
        evaluate=solver,
        batch_size=2,
        refine_size=3,
        **options,
    )
    return solver.asked


def test_only_designs_that_may_be_within_are_solved(outcome):
    assert settle(outcome, 0.001) == [1, 2]
    assert outcome.evaluations[1].is_exact
    assert not outcome.evaluations[2].is_exact
    assert set(outcome.refined) == {0, 1, 2}
    # The rest for the wider count; what is settled stays, what was only dropped is taken up again.
    assert settle(outcome, 0.01) == [2, 5, 4, 3]
    exact = {design for design, item in outcome.evaluations.items() if item.is_exact}
    assert exact == {0, 1, 2, 3}


def test_known_evaluations_are_not_solved_again(outcome):
    known = list(Solver()([1, 2], 0.0))
    assert settle(outcome, 0.001, known=known) == []
    assert outcome.evaluations[1].is_exact
    assert outcome.evaluations[2].is_exact


def test_a_stop_leaves_the_rest(outcome):
    seen = []
    settle(
        outcome,
        0.01,
        on_batch=lambda batch, left: seen.append((len(batch), left)),
        should_stop=lambda: len(seen) == 1,
    )
    assert seen == [(2, 3)]
    assert len(outcome.evaluations) == 3


def test_what_was_cut_is_as_it_was_before(outcome):
    before = outcome.refined[1]
    seen = []

    def evaluate(designs, cutoff):
        first, *rest = designs
        yield from Solver()([first], cutoff)
        yield from (Unsettled(design=design, bound=99.99) for design in rest)

    settle_near_best(
        outcome,
        COARSE,
        0.01,
        refine=lambda d: REFINED[d],
        evaluate=evaluate,
        batch_size=2,
        refine_size=3,
        on_batch=lambda batch, left: seen.append(([item.design for item in batch], left)),
    )
    assert seen == [([1], 4)]
    assert sorted(outcome.evaluations) == [0, 1]
    assert outcome.refined[1] == before


def test_a_refinement_that_was_cut_ends_it(outcome):
    def refine(_designs):
        raise StoppedError

    before = dict(outcome.refined)
    settle_near_best(outcome, COARSE, 0.01, refine=refine, evaluate=Solver(), batch_size=2, refine_size=3)
    assert (sorted(outcome.evaluations), outcome.refined) == ([0], before)
