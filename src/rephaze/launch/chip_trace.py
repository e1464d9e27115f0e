"""The schedule of a layer's operators on the chip's cores, as slices of a trace."""

from __future__ import annotations

from collections.abc import Iterator

from rephaze.launch.traces import Slice, first_free_lanes
from rephaze.types.latency import Engine
from rephaze.types.schedule import Mode, PassSchedule

_TRACKS = {Engine.TENSOR: "tensor core", Engine.VECTOR: "vector core", Engine.LINK: "link"}
_HOLDS = {
    Engine.TENSOR: (Engine.TENSOR,),
    Engine.VECTOR: (Engine.VECTOR,),
    Engine.FUSED: (Engine.TENSOR, Engine.VECTOR),
    Engine.LINK: (Engine.LINK,),
    Engine.NONE: (),
}


def schedule_slices(one: PassSchedule) -> Iterator[Slice]:
    """Each operator on a core of each engine it holds; those on all cores have a track of their own."""
    process = f"{one.model} {one.layer}, {one.direction}"
    held: dict[str, list[tuple[float, float, str, dict[str, object]]]] = {}
    ops = {op.name: op for op in one.problem.ops}
    for start in one.schedule.starts:
        op = ops[start.op]
        way = start.way_of(op)
        begin_s, end_s = start.start_cycles / one.clock_hz, (start.start_cycles + way.cycles) / one.clock_hz
        facts: dict[str, object] = {
            "cycles": way.cycles,
            "hbm_share": way.hbm_share,
            "buffer_share": way.buffer_share,
        }
        for engine in _HOLDS[op.engine]:
            name = _TRACKS[engine]
            if way.mode is Mode.ALL_CORES and engine is not Engine.LINK:
                name = f"all {name}s"
            if way.cycles:
                held.setdefault(name, []).append((begin_s, end_s, op.name, facts))
    for name, spans in sorted(held.items()):
        lanes = first_free_lanes([(begin_s, end_s) for begin_s, end_s, *_ in spans])
        for lane, (begin_s, end_s, op_name, facts) in zip(lanes, spans, strict=True):
            yield Slice(
                process=process,
                track=f"{name} {lane:02d}" if max(lanes) else name,
                name=op_name,
                category=name,
                start_s=begin_s,
                end_s=end_s,
                facts=facts,
            )
