"""Moves that cannot hurt under ``full``: longer lists, wider families, more of what a chip or a network has."""

from __future__ import annotations

import random
from dataclasses import replace

from rephaze.types.full import PlanFamily
from rephaze.types.search import Objective
from tests.attack.cases import Case
from tests.attack.full_draws import DEGREES, LISTS
from tests.attack.moves import MOVES, NO_LIMIT_UM2, TIMED, Draw, Move, between_cases

WIDER = {
    PlanFamily.EXACT: (PlanFamily.ANY,),
    PlanFamily.MEGATRON: (PlanFamily.EXACT, PlanFamily.ANY),
    PlanFamily.TORCHTITAN: (PlanFamily.EXACT, PlanFamily.ANY),
    PlanFamily.MAXTEXT: (PlanFamily.TORCHTITAN, PlanFamily.EXACT, PlanFamily.ANY),
}
DOUBLED = (
    "num_tensor_cores",
    "tensor_width",
    "tensor_depth",
    "num_vector_cores",
    "vector_lanes",
    "global_buffer_mib",
    "num_hbm_stacks",
)


def _is_timed(case: Case) -> bool:
    return case.run["search"]["objective"] in TIMED


def _longer_list(section: str, lists: dict[str, tuple[object, ...]], *, of_units: bool) -> Draw:
    """One more value in one of the lists; of units the best counts, also by energy."""

    def draw(case: Case, rng: random.Random) -> Move | None:
        own = case.run[section]
        left = [(name, value) for name, values in lists.items() for value in values if value not in own[name]]
        if not left or not (of_units or _is_timed(case)):
            return None
        name, value = rng.choice(left)
        return between_cases(f"{name} with {value}", case, case.changed(section, **{name: [*own[name], value]}))

    return draw


def _overlap(case: Case, _rng: random.Random) -> Move | None:
    if not _is_timed(case):
        return None
    return between_cases("overlap", case.changed("plans", overlap=False), case.changed("plans", overlap=True))


def _wider_family(case: Case, rng: random.Random) -> Move | None:
    if not _is_timed(case):
        return None
    family = PlanFamily(case.run["plans"]["family"])
    if family is PlanFamily.ANY:
        family = rng.choice(list(WIDER))
        case = case.changed("plans", family=str(family))
    wider = rng.choice(WIDER[family])
    return between_cases(f"family {family} to {wider}", case, case.changed("plans", family=str(wider)))


def _more_keep_points(case: Case, _rng: random.Random) -> Move | None:
    if not _is_timed(case):
        return None
    before = case.changed("training", recompute=["none"])
    return between_cases("keep positions", before, case.changed("training", recompute=["none", "block"]))


def _more_memory(case: Case, rng: random.Random) -> Move | None:
    """Larger memories instead, where they cost nothing; else one more size."""
    if not case.memory_bytes or not _is_timed(case):
        return None
    grown = tuple(int(size * rng.choice((1.01, 1.3, 3.0))) for size in case.memory_bytes)
    if case.run["search"]["objective"] == Objective.PER_USD:
        grown = tuple(sorted({*case.memory_bytes, *grown}))
    return between_cases("memory", case, replace(case, memory_bytes=grown))


def _less_latency(case: Case, rng: random.Random) -> Move | None:
    if not _is_timed(case):
        return None
    cluster = case.run["cluster"]
    slow = [level | {"latency_s": level["latency_s"] + 1e-5} for level in cluster["levels"]]
    chosen = rng.randrange(len(slow))
    quick = [
        own if at == chosen else other for at, (own, other) in enumerate(zip(cluster["levels"], slow, strict=True))
    ]
    before = case.changed("cluster", levels=slow)
    return between_cases("latency", before, case.changed("cluster", levels=quick))


def _larger_chips(case: Case, rng: random.Random) -> Move | None:
    """Every chip with twice of one thing: samples a second, whatever the area."""
    name = rng.choice(DOUBLED)
    free = case.changed("search", objective=str(Objective.THROUGHPUT)).changed(
        "space", area_limit_um2=NO_LIMIT_UM2
    )
    doubled = [2 * value for value in case.run["space"][name]]
    return between_cases(f"{name} doubled", free, free.changed("space", **{name: doubled}))


FULL_MOVES: dict[str, Draw] = {
    **{name: MOVES[name] for name in ("space", "area limit", "hbm rate", "buffer rate", "links", "devices")},
    "plan lists": _longer_list("plans", LISTS, of_units=False),
    "degree lists": _longer_list("training", DEGREES, of_units=True),
    "overlap": _overlap,
    "family": _wider_family,
    "keep positions": _more_keep_points,
    "memory": _more_memory,
    "latency": _less_latency,
    "larger chips": _larger_chips,
}
