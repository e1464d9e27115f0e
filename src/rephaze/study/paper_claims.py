"""The paper's claims held against searches: what was published, what we find, whether it holds."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import fmean, geometric_mean

from rephaze.hardware.derating import usable_memory_share
from rephaze.study.baselines import spotlight_name, tpuv4_of
from rephaze.study.chip_metric import ChipMetric
from rephaze.study.paper_runs import PAPER_SETTINGS, OnStep, PaperRuns, PaperSetting, total_search_s
from rephaze.types.chip import Chip
from rephaze.types.comparison import ChipAnswer
from rephaze.types.reproduction import ClaimCheck, PaperClaims, PaperReproduction, SettingFindings
from rephaze.types.scenario import PhysicsName
from rephaze.types.search import ModelPlan
from rephaze.units import GIB

LARGE_ARRAY = 128 * 128
"""Multipliers of TPUv4's array: a large tensor core has no fewer."""

MEMORY_LOSS = 0.02
"""Memory suffices if no model is slower by more than this part without more of it."""


@cache
def published_claims() -> PaperClaims:
    """What the paper reports."""
    text = files("rephaze.study").joinpath("data", "published_paper.toml").read_text("utf-8")
    data = tomllib.loads(text)
    memory = {"hbm_bytes": int(data.pop("hbm_gib")) * GIB}
    return PaperClaims(**(data | memory | {"models": tuple(data["models"])}))


def reproduce_paper(
    folder: Path,
    *,
    models: Sequence[str] = (),
    settings: Sequence[PaperSetting] = PAPER_SETTINGS,
    num_workers: int,
    time_limit_s: float,
    on_step: OnStep,
) -> PaperReproduction:
    """The paper's claims in each setting.

    Args:
        folder: Where searches are kept; what is proven there is not searched again.
        models: Zoo names; the paper's nine unless given.
        settings: In which to look.
        num_workers: Processes of each search.
        time_limit_s: For all that is not there yet; searches cut by it have a gap.
        on_step: Told what begins, and how far a search is.
    """
    claims = published_claims()
    runs = PaperRuns(folder, num_workers, time_limit_s, on_step)
    found = []
    asked = models or claims.models
    # Settings of single models go with those that ask for them.
    settings = [one for one in settings if not one.models or set(one.models) <= set(asked)]
    for position, setting in enumerate(settings):
        # The last setting may take whatever is left; those before it end long before their part is used up.
        share = setting.weight / sum(one.weight for one in settings[position:])
        found.append(runs.findings(setting, setting.models or asked, share, claims.hbm_bytes))
    return PaperReproduction(
        claims=claims,
        settings=tuple(found),
        checks={one.name: tuple(checked_claims(one, claims)) for one in found},
        num_workers=num_workers,
        search_s=total_search_s(found),
        left_out=tuple(one.name for one in PAPER_SETTINGS if one.name not in {done.name for done in found}),
    )


def gains(answer: ChipAnswer | None, plans: Sequence[ModelPlan]) -> list[float]:
    """Throughputs over those of an answer, for the models that have a plan in both."""
    before = answer.plans if answer else ()
    return [plan.samples_per_s / old.samples_per_s for plan, old in zip(plans, before, strict=False) if old]


def unevenness(plan: ModelPlan) -> float:
    """The longest stage of a plan over its average stage: how much longer a batch takes than with even stages."""
    loads_s = [stage.load_s for stage in plan.stages]
    return max(loads_s) / fmean(loads_s)


def checked_claims(found: SettingFindings, claims: PaperClaims) -> list[ClaimCheck]:
    """Every claim in one setting."""
    if found.common.chip is None:
        nothing = found.common.reason or "no chip was found"
        return [ClaimCheck(claim="one chip for all models", published="", found=nothing, holds=None)]
    checks = _gain_checks(found, claims)
    tpuv4 = tpuv4_of(found.comparison.settings.scenario)
    own = [result for model, result in found.own.items() if found.is_worth_showing(model)]
    chips = [result.chip for result in own if result.chip is not None]
    plans = [*found.common.plans, *(plan for result in own for plan in result.plans)]
    limit_um2 = found.comparison.settings.scenario.space.area_limit_um2
    areas = [result.area_um2 / limit_um2 for result in (found.common, *own)]
    checks.append(
        ClaimCheck(
            claim="searched chips use most of the area limit",
            published=f"over {claims.area_fraction:.0%}",
            found=f"common chip {areas[0]:.1%}" + (f", own chips {_span(areas[1:], '{:.1%}')}" if own else ""),
            holds=min(areas) > claims.area_fraction,
        )
    )
    checks.append(_cores_check(found.common.chip, chips, tpuv4))
    arrays = [chip.tensor_width * chip.tensor_depth for chip in (found.common.chip, *chips)]
    checks.append(
        ClaimCheck(
            claim="large tensor cores",
            published="yes",
            found=f"common chip {_arrays(found.common.chip)}"
            + (f", own chips {', '.join(sorted({_arrays(chip) for chip in chips}))}" if chips else ""),
            holds=min(arrays) >= LARGE_ARRAY,
        )
    )
    checks.append(_memory_check(found, plans, claims))
    return checks


def _memory_check(found: SettingFindings, plans: Sequence[ModelPlan], claims: PaperClaims) -> ClaimCheck:
    scenario = found.comparison.settings.scenario
    # Calibrated plans have a part of the memory to plan with; the claim is about all of it.
    share = usable_memory_share() if scenario.physics is PhysicsName.CALIBRATED else 1.0
    largest_gib = round(max(plan.hbm_bytes for plan in plans) / share / GIB, 3)
    lost, told = 0.0, f"at most {largest_gib:g} GiB"
    if found.with_published_memory is not None:
        lost = max(0.0, 1.0 - 1.0 / max(gains(found.with_published_memory, found.common.plans)))
        told += f"; with {claims.hbm_bytes / GIB:g} GiB no model loses more than {lost:.1%} on the common chip"
    suffices = largest_gib <= claims.hbm_bytes / GIB or found.with_published_memory is not None
    return ClaimCheck(
        claim="memory suffices",
        published=f"{claims.hbm_bytes / GIB:g} GB or less",
        found=told,
        holds=suffices and lost <= MEMORY_LOSS,
    )


def _gain_checks(found: SettingFindings, claims: PaperClaims) -> list[ClaimCheck]:
    expert, searched = found.comparison.references
    over_expert = gains(expert.answer, found.common.plans)
    over_searched = gains(searched.answer, found.common.plans)
    experts = [plan for plan in (expert.answer.plans if expert.answer else ()) if plan]
    over_even = [gain / unevenness(plan) for gain, plan in zip(over_expert, experts, strict=True)]
    checks = [
        ClaimCheck(
            claim="common chip over TPUv4 with expert plans, mean over models",
            published=f"{claims.mean_gain_factor:g}",
            found=_means(over_expert),
            holds=fmean(over_expert) >= claims.mean_gain_factor if over_expert else None,
        ),
        ClaimCheck(
            claim="the same, were the expert's stages equally long",
            published=f"{claims.mean_gain_factor:g}",
            found=_means(over_even),
            holds=None,
        ),
        ClaimCheck(
            claim="the same over TPUv4 with searched plans",
            published="not given",
            found=_means(over_searched),
            holds=None,
        ),
    ]
    for whose, published in (("expert", "yes"), ("searched", "not given")):
        rivals = [one for one in found.comparison.baselines if _is_spotlight(one.name, whose)]
        if not rivals or not max(one.objective for one in rivals) > 0:
            continue
        ratio = found.common.objective / max(one.objective for one in rivals)
        checks.append(
            ClaimCheck(
                claim=f"above the chip searched alone (Spotlight) with {whose} plans",
                published=published,
                found=f"{ratio:.3f} times",
                holds=ratio > 1.0 if published == "yes" else None,
            )
        )
    return checks


def _is_spotlight(name: str, whose: str) -> bool:
    return any(name == spotlight_name(metric, whose) for metric in ChipMetric)


def _cores_check(common: Chip, own: Sequence[Chip], tpuv4: Chip) -> ClaimCheck:
    counts = [chip.num_vector_cores for chip in (common, *own)]
    lanes = [chip.num_lanes for chip in (common, *own)]
    return ClaimCheck(
        claim="many vector cores",
        published="yes",
        found=f"common chip {common.num_vector_cores} of {common.vector_lanes} lanes"
        + (f", own chips {_span(counts[1:], '{:,}')}" if own else "")
        + f"; TPUv4 {tpuv4.num_vector_cores} of {tpuv4.vector_lanes}",
        # Lanes are what counts: where they are free of the array's width, few wide cores are as good.
        holds=min(counts) > tpuv4.num_vector_cores and min(lanes) > tpuv4.num_lanes,
    )


def _means(ratios: Sequence[float]) -> str:
    if not ratios:
        return "no model has both"
    return f"{fmean(ratios):.2f} (geometric {geometric_mean(ratios):.2f}, {_span(ratios, '{:.2f}')})"


def _span(values: Sequence[float], form: str) -> str:
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


def _arrays(chip: Chip) -> str:
    return f"{chip.num_tensor_cores} of {chip.tensor_width}x{chip.tensor_depth}"
