"""One pass of a layer on one chip as a schedule problem."""

from __future__ import annotations

from rephaze.types.chip import Chip
from rephaze.types.latency import Engine, ModeTable
from rephaze.types.schedule import Exclusion, Mode, ScheduleOp, ScheduleProblem, Way


def layer_problem(
    table: ModeTable,
    chip: Chip,
    edges: tuple[tuple[int, int], ...],
    exclusion: Exclusion,
) -> ScheduleProblem:
    """The operators of a table of one chip, to be scheduled.

    Args:
        table: Of this chip.
        chip: Its cores.
        edges: Which operator comes before which.
        exclusion: What all-cores operators exclude.
    """
    return ScheduleProblem(
        num_tensor_cores=chip.num_tensor_cores,
        num_vector_cores=chip.num_vector_cores,
        ops=tuple(
            _operator(name, engine, _ways(table, o))
            for o, (name, engine) in enumerate(zip(table.op_names, table.engines, strict=True))
        ),
        edges=edges,
        all_cores_excludes=exclusion,
    )


def _ways(table: ModeTable, o: int) -> list[Way]:
    modes = tuple(Mode)
    return [
        Way(
            mode=modes[int(table.all_cores_m[m])],
            cycles=int(table.cycles_om[o, m]),
            hbm_share=float(table.hbm_share_om[o, m]),
            buffer_share=float(table.buffer_share_om[o, m]),
            energy_j=float(table.energy_j_om[o, m]),
        )
        for m in range(len(table.all_cores_m))
    ]


def _operator(name: str, engine: Engine, ways: list[Way]) -> ScheduleOp:
    one, every, *further = ways
    return ScheduleOp(
        name=name,
        engine=engine,
        one_core_cycles=one.cycles,
        all_cores_cycles=every.cycles,
        one_core_hbm_share=one.hbm_share,
        all_cores_hbm_share=every.hbm_share,
        one_core_buffer_share=one.buffer_share,
        all_cores_buffer_share=every.buffer_share,
        one_core_j=one.energy_j,
        all_cores_j=every.energy_j,
        further=tuple(further),
    )
