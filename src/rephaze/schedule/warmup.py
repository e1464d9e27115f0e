"""Compile (or load from numba's cache) every kernel the solver may call, before any clock is started."""

from __future__ import annotations

import numpy as np

from rephaze.schedule.parts import Solver
from rephaze.schedule.solve import schedule_layer
from rephaze.schedule.structure import compile_structure
from rephaze.types.latency import Engine
from rephaze.types.schedule import Exclusion


def compile_kernels() -> None:
    """Make later solves run at full speed; seconds the first time on a machine, then a fraction of one."""
    # Crossed pairs on one core of each kind: small, yet the quick bounds leave a gap for the search.
    engines = [Engine.TENSOR, Engine.TENSOR, Engine.VECTOR, Engine.VECTOR, Engine.FUSED]
    structure = compile_structure(engines, [(0, 2), (1, 3), (0, 4)])
    cycles_om = np.array([[7, 5], [6, 5], [5, 9], [8, 9], [3, 2]], dtype=np.int64)
    schedule_layer(
        structure,
        cycles_om,
        num_tensor_cores=1,
        num_vector_cores=1,
        exclusion=Exclusion.CHIP,
        solver=Solver.SEARCH,
    )
