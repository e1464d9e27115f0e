"""Moves that cannot hurt: a larger space, a higher limit, a faster link. The optimum must not fall."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from rephaze.hardware.space import enumerate_designs
from rephaze.search.cosearch import run_search
from rephaze.types.cluster import resized_cluster
from rephaze.types.search import Objective, SearchResult, SearchSettings, SearchStatus
from rephaze.workload.zoo import load_model
from tests.attack.cases import AXES, Case
from tests.attack.claims import one_at_a_time
from tests.attack.findings import Tally, exceeds

NO_LIMIT_UM2 = 1e12
TIMED = (Objective.THROUGHPUT, Objective.PER_AREA, Objective.PER_USD)
"""A faster plan may use more energy: moves that change times say nothing of samples per joule."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """A search and one that can do all it can."""

    name: str
    before: SearchSettings
    after: SearchSettings
    repro: str


Draw = Callable[[Case, random.Random], Move | None]


def between_cases(name: str, before: Case, after: Case) -> Move:
    """A move from one run file to another."""
    repro = f"{before.toml}\n# and then\n{after.toml}"
    return Move(name=name, before=before.settings(), after=after.settings(), repro=repro)


def _more_values(case: Case, rng: random.Random) -> Move | None:
    """One more value of one field of the space."""
    axes = AXES[case.run["scenario"]]
    left = [(name, value) for name in axes for value in axes[name] if value not in case.run["space"][name]]
    if not left:
        return None
    name, value = rng.choice(left)
    grown = case.changed("space", **{name: sorted([*case.run["space"][name], value])})
    return between_cases(f"space with {name} {value}", case, grown)


def _higher_limit(case: Case, rng: random.Random) -> Move | None:
    """A higher area limit, from one that cuts the space in two."""
    free = replace(case.settings().scenario.space, area_limit_um2=NO_LIMIT_UM2, area_floor_um2=0.0)
    areas = sorted(set(enumerate_designs(free).area_um2_c.tolist()))
    if len(areas) < 2:
        return None
    limit_um2 = rng.choice(areas[:-1])
    # A floor asked for as a part of the limit rises with it: that takes designs away by its own definition.
    low = case.changed("space", area_limit_um2=limit_um2, area_floor_fraction=0.0)
    high = case.changed("space", area_limit_um2=limit_um2 * rng.choice((1.5, 3.0, 6.0)), area_floor_fraction=0.0)
    return between_cases("area limit", low, high)


def _template_move(field: str) -> Draw:
    def draw(case: Case, rng: random.Random) -> Move | None:
        if case.run["scenario"] == "paper":
            return None  # its cost function has rates of its own
        # More banks take area: samples a second only, and no limit.
        settings = replace(case.settings(), objective=Objective.THROUGHPUT)
        space = replace(settings.scenario.space, area_limit_um2=NO_LIMIT_UM2, area_floor_um2=0.0)
        template = space.template
        before = _with_space(settings, space)
        factor = rng.choice((1.25, 2.0, 4.0))
        faster = replace(template, **{field: getattr(template, field) * factor})
        after = _with_space(settings, replace(space, template=faster))
        repro = f"{case.toml}\n# throughput, no area limit, template {field} x {factor:g}"
        return Move(name=f"template {field}", before=before, after=after, repro=repro)

    return draw


def _with_space(settings: SearchSettings, space) -> SearchSettings:
    return replace(settings, scenario=replace(settings.scenario, space=space))


def _faster_links(case: Case, rng: random.Random) -> Move | None:
    """One network level, or all of them, faster."""
    settings = case.settings()
    if settings.objective not in TIMED:
        return None
    levels = settings.scenario.cluster.levels
    chosen = rng.choice([*range(len(levels)), None])
    factor = rng.choice((1.5, 4.0))
    faster = tuple(
        replace(level, bytes_per_s=level.bytes_per_s * factor) if chosen in (None, at) else level
        for at, level in enumerate(levels)
    )
    cluster = replace(settings.scenario.cluster, levels=faster)
    after = replace(settings, scenario=replace(settings.scenario, cluster=cluster))
    which = "all levels" if chosen is None else f"level {chosen}"
    return Move(name="links", before=settings, after=after, repro=f"{case.toml}\n# links of {which} x {factor:g}")


def _more_devices(case: Case, rng: random.Random) -> Move | None:
    """More devices for the same batch: some may idle, unless the family of plans uses all."""
    if case.run.get("plans", {}).get("family", "any") not in ("any", "exact"):
        return None
    settings = replace(case.settings(), objective=Objective.THROUGHPUT)
    cluster = settings.scenario.cluster
    more = resized_cluster(cluster, rng.choice((cluster.num_devices + 4, 2 * cluster.num_devices)))
    after = replace(settings, scenario=replace(settings.scenario, cluster=more))
    repro = f"{case.toml}\n# throughput, num_devices {more.num_devices}"
    return Move(name="devices", before=settings, after=after, repro=repro)


def _more_microbatches(case: Case, rng: random.Random) -> Move | None:
    own = case.run["training"]["microbatches"]
    left = [size for size in (1, 2, 3, 4, 8, 16) if size not in own]
    grown = case.changed("training", microbatches=sorted([*own, rng.choice(left)]))
    return between_cases("microbatches", case, grown)


def _more_degrees(case: Case, rng: random.Random) -> Move | None:
    own = case.run["training"]["tp_degrees"]
    legal = set.intersection(*(set(load_model(name, "fused").legal_tp) for name in case.run["search"]["models"]))
    left = sorted(tp for tp in legal & {1, 2, 4, 8} if tp not in own)
    if not left:
        return None
    return between_cases("tp degrees", case, case.changed("training", tp_degrees=sorted([*own, rng.choice(left)])))


def _more_recompute(case: Case, rng: random.Random) -> Move | None:
    own = case.run["training"]["recompute"]
    modes = ("none", "stage") if case.run["scenario"] == "paper" else ("none", "block", "stage")
    left = [mode for mode in modes if mode not in own]
    # With all modes a stage's fastest plan counts, and that may use more energy.
    if not left or (len(own) == 2 and case.run["search"].get("objective") == Objective.PER_WATT):
        return None
    return between_cases("recompute", case, case.changed("training", recompute=[*own, rng.choice(left)]))


MOVES: dict[str, Draw] = {
    "space": _more_values,
    "area limit": _higher_limit,
    "hbm rate": _template_move("hbm_stack_bytes_per_s"),
    "buffer rate": _template_move("buffer_bytes_per_cycle_per_mib"),
    "links": _faster_links,
    "devices": _more_devices,
    "microbatches": _more_microbatches,
    "tp degrees": _more_degrees,
    "recompute": _more_recompute,
}


def attack_move(case: Case, name: str, seed: int, tally: Tally, moves: dict[str, Draw] = MOVES) -> bool:
    """Try one of the moves on a case; False if it does not apply."""
    move = moves[name](case, random.Random(seed))
    if move is None:
        return False
    with one_at_a_time():
        before, after = run_search(move.before), run_search(move.after)
    tally.num_moves += 1
    tally.num_searches += 2
    if exceeds(_surely(before), _at_most(after)):
        text = f"{before.objective:.9g} ({before.status}) falls to {after.objective:.9g} ({after.status})"
        tally.add("move", name, f"{move.name}: {text}", move.repro)
    return True


def _surely(result: SearchResult) -> float:
    return result.objective


def _at_most(result: SearchResult) -> float:
    return result.objective if result.status is SearchStatus.OPTIMAL else max(result.bound, 0.0)
