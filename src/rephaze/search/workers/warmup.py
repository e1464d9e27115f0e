"""Compiled kernels made ready before the clock matters: compiled once a machine, then read from numba's cache."""

from __future__ import annotations

from functools import cache


@cache
def warm_schedules() -> None:
    """Kernels of the schedule room, once a process."""
    from rephaze.schedule.warmup import compile_kernels

    compile_kernels()


def warm_estimates_and_plans() -> None:
    """Kernels of the estimate and place rooms."""
    from rephaze.estimate.gemm_default.mapper import PaddedProblem, map_padded
    from rephaze.place.answer import warm_up

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
    warm_up()


WARM_UPS = (warm_schedules, warm_estimates_and_plans)


def use_one_thread() -> None:
    """Keep compiled loops of this process to one thread: a pool of processes is what fills the machine."""
    import numba

    numba.set_num_threads(1)
