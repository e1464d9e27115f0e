"""What reproducing published claims gives: searches of one setting, and claims held against them."""

from __future__ import annotations

from dataclasses import dataclass

from rephaze.types.comparison import ChipAnswer, Comparison, ExpertDegrees
from rephaze.types.search import SearchResult


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperClaims:
    """What the ICML 2024 paper reports in figures."""

    source: str
    models: tuple[str, ...]
    """Its nine, by their names in the zoo."""
    mean_gain_factor: float
    """Of the common chip over TPUv4 with the expert's plans, averaged over the models."""
    area_fraction: float
    """Searched chips use more of the area limit."""
    hbm_bytes: int
    """Searched chips need no more memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingFindings:
    """The models in one setting: the chip common to all, each one's own, and what they are set beside."""

    name: str
    """Of the setting, as pages call it."""
    common: SearchResult
    own: dict[str, SearchResult]
    """Of the models searched alone."""
    comparison: Comparison
    """TPUv4 and the common chip with the expert's and with the best plans, the gain by cause."""
    with_published_memory: ChipAnswer | None = None
    """The common chip with the memory the paper says suffices; None where none takes more, or sizes cost area."""

    def is_worth_showing(self, model: str) -> bool:
        """Whether a model's own search found a chip no worse for it than the common one: cut short, it may not."""
        own = self.own[model]
        common = {plan.model: plan.samples_per_s for plan in self.common.plans}
        return own.chip is not None and own.plans[0].samples_per_s >= common.get(model, 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimCheck:
    """One claim in one setting."""

    claim: str
    published: str
    found: str
    holds: bool | None
    """None where the setting cannot say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperReproduction:
    """Every claim in every setting."""

    claims: PaperClaims
    settings: tuple[SettingFindings, ...]
    checks: dict[str, tuple[ClaimCheck, ...]]
    """By name of the setting."""
    num_workers: int
    search_s: float
    """Of all searches together, on so many workers, also of those kept from before."""
    left_out: tuple[str, ...] = ()
    """Names of settings that were not asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NestFigure:
    """What NEST's artifact prints of one model on one cluster; factors are over its manual baseline."""

    setup: str
    model: str
    num_devices: int
    nest_factor: float
    manual_factor: float | None = None
    phaze_factor: float | None = None
    mcmc_factor: float | None = None
    alpa_factor: float | None = None
    run_s: float | None = None
    """Total run time it prints."""
    degrees: ExpertDegrees | None = None
    """Of its plan in a re-run of its solver; its dp does not count experts' parallelism."""
    cpu_s: float | None = None
    """Of that re-run, placement alone."""
    peak_mb: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedCell:
    """A plan in one NEST scenario, priced by our cost model."""

    samples_per_s: float
    """Zero without a plan."""
    bound_samples_per_s: float
    """Nothing under the same choices is faster."""
    plan: str
    """In words, or why there is none."""
    cpu_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class NestCell:
    """One model on one cluster: what NEST prints, and what our cost model makes of three ways to plan it."""

    figure: NestFigure
    estimator: str
    """By which operators were timed."""
    its_degrees: PlacedCell | None
    """NEST's degrees, stages and replay chosen by us; None where its degrees are not known."""
    its_choices: PlacedCell
    """The best plan with what NEST may choose: degrees and stages, microbatches of one sample."""
    all_choices: PlacedCell
    """The best plan with all that ours may choose."""
