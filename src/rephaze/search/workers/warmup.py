"""Compiled kernels made ready before the clock matters: compiled once a machine, then read from numba's cache."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from rephaze.types.placement import PlacementModel


@cache
def warm_schedules() -> None:
    """Kernels of the schedule room, once a process."""
    from rephaze.schedule.warmup import compile_kernels

    compile_kernels()


def warm_estimates() -> None:
    """Kernels of the estimate room, and of what layers keep."""
    from rephaze.estimate import block_cycles
    from rephaze.estimate.gemm_default.mapper import PaddedProblem, map_padded
    from rephaze.measure import keep_points

    map_padded(
        PaddedProblem(
            batch=2,
            m=8,
            n=8,
            k=8,
            num_tensor_cores=2,
            width=4,
            depth=4,
            scratchpad_bytes=1024.0,
            global_buffer_bytes=65536.0,
            scratchpad_bytes_per_cycle=48.0,
            global_buffer_bytes_per_cycle=32.0,
            hbm_bytes_per_cycle=16.0,
            global_buffer_multicast=2,
        )
    )
    block_cycles.compile_kernels()
    keep_points.compile_kernels()


def warm_plans(model: PlacementModel) -> None:
    """Kernels of the place room that a cost model needs."""
    if model is PlacementModel.FULL:
        from rephaze.place.full.warmup import compile_kernels

        compile_kernels()
    else:
        from rephaze.place.answer import warm_up

        warm_up()


def warm_chunks(model: PlacementModel) -> None:
    """Kernels of interleaved pipelines, where a cost model has them; on top of ``warm_plans``."""
    if model is PlacementModel.FULL:
        from rephaze.place.full.warmup import compile_interleaving

        compile_interleaving()


def warm_part(number: int, model: PlacementModel) -> None:
    """One of ``NUM_PARTS`` parts of all kernels: two that take longest, then what is left.

    The last finds what it needs of the first in the cache, or waits for it.
    """
    with _seldom_collecting():
        if number == 0:
            warm_plans(model)
        elif number == 1:
            warm_schedules()
        elif number == 2:
            warm_estimates()
        else:
            warm_chunks(model)


NUM_PARTS = 4


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Look for cycles of objects seldom: a compiler makes many objects, most of which stay."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 1000)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def use_one_thread() -> None:
    """Keep compiled loops of this process to one thread: a pool of processes is what fills the machine."""
    import numba

    numba.set_num_threads(1)
