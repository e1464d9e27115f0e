"""Which way a space is gone through."""

from __future__ import annotations

from rephaze.errors import SpecError
from rephaze.estimate.estimate_model import EstimateModel, named_estimate_model
from rephaze.hardware.grid import DesignGrid
from rephaze.types.search import SearchMethod, SearchSettings

LIST_POINTS = 200_000
"""Spaces of no more grid points are gone through as a list: every design then has a bound on record."""


def searches_boxes(settings: SearchSettings) -> bool:
    """Whether a search is by boxes; ``SpecError`` where it is asked for and would prove nothing."""
    model = named_estimate_model(settings.scenario.estimate_model)
    if settings.has_systems:
        return _of_systems(settings, model)
    # Only where operators share bandwidths is more hardware known never to be slower (docs/proof.md, 4.7).
    is_monotone = model.has_memory_terms
    if settings.method is SearchMethod.LIST or (settings.exhaustive and settings.method is SearchMethod.AUTO):
        return False
    if settings.method is SearchMethod.BOXES:
        if not is_monotone:
            rule = f"needs a model in which more hardware is never slower; {model.name} is none"
            raise SpecError("method", str(settings.method), rule, "leave it out, or say list")
        if settings.exhaustive:
            raise SpecError("method", str(settings.method), "solves no design that a box settles", "say list")
        return True
    return is_monotone and DesignGrid(settings.scenario.space).num_points > LIST_POINTS


def _of_systems(settings: SearchSettings, model: EstimateModel) -> bool:
    """A search with systems is by boxes, whatever its size; else ``SpecError``."""
    if not model.has_memory_terms:
        rule = f"systems and budgets need a model in which more hardware is never slower; {model.name} is none"
        raise SpecError("estimate_model", model.name, rule, "leave [system] and [budget] out")
    if settings.method is SearchMethod.LIST or settings.exhaustive:
        field, value = ("exhaustive", True) if settings.exhaustive else ("method", str(settings.method))
        raise SpecError(field, value, "a search with systems or a budget goes by boxes", "leave it out")
    return True
