"""One pass of a layer on one chip as a schedule problem."""

from __future__ import annotations

from rephaze.types.chip import Chip
from rephaze.types.latency import IMPOSSIBLE_CYCLES, LatencyTable
from rephaze.types.schedule import Exclusion, ScheduleOp, ScheduleProblem


def layer_problem(
    table: LatencyTable,
    chip: Chip,
    edges: tuple[tuple[int, int], ...],
    exclusion: Exclusion,
) -> ScheduleProblem:
    """The operators of a table of one chip, to be scheduled.

    Args:
        table: Of this chip alone.
        chip: Its cores.
        edges: Which operator comes before which.
        exclusion: What all-cores operators exclude.
    """
    return ScheduleProblem(
        num_tensor_cores=chip.num_tensor_cores,
        num_vector_cores=chip.num_vector_cores,
        ops=tuple(
            ScheduleOp(
                name=name,
                engine=engine,
                one_core_cycles=min(int(table.one_core_cycles_oc[o, 0]), IMPOSSIBLE_CYCLES),
                all_cores_cycles=min(int(table.all_cores_cycles_oc[o, 0]), IMPOSSIBLE_CYCLES),
                one_core_hbm_share=float(table.one_core_hbm_share_oc[o, 0]),
                all_cores_hbm_share=float(table.all_cores_hbm_share_oc[o, 0]),
                one_core_buffer_share=float(table.one_core_buffer_share_oc[o, 0]),
                all_cores_buffer_share=float(table.all_cores_buffer_share_oc[o, 0]),
                one_core_j=float(table.one_core_j_oc[o, 0]),
                all_cores_j=float(table.all_cores_j_oc[o, 0]),
            )
            for o, (name, engine) in enumerate(zip(table.op_names, table.engines, strict=True))
        ),
        edges=edges,
        all_cores_excludes=exclusion,
    )
