"""What a run says of itself and of its way to the answer: settings, versions, sessions, times, steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rephaze.errors import RunError
from rephaze.search.provenance import graph_digests
from rephaze.store.reader import RunReader, settings_digest
from rephaze.types.run_record import Incumbent, RecordedDigests, RunInfo, RunSession
from rephaze.types.search import Evaluation, SearchResult
from rephaze.verify.findings import Wrong


@dataclass(frozen=True, kw_only=True, slots=True)
class RunLife:
    """What is recorded beside designs and bounds."""

    info: RunInfo
    sessions: tuple[RunSession, ...]
    steps: tuple[Incumbent, ...]
    digests: RecordedDigests

    @property
    def has_digests(self) -> bool:
        """Whether the version that made the run wrote all that this one does."""
        is_noted = bool(self.sessions) and self.sessions[0].settings_digest is not None
        return is_noted or self.digests.since == self.info.created_at


def read_life(store: RunReader) -> RunLife:
    """Of an open run."""
    return RunLife(info=store.info(), sessions=store.sessions(), steps=store.incumbents(), digests=store.digests())


def wrong_digests(found: RecordedDigests, noted: str | None) -> Wrong:
    """What the chain of digests tells, and whether it ends as somebody noted."""
    yield from found.wrong
    if noted is not None and (not found.last or not found.last.startswith(noted.lower())):
        yield f"the last digest is {found.last or 'none'}, not {noted}"


def digests_said(found: RecordedDigests) -> str:
    """What holds of the chain."""
    if found.since is None:
        return "none: recorded by an older version, rows are taken as they are"
    return f"rows as recorded since {found.since}; last digest {found.last}"


def wrong_versions(life: RunLife, estimator_now: str) -> Wrong:
    """Versions that are not those in use, or not those that the first session noted."""
    made_by = life.info.versions
    if estimator_now != made_by.estimator:
        yield f"made by estimator {made_by.estimator}, this is {estimator_now}: numbers may differ"
    try:
        digests = graph_digests(life.info.settings.models)
    except OSError as error:
        yield f"a graph file cannot be read: {error.strerror or error}"
        return
    for name in sorted({*made_by.input_digests, *digests}):
        if digests.get(name) != made_by.input_digests.get(name):
            yield f"{name} has changed since"
    if life.sessions and life.sessions[0].versions != made_by:
        yield "the first session noted other versions than the run"
    for at, one in enumerate(life.sessions[1:], start=2):
        if (one.versions.estimator, one.versions.input_digests) != (made_by.estimator, made_by.input_digests):
            yield f"session {at} noted another estimator or other input files"


def wrong_settings(life: RunLife) -> Wrong:
    """Settings that are not those a session was given."""
    own = settings_digest(life.info.settings)
    for at, one in enumerate(life.sessions, start=1):
        if one.settings_digest != own and (one.settings_digest is not None or life.has_digests):
            yield f"session {at} was given other settings"


def wrong_sessions(life: RunLife, num_noted: int | None, result: SearchResult) -> Wrong:
    """Sessions that do not follow each other, or whose clock the answer does not show."""
    info, sessions = life.info, life.sessions
    if not sessions:
        yield "no session is recorded"
        return
    if num_noted is None and life.has_digests:
        yield "the run does not say how many sessions it had"
    if num_noted is not None and num_noted != len(sessions):
        yield f"{len(sessions)} sessions recorded, the run counted {num_noted}"
    if sessions[0].started_at != info.created_at and life.has_digests:
        yield f"made {info.created_at}, the first session began {sessions[0].started_at}"
    if life.has_digests and life.digests.since != info.created_at:
        yield f"made {info.created_at}, with digests since {life.digests.since}"
    starts = [one.started_at for one in sessions]
    if sorted(starts) != starts or starts[-1] > info.updated_at:
        yield "sessions do not follow each other"
    clocks = [one.elapsed_s for one in sessions]
    if not life.has_digests:
        return
    if not all(0 <= first <= second < float("inf") for first, second in pairwise([0.0, *clocks])):
        yield f"the run's clock shows {clocks} s, session by session"
    if result.search_s != clocks[-1]:
        yield f"the answer says {result.search_s:.6g} s, the clock of its session {clocks[-1]:.6g} s"


def wrong_steps(
    life: RunLife, result: SearchResult, evaluations: Mapping[int, Evaluation], bound_at_first: float
) -> Wrong:
    """Steps towards the answer that are none: worse than before, or of no design on record.

    Args:
        life: Of the run.
        result: Its answer.
        evaluations: By design.
        bound_at_first: Nothing of the space is better, by its coarsest bounds.
    """
    steps = life.steps
    if not steps:
        if result.design is not None and life.has_digests:
            yield "there is an answer, but no step towards it"
        return
    for at, step in enumerate(steps, start=1):
        item = None if step.design is None else evaluations.get(step.design)
        if item is None or not item.is_exact or item.objective != step.objective:
            yield f"step {at}: design {step.design} is not recorded as worth {step.objective:.9g}"
        if not step.objective <= step.bound <= max(bound_at_first, step.objective) * (1 + 1e-9):
            yield f"step {at}: bound {step.bound:.9g} for {step.objective:.9g}"
    if life.has_digests:
        yield from _wrong_order(steps, result)


def _wrong_order(steps: Sequence[Incumbent], result: SearchResult) -> Wrong:
    for at, (before, after) in enumerate(pairwise(steps), start=2):
        if after.objective < before.objective or after.design == before.design:
            yield f"step {at} is no better than the one before"
        if after.bound > before.bound:
            yield f"step {at}: the bound rises"
        if after.elapsed_s < before.elapsed_s:
            yield f"step {at} is earlier than the one before"
    last = steps[-1]
    if steps[0].elapsed_s < 0 or last.elapsed_s > result.search_s:
        yield f"steps from {steps[0].elapsed_s:.6g} to {last.elapsed_s:.6g} s of {result.search_s:.6g} s"
    if (last.design, last.objective) != (result.design, result.objective):
        yield f"the last step is to design {last.design}, the answer is {result.design}"


def answer_of(store: RunReader) -> SearchResult:
    """The answer of a run; ``RunError`` while there is none."""
    found = store.result()
    if found is None:
        folder = store.folder
        raise RunError(f"{folder}: has no answer yet; finish it with rephaze search --out {folder} --resume")
    sessions = store.sessions()
    if sessions and sessions[-1].elapsed_s > found.search_s:
        raise RunError(
            f"{store.folder}: was resumed after its answer and did not come to another; "
            f"finish it with rephaze search --out {store.folder} --resume"
        )
    return found
