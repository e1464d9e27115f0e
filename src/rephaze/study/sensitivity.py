"""How the answer moves when an assumption does: whole searches with one bandwidth or limit changed at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from rephaze.errors import SpecError
from rephaze.hardware.chip_counts import chip_counts
from rephaze.search.cosearch import run_search
from rephaze.search.progress import SearchProgress
from rephaze.types.checks import check_choice, check_number
from rephaze.types.cluster import Cluster
from rephaze.types.scenario import EstimateModelName, Scenario
from rephaze.types.search import SearchResult, SearchSettings, SearchStatus
from rephaze.types.sensitivity import ChangedSearch, Sensitivity
from rephaze.types.space import Template

Knob = Callable[[Scenario, float], Scenario]
OnStep = Callable[[str, SearchProgress | None], None]


def _with_template(scenario: Scenario, template: Template) -> Scenario:
    return replace(scenario, space=replace(scenario.space, template=template))


def _hbm(scenario: Scenario, factor: float) -> Scenario:
    template = scenario.space.template
    changed = replace(template, hbm_stack_bytes_per_s=template.hbm_stack_bytes_per_s * factor)
    return _with_template(scenario, changed)


def _buffer(scenario: Scenario, factor: float) -> Scenario:
    template = scenario.space.template
    whole = template.buffer_bytes_per_cycle
    changed = replace(
        template,
        buffer_bytes_per_cycle=None if whole is None else whole * factor,
        buffer_bytes_per_cycle_per_mib=template.buffer_bytes_per_cycle_per_mib * factor,
    )
    return _with_template(scenario, changed)


def _links(scenario: Scenario, factor: float, first: int, last: int) -> Scenario:
    levels = tuple(
        replace(level, bytes_per_s=level.bytes_per_s * factor) if first <= at <= last else level
        for at, level in enumerate(scenario.cluster.levels)
    )
    return replace(scenario, cluster=Cluster(num_devices=scenario.cluster.num_devices, levels=levels))


def _inner_links(scenario: Scenario, factor: float) -> Scenario:
    return _links(scenario, factor, 0, len(scenario.cluster.levels) - 2)


def _outer_links(scenario: Scenario, factor: float) -> Scenario:
    last = len(scenario.cluster.levels) - 1
    return _links(scenario, factor, last, last)


def _area(scenario: Scenario, factor: float) -> Scenario:
    space = scenario.space
    # A floor keeps small chips out of large spaces; one above the new limit would keep all out.
    floor_um2 = space.area_floor_um2 * min(factor, 1.0)
    limit_um2 = space.area_limit_um2 * factor
    return replace(scenario, space=replace(space, area_limit_um2=limit_um2, area_floor_um2=floor_um2))


KNOBS: dict[str, Knob] = {
    "hbm": _hbm,
    "buffer": _buffer,
    "inner-links": _inner_links,
    "outer-links": _outer_links,
    "area": _area,
}
"""HBM bandwidth a stack, global-buffer bandwidth, links inside a node, links between nodes, the area limit."""


def knobs_of(scenario: Scenario) -> tuple[str, ...]:
    """Assumptions that can change anything under a scenario."""
    has_rates = scenario.estimate_model is not EstimateModelName.PAPER
    is_flat = len(scenario.cluster.levels) == 1
    left_out = {"inner-links"} if is_flat else set()
    # The paper's cost function has chip-wide rates of its own, whatever the chip's bandwidths are.
    left_out |= set() if has_rates else {"hbm", "buffer"}
    return tuple(name for name in KNOBS if name not in left_out)


BUDGET_KNOBS = {"power-budget": "power_w", "usd-budget": "cost_usd", "silicon-budget": "silicon_mm2"}
"""Limits of the cluster, where the search has them; the number of chips follows if it follows from them."""
_CHOSEN_INSTEAD = {"hbm": "hbm", "inner-links": "num_inside_links", "outer-links": "num_outside_links"}
"""Knobs that a field of the system takes the place of."""


def possible_knobs(settings: SearchSettings) -> tuple[str, ...]:
    """Assumptions that can change anything of a search."""
    chosen = {knob for knob, field in _CHOSEN_INSTEAD.items() if getattr(settings.systems, field)}
    limited = [knob for knob, field in BUDGET_KNOBS.items() if math.isfinite(getattr(settings.budget, field))]
    return (*(name for name in knobs_of(settings.scenario) if name not in chosen), *limited)


def changed_settings(settings: SearchSettings, knob: str, factor: float) -> SearchSettings:
    """The search with one assumption changed."""
    if knob in KNOBS:
        return replace(settings, scenario=KNOBS[knob](settings.scenario, factor))
    field, systems = BUDGET_KNOBS[knob], settings.systems
    budget = replace(settings.budget, **{field: getattr(settings.budget, field) * factor})
    follows = systems.num_chips and systems.num_chips == counts_to_try(settings)
    changed = replace(settings, budget=budget)
    return replace(changed, systems=replace(systems, num_chips=counts_to_try(changed))) if follows else changed


def counts_to_try(settings: SearchSettings) -> tuple[int, ...]:
    """Numbers of chips where they follow from the budget; one, which then does not fit, if none does."""
    try:
        return chip_counts(settings.scenario, replace(settings.systems, num_chips=()), settings.budget)
    except SpecError:
        return (1,)


def study_sensitivity(
    settings: SearchSettings,
    *,
    base: SearchResult | None = None,
    knobs: Sequence[str] = (),
    factors: Sequence[float] = (0.5, 2.0),
    num_workers: int = 1,
    time_limit_s: float = math.inf,
    on_step: OnStep = lambda _step, _progress: None,
) -> Sensitivity:
    """The search as it is, and again with each assumption times each factor.

    Args:
        settings: The search.
        base: Its answer, if it is known.
        knobs: Names in ``KNOBS`` or ``BUDGET_KNOBS``; by default those that matter in the search.
        factors: What each is multiplied by.
        num_workers: Processes of each search.
        time_limit_s: Of each search.
        on_step: Told which search runs and how far it is.
    """
    possible = possible_knobs(settings)
    for name in knobs:
        check_choice("knob", name, possible)
    for factor in factors:
        check_number("factor", factor, at_least=1e-3, at_most=1e3)

    def search(step: str, changed: SearchSettings) -> SearchResult:
        on_step(step, None)
        return run_search(
            changed,
            num_workers=num_workers,
            time_limit_s=time_limit_s,
            on_progress=lambda progress: on_step(step, progress),
        )

    base = base or search("as it is", settings)
    changes = []
    for name in knobs or possible:
        for factor in factors:
            found = search(f"{name} x {factor:g}", changed_settings(settings, name, factor))
            gain = found.objective / base.objective if base.objective > 0 else 0.0
            proven = (SearchStatus.OPTIMAL, SearchStatus.INFEASIBLE)
            changes.append(
                ChangedSearch(
                    knob=name,
                    scale_factor=factor,
                    result=found,
                    gain_factor=gain,
                    is_proven=base.status in proven and found.status in proven,
                )
            )
    return Sensitivity(settings=settings, base=base, changes=tuple(changes))
