"""Chips that exist, measured as the designs of a search are: with the best plan of every model."""

from __future__ import annotations

import math
import time
from collections.abc import Collection

from rephaze.hardware.derating import chip_at, family_of
from rephaze.hardware.presets import load_presets, preset_chip
from rephaze.search.evaluator import Preparation
from rephaze.study.baselines import tpuv4_of
from rephaze.study.yardstick import Yardstick
from rephaze.types.chip import Chip
from rephaze.types.comparison import ChipAnswer
from rephaze.types.scenario import PhysicsName, Scenario
from rephaze.types.search import SearchSettings
from rephaze.types.space import AreaModel
from rephaze.types.stopping import UNSTOPPED, StoppedError, StopSignal

FIRST = ("tpuv4", "a100-80gb")
"""Measured before the others, in this order."""


def known_chips(scenario: Scenario) -> list[Chip]:
    """Presets that the space's area model can price, best known first, at the rates of the scenario's physics.

    The paper's area model knows the cores of its own template only: TPUv4 is the one chip it describes. Calibrated
    physics knows nothing of chips that no run was measured on: they are left out.
    """
    if scenario.space.area_model is AreaModel.PAPER:
        return [tpuv4_of(scenario)]
    whole = [name for name, preset in load_presets().items() if not preset.blanks]
    if scenario.physics is PhysicsName.CALIBRATED:
        whole = [name for name in whole if family_of(name, is_known=True) is not None]
    names = (*FIRST, *(name for name in whole if name not in FIRST))
    return [chip_at(preset_chip(name), scenario) for name in names]


def measure_known_chips(
    settings: SearchSettings,
    max_area_um2: float = math.inf,
    budget_s: float = math.inf,
    stop: StopSignal = UNSTOPPED,
    *,
    without: Collection[str] = (),
) -> list[ChipAnswer]:
    """Known chips with their best plans, valued by the objective of the search.

    Args:
        settings: Of the search.
        max_area_um2: Larger chips are left out.
        budget_s: Time after the first chip, which always is measured; what is under way then is left out.
        stop: Ends the work; chips measured by then are the answer.
        without: Names of chips to pass over.
    """
    deadline_s = math.inf
    found: list[ChipAnswer] = []
    within = StopSignal(is_asked=lambda: stop.is_over() or time.perf_counter() >= deadline_s)
    try:
        yardstick = Yardstick(Preparation(settings, within))
        for chip in known_chips(settings.scenario):
            if chip.name in without:
                continue
            within.check()
            if yardstick.area_um2(chip) <= max_area_um2:
                found.append(yardstick.with_searched_plans(chip))
                if len(found) == 1:
                    deadline_s = time.perf_counter() + budget_s  # what loading took is nobody's fault
    except StoppedError:
        pass
    return found
