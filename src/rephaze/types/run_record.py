"""What a run keeps beside its evaluations: versions, bounds of all designs, how the answer grew.

Axis letters: c = chip (design).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from rephaze.types.chip import FloatColumn, IntColumn
from rephaze.types.search import SearchSettings

NOT_REMOVED = -1
"""In ``BoundTable.removed_by_c``: no bound removed this design."""


def minute_of(moment: str) -> str:
    """A moment of a run (ISO 8601, UTC) as people read it, to the minute."""
    return f"{moment[:16].replace('T', ' ')} UTC"


class RunPart(StrEnum):
    """What a run may hold beside its answer, worked out for people to look at."""

    WINNER = "winner"
    """``WinnerDetails``: time, memory, timelines, operators and schedules of its plans."""
    FIELDS = "fields"
    """``FieldReaches``: how near designs come with each value of a field."""
    BASELINES = "baselines"
    """``RunBaselines``: what the search is set beside."""
    POINTS = "points"
    """``ChipPoints``: what every measured chip gives and takes."""
    COMPARISON = "comparison"
    """``Comparison``: of ``rephaze compare --run``."""
    SENSITIVITY = "sensitivity"
    """``Sensitivity``: of ``rephaze sensitivity --run``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunVersions:
    """What computed a run, besides its settings.

    A run continues only under the same ``estimator`` and ``input_digests``, since both decide results;
    the others are kept for the record.
    """

    estimator: str
    """Changes whenever the same settings may give other numbers."""
    rephaze: str
    python: str
    packages: dict[str, str]
    """Versions of the libraries that compute."""
    input_digests: dict[str, str] = field(default_factory=dict)
    """Digest of each file the settings name (a model's graph): the name alone does not fix its content."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundTable:
    """Upper bounds on the objective of many designs, and which bound removed each."""

    model: str | None
    """The model the bounds are for; ``None``: for the objective over all models."""
    names: tuple[str, ...]
    """The bounds' names, for example cheapest first."""
    design_c: IntColumn
    bound_c: FloatColumn
    removed_by_c: NDArray[np.int16]
    """Position in ``names`` of the bound that removed the design, or ``NOT_REMOVED``."""

    def __post_init__(self) -> None:
        assert len(self.design_c) == len(self.bound_c) == len(self.removed_by_c), "columns of one length"
        assert not np.isnan(self.bound_c).any(), "a bound that is no number proves nothing"
        if len(self.removed_by_c):
            low, high = int(self.removed_by_c.min()), int(self.removed_by_c.max())
            assert NOT_REMOVED <= low <= high < len(self.names), "every removal names its bound"

    def __len__(self) -> int:
        return len(self.design_c)


@dataclass(frozen=True, kw_only=True, slots=True)
class Incumbent:
    """One step of a search: the best answer and the best bound known after ``elapsed_s``."""

    elapsed_s: float
    objective: float
    bound: float
    design: int | None
    """Position of the best design in the enumerated space; ``None`` while there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunInfo:
    """What a run is: its settings and its life so far."""

    settings: SearchSettings
    versions: RunVersions
    """Of the session that made the run."""
    created_at: str
    """ISO 8601, UTC."""
    updated_at: str
    num_sessions: int
    """How often it was started or resumed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSession:
    """One start or resumption of a run."""

    started_at: str
    versions: RunVersions
    settings_digest: str | None
    """SHA-256 of the settings it was given; None in runs of older versions."""
    elapsed_s: float
    """What the run's clock showed when it last wrote, over all sessions; 0 in runs of older versions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedDigests:
    """What the chain of digests of a run says of its rows."""

    since: str | None
    """From when on rows were recorded with digests; None: by an older version, without any."""
    num_digests: int
    last: str
    """The end of the chain: it changes with any row of the run."""
    wrong: tuple[str, ...]
    """Tables that are not as they were recorded; empty if all are."""
