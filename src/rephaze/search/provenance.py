"""What a search was computed with: versions of the code and of its libraries, digests of the files it read."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from rephaze.estimate.estimate_model import named_estimate_model
from rephaze.store.versions import current_versions
from rephaze.types.run_record import RunVersions
from rephaze.types.search import SearchSettings
from rephaze.workload.zoo import ZOO_NAMES


def versions_of(settings: SearchSettings) -> RunVersions:
    """Of everything that decides a search's numbers, on this machine; ``OSError`` if a graph file is gone."""
    model = named_estimate_model(settings.scenario.estimate_model)
    return current_versions(f"{model.name}/{model.version}", graph_digests(settings.models))


def graph_digests(models: Sequence[str]) -> dict[str, str]:
    """SHA-256 of every graph file among the models: a run goes on only with the files it began with."""
    return {name: hashlib.sha256(Path(name).read_bytes()).hexdigest() for name in models if name not in ZOO_NAMES}
