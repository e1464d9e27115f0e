"""The public functions, each a few lines over the rooms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rephaze.types.search import SearchResult


def explore(
    *models: str,
    scenario: str | None = None,
    config: str | Path | None = None,
    changes: dict[str, dict[str, Any]] | None = None,
    store: str | Path | None = None,
    resume: bool = False,
    num_workers: int = 1,
    dask: str | None = None,
    time_limit_s: float = math.inf,
    count_within: float = 0.0,
) -> SearchResult:
    """The best chip and plans for the models, with their certificate.

    >>> result = explore("gpt2-xl", changes={"space": {"num_hbm_stacks": [4]}})  # doctest: +SKIP
    >>> result.status, result.chip.num_tensor_cores, result.plans[0].samples_per_s  # doctest: +SKIP

    Args:
        models: Zoo names or graph files.
        scenario: ``default``, ``paper`` or a scenario file.
        config: A run file; the arguments come on top of it.
        changes: Single fields by section (``space``, ``cluster``, ``training``, ``search``).
        store: Folder to record the run in.
        resume: Go on with the run in ``store``.
        num_workers: Processes on this machine.
        dask: Address of a Dask scheduler (extra ``[dask]``), whose workers are then used instead.
        time_limit_s: After this the best found so far is the answer, with its gap.
        count_within: After the proof also settle which designs lie within this fraction of the best.
    """
    from rephaze.search.cosearch import run_search
    from rephaze.search.settings import resolve_settings

    settings = resolve_settings(
        tuple(models), config=None if config is None else Path(config), scenario=scenario, changes=changes
    )
    return run_search(
        settings,
        folder=None if store is None else Path(store),
        resume=resume,
        num_workers=num_workers,
        dask=dask,
        time_limit_s=time_limit_s,
        count_within=count_within,
    )


def list_models() -> Sequence[str]:
    """Names of the models that ship with rephaze."""
    from rephaze.workload.zoo import ZOO_NAMES

    return ZOO_NAMES
