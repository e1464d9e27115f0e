"""The engine equals exhaustive search for any bounds that are bounds, any batch size, any interruption."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rephaze.search.engine import run_best_first
from rephaze.types.search import Evaluation, Unsettled
from rephaze.types.stopping import StoppedError

values = st.lists(st.integers(0, 12), min_size=1, max_size=40)


def exact(design, value):
    # Nothing fits where the value is 0; -inf as the record defines it.
    objective = float(value) if value else -np.inf
    return Evaluation(design=design, is_exact=True, objective=objective, bound=objective, plans=())


class Solver:
    """Solves exactly, or drops a design when a second, finer bound falls below the incumbent."""

    def __init__(self, truth, fine_bounds):
        self.truth, self.fine_bounds, self.num_calls = truth, fine_bounds, 0

    def __call__(self, designs, cutoff):
        for design in designs:
            self.num_calls += 1
            bound = float(self.fine_bounds[design])
            if bound < cutoff:
                yield Evaluation(
                    design=design, is_exact=False, objective=-np.inf, bound=bound, plans=(), dropped_by="fine"
                )
            else:
                yield exact(design, self.truth[design])


def area_of(design):
    return (design * 7) % 5


def by_area(item):
    return (float(area_of(item.design)),)


def best_by_hand(truth):
    ranked = sorted((-value, area_of(d), d) for d, value in enumerate(truth) if value)
    return ranked[0][2] if ranked else None


@given(truth=values, slack=st.data(), batch_size=st.integers(1, 9), exhaustive=st.booleans())
@settings(max_examples=300, deadline=None)
def test_the_answer_is_the_exhaustive_one(truth, slack, batch_size, exhaustive):
    extra = slack.draw(st.lists(st.integers(0, 5), min_size=len(truth), max_size=len(truth)))
    finer = slack.draw(st.lists(st.integers(0, 5), min_size=len(truth), max_size=len(truth)))
    bounds = np.array(truth, dtype=float) + np.array(extra)
    fine = np.array(truth, dtype=float) + np.minimum(extra, finer)
    outcome = run_best_first(
        bounds,
        Solver(truth, fine),
        tie_key=by_area,
        batch_size=batch_size,
        refine=lambda designs: (fine[designs] + bounds[designs]) / 2,
        refine_size=3,
        exhaustive=exhaustive,
    )
    assert outcome.is_complete
    want = best_by_hand(truth)
    assert (outcome.incumbent.design if outcome.incumbent else None) == want
    if want is not None:
        assert outcome.bound == outcome.incumbent.objective == truth[want]
    if exhaustive:
        assert all(item.is_exact for item in outcome.evaluations.values())
        assert len(outcome.evaluations) == int((bounds > 0).sum())


@given(truth=values, batch_size=st.integers(1, 5), stop_after=st.integers(0, 6))
@settings(max_examples=200, deadline=None)
def test_an_interrupted_run_has_an_honest_bound_and_resumes_to_the_same_answer(truth, batch_size, stop_after):
    bounds = np.array(truth, dtype=float) + 2
    batches = []
    first = run_best_first(
        bounds,
        Solver(truth, bounds),
        tie_key=by_area,
        batch_size=batch_size,
        on_batch=lambda batch, _: batches.append(batch),
        should_stop=lambda: len(batches) >= stop_after,
    )
    best = max(truth)
    assert first.bound >= (best if best else -np.inf)
    known = [item for batch in batches for item in batch]
    stopped = run_best_first(
        bounds,
        Solver(truth, bounds),
        tie_key=by_area,
        batch_size=batch_size,
        known=known,
        should_stop=lambda: True,
    )
    assert stopped.incumbent == first.incumbent
    assert stopped.bound >= first.bound
    solver = Solver(truth, bounds)
    resumed = run_best_first(bounds, solver, tie_key=by_area, batch_size=batch_size, known=known)
    again = run_best_first(bounds, Solver(truth, bounds), tie_key=by_area, batch_size=batch_size)
    assert resumed.incumbent == again.incumbent
    assert solver.num_calls <= len(truth) - len(known) or not known


class CutSolver(Solver):
    """Has time for so many designs; leaves the others unsettled."""

    def __init__(self, truth, fine_bounds, num_left):
        super().__init__(truth, fine_bounds)
        self.num_left = num_left

    def __call__(self, designs, cutoff):
        for design in designs:
            if self.num_left:
                self.num_left -= 1
                yield from super().__call__([design], cutoff)
            else:
                yield Unsettled(design=design, bound=float(self.fine_bounds[design]))


@given(truth=values, batch_size=st.integers(1, 5), num_left=st.integers(0, 20), data=st.data())
@settings(max_examples=200, deadline=None)
def test_what_was_cut_within_a_batch_stays_open(truth, batch_size, num_left, data):
    extra = data.draw(st.lists(st.integers(0, 3), min_size=len(truth), max_size=len(truth)))
    bounds, fine = np.array(truth, dtype=float) + 3, np.array(truth, dtype=float) + extra
    seen, recorded = [], []

    def on_batch(batch, progress):
        recorded.extend(batch)
        seen.append(progress)

    options = {"tie_key": by_area, "batch_size": batch_size}
    cut = run_best_first(bounds, CutSolver(truth, fine, num_left), on_batch=on_batch, **options)
    whole = run_best_first(bounds, Solver(truth, fine), **options)
    if cut.is_complete:
        # What was cut off may be settled all the same, by the bound it had then.
        assert (cut.incumbent, cut.bound) == (whole.incumbent, whole.bound)
        best = whole.incumbent.objective if whole.incumbent else -np.inf
        left = set(range(len(truth))) - set(cut.evaluations)
        assert all(truth[design] < best for design in left & set(whole.evaluations))
        return
    assert cut.unsettled
    assert all(isinstance(item, Evaluation) for item in recorded)
    assert {item.design for item in recorded} == set(cut.evaluations)
    assert not set(cut.unsettled) & set(cut.evaluations)
    best = cut.incumbent.objective if cut.incumbent else -np.inf
    # Nothing that is not settled may do better than the bound, and what may still win is counted.
    others = [float(truth[d]) for d in range(len(truth)) if d not in cut.evaluations]
    assert cut.bound >= max([best, *others])
    assert cut.bound == seen[-1].bound
    may_win = sum(bound >= max(best, 0) for bound in cut.unsettled.values())
    assert seen[-1].num_open >= may_win
    resumed = run_best_first(bounds, Solver(truth, fine), known=recorded, **options)
    assert resumed == whole


@given(truth=values, num_chunks=st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_a_refinement_that_was_cut_leaves_the_coarse_bounds(truth, num_chunks):
    bounds, fine = np.array(truth, dtype=float) + 3, np.array(truth, dtype=float) + 1
    calls = []

    def refine(designs):
        calls.append(designs)
        if len(calls) > num_chunks:
            raise StoppedError
        return fine[designs]

    options = {"tie_key": by_area, "batch_size": 2, "refine_size": 3}
    cut = run_best_first(bounds, Solver(truth, fine), refine=refine, **options)
    if cut.is_complete:
        return
    assert not set(calls[-1]) & (set(cut.refined) | set(cut.evaluations))
    best = cut.incumbent.objective if cut.incumbent else -np.inf
    assert cut.bound == max(best, bounds[calls[-1]].max())


@given(truth=values, batch_size=st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_progress_never_claims_more_than_is_known(truth, batch_size):
    bounds = np.array(truth, dtype=float) + 1
    seen = []
    run_best_first(
        bounds,
        Solver(truth, bounds),
        tie_key=by_area,
        batch_size=batch_size,
        on_batch=lambda _, progress: seen.append(progress),
    )
    for progress in seen:
        assert progress.bound >= max(truth) or not any(truth)
        assert progress.num_evaluated + progress.num_open <= len(truth)
    bounds_seen = [progress.bound for progress in seen]
    assert bounds_seen == sorted(bounds_seen, reverse=True)


def test_a_design_with_unproven_schedules_keeps_the_bound_open():
    found = [
        Evaluation(design=0, is_exact=True, objective=5.0, bound=5.0, plans=()),
        Evaluation(design=1, is_exact=True, objective=4.0, bound=6.0, plans=()),
    ]
    outcome = run_best_first(
        np.array([7.0, 7.0]), lambda designs, _: [found[d] for d in designs], tie_key=by_area, batch_size=2
    )
    assert outcome.incumbent == found[0]
    assert outcome.bound == 6.0
