"""Workers of the kind that is asked for."""

from __future__ import annotations

from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.system_evaluator import AnyBoxEvaluator
from rephaze.search.workers.base import InProcess, Workers
from rephaze.search.workers.local import LocalProcesses
from rephaze.types.search import SearchSettings
from rephaze.types.stopping import StopSignal


def start_workers(
    settings: SearchSettings,
    evaluator: SpaceEvaluator | AnyBoxEvaluator,
    num_workers: int,
    dask: str | None,
    stop: StopSignal,
) -> Workers:
    """Workers for a search: those of a Dask scheduler, or processes here; one works in this process."""
    if dask is not None:
        from rephaze.search.workers.dask import DaskWorkers

        return DaskWorkers(settings, dask, stop=stop)
    return InProcess(evaluator, stop) if num_workers <= 1 else LocalProcesses(settings, num_workers, stop)
