"""What computes a run on this machine."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from rephaze.types.run_record import RunVersions

_COMPUTING = ("numba", "numpy", "ortools")


def current_versions(estimator: str, input_digests: Mapping[str, str] | None = None) -> RunVersions:
    """The versions in use here.

    Args:
        estimator: Changes whenever the same settings may give other numbers.
        input_digests: Digest of each file the settings name.
    """
    return RunVersions(
        estimator=estimator,
        rephaze=_version("rephaze"),
        python=platform.python_version(),
        packages={name: _version(name) for name in _COMPUTING},
        input_digests=dict(input_digests or {}),
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
