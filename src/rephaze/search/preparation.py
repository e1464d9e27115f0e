"""The models of a search made ready, and the solvers of its chips: what is prepared once a process."""

from __future__ import annotations

from rephaze.estimate.estimate_model import named_estimate_model
from rephaze.measure.chip_solver import ChipSolver, Memos
from rephaze.measure.model_work import ModelWork
from rephaze.types.chip import Chip
from rephaze.types.energy import AccessEnergy
from rephaze.types.search import SearchSettings
from rephaze.types.stopping import UNSTOPPED, StopSignal


class Preparation:
    """What does not depend on how a space is gone through.

    Args:
        settings: The search.
        stop: Ends the preparation of the models, and solvers that are given no other, with ``StoppedError``.
        prepared: Of the same search: its models and what it remembers are shared.
    """

    def __init__(
        self, settings: SearchSettings, stop: StopSignal = UNSTOPPED, prepared: Preparation | None = None
    ) -> None:
        self.settings, self._stop = settings, stop
        scenario = settings.scenario
        self.works: list[ModelWork] = (
            prepared.works if prepared else [ModelWork(name, scenario, stop) for name in settings.models]
        )
        self.model = named_estimate_model(scenario.estimate_model)
        self.exclusion = scenario.all_cores_excludes
        self.memos: Memos = prepared.memos if prepared else Memos()

    def chip_solver(
        self, chip: Chip, energy: AccessEnergy | None = None, stop: StopSignal | None = None
    ) -> ChipSolver:
        """The exact solver of any chip, of the space or not, with what is remembered of the others."""
        scenario = self.settings.scenario
        return ChipSolver(chip, scenario, energy=energy, memos=self.memos, stop=stop or self._stop)
