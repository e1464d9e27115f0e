"""One pass of a layer on one chip as a schedule problem."""

from __future__ import annotations

from rephaze.types.chip import Chip
from rephaze.types.latency import ModeTable
from rephaze.types.schedule import Exclusion, Mode, ScheduleProblem, Way, operator_of


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
            operator_of(name, engine, _ways(table, o))
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
