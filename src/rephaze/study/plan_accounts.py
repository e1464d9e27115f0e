"""What a search's plans, and those it is set beside, spend time and memory on, derived again for people."""

from __future__ import annotations

from collections.abc import Iterable

from rephaze.errors import RephazeError
from rephaze.measure.plan_again import PricedAgain
from rephaze.measure.plan_schedules import plan_passes
from rephaze.types.comparison import Baseline
from rephaze.types.plan_account import BaselineAccounts, PlanAccount, PlanDetail, WinnerDetails
from rephaze.types.search import SearchResult, SearchSettings
from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal


def winner_details(
    settings: SearchSettings, result: SearchResult, stop: StopSignal = UNSTOPPED
) -> WinnerDetails | None:
    """Accounts, timelines, operators and schedules of the winner's plans; None without an answer.

    A plan that cannot be priced again has the reason instead. ``StoppedError`` when cut.
    """
    if result.chip is None:
        return None
    details = []
    for plan in result.plans:
        try:
            again = PricedAgain(settings, result.chip, plan, stop)
            found = PlanDetail(
                model=plan.model,
                account=again.account(),
                timeline=again.timeline(),
                operators=tuple(again.operators),
                passes=plan_passes(settings, result.chip, plan, stop),
            )
        except StoppedError:
            raise
        except RephazeError as error:
            found = PlanDetail(
                model=plan.model, account=None, timeline=None, operators=(), passes=(), missing=str(error)
            )
        details.append(found)
    return WinnerDetails(plans=tuple(details))


def baseline_accounts(
    settings: SearchSettings, baselines: Iterable[Baseline], stop: StopSignal = UNSTOPPED
) -> list[BaselineAccounts]:
    """Where the time of baselines goes; those that were not reached when the work was stopped are left out."""
    found: list[BaselineAccounts] = []
    try:
        for one in baselines:
            if one.answer is None or one.objective <= 0:
                continue
            plans: list[PlanAccount | None] = []
            for plan in one.answer.plans:
                try:
                    chip = one.answer.chip
                    plans.append(None if plan is None else PricedAgain(settings, chip, plan, stop).account())
                except StoppedError:
                    raise
                except RephazeError:  # such as a rule's plan that the scenario itself does not allow
                    plans.append(None)
            found.append(BaselineAccounts(name=one.name, plans=tuple(plans)))
    except StoppedError:
        pass
    return found
