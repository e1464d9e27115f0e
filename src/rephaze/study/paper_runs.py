"""The searches behind the paper's claims, each in a run folder: what is proven is not searched again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from rephaze.errors import FileError, RunError
from rephaze.search.cosearch import run_search
from rephaze.search.evaluator import Preparation
from rephaze.search.progress import SearchProgress
from rephaze.search.provenance import versions_of
from rephaze.search.settings import resolve_settings
from rephaze.store.opening import is_run
from rephaze.store.record_json import from_json, json_text, to_json
from rephaze.store.run_store import RunStore
from rephaze.study.comparison import RecordedRun, compare_baselines, own_settings
from rephaze.study.sensitivity import KNOBS
from rephaze.study.yardstick import Yardstick
from rephaze.types.comparison import ChipAnswer, Comparison
from rephaze.types.files import read_mapping
from rephaze.types.output_files import FileKind, write_whole
from rephaze.types.reproduction import SettingFindings
from rephaze.types.search import SearchResult, SearchSettings, SearchStatus

RecordT = TypeVar("RecordT")
OnStep = Callable[[str, SearchProgress | None], None]
PROVEN = (SearchStatus.OPTIMAL, SearchStatus.INFEASIBLE)
COMMON_SHARE = 0.6
"""Of the time that is left to a setting: the most that the search for the common chip takes.

The rest is for what it is set beside, and for the models' own chips.
"""
_KEPT = FileKind(name="a kept record", starts=(b"{",), endings=(".json",))
MIXED_UNITS = 1000.0
"""The reference program adds transfers in seconds to compute in milliseconds: as if links were so much faster."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperSetting:
    """One setting to look at the paper's models in."""

    name: str
    scenario: str
    links_factor: float = 1.0
    with_own: bool = True
    """Search each model's own chip too."""
    num_tried: int = 0
    """Chips each searching baseline may look at; 0: none of these baselines."""
    models: tuple[str, ...] = ()
    """Only these, in place of all."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Of single fields of the scenario, by section; of the scenario itself by name."""

    @property
    def weight(self) -> int:
        """Of its part of the time: one for a model alone, one more for all, another for their own chips."""
        return 1 + (not self.models) + (self.with_own and not self.models)

    def settings(self, models: Sequence[str]) -> SearchSettings:
        """The search for one chip of all the models."""
        found = resolve_settings(tuple(models), scenario=self.scenario, changes=self.changes)
        if self.links_factor == 1.0:
            return found
        return replace(found, scenario=KNOBS["outer-links"](found.scenario, self.links_factor))


CALIBRATED = {"physics": "calibrated"}
PAPER_SETTINGS = (
    PaperSetting(name="paper", scenario="paper", num_tried=16),
    PaperSetting(name="paper, mixed units", scenario="paper", links_factor=MIXED_UNITS, with_own=False),
    # One model alone is proven soon, whatever the time leaves of all together.
    PaperSetting(name="default, gpt2-xl", scenario="default", models=("gpt2-xl",), with_own=False),
    PaperSetting(name="default", scenario="default"),
    PaperSetting(
        name="calibrated, gpt2-xl", scenario="default", models=("gpt2-xl",), with_own=False, changes=CALIBRATED
    ),
    PaperSetting(name="calibrated", scenario="default", with_own=False, changes=CALIBRATED),
)


class PaperRuns:
    """Searches and comparisons of settings, kept below one folder.

    Args:
        folder: Where each search has a run, and each setting its comparison.
        num_workers: Processes of a search.
        time_limit_s: For everything that is not there yet. Each search gets a part of what is left.
        on_step: Told what begins, and how far a search is.
    """

    def __init__(self, folder: Path, num_workers: int, time_limit_s: float, on_step: OnStep) -> None:
        self._folder = folder
        self._num_workers = num_workers
        self._ends_at = time.perf_counter() + time_limit_s
        self._on_step = on_step

    @property
    def left_s(self) -> float:
        """Until the time is up."""
        return max(self._ends_at - time.perf_counter(), 0.0)

    def findings(
        self, setting: PaperSetting, models: Sequence[str], share: float, memory_bytes: int
    ) -> SettingFindings:
        """One setting.

        Args:
            setting: Which.
            models: Zoo names.
            share: Of the time that is left.
            memory_bytes: What suffices by the paper.
        """
        room = self._folder / setting.name.replace(", ", "-").replace(" ", "-")
        until_s = self.left_s * share
        began = time.perf_counter()
        settings = setting.settings(models)

        def left_s() -> float:
            return max(until_s - (time.perf_counter() - began), 0.0)

        common = self._searched(settings, room / "common", setting.name, left_s() * COMMON_SHARE)
        # Nothing cuts what the chip is set beside: done first, it takes time from the searches after it, not more.
        comparison = self._compared(setting, settings, room, common)
        with_published_memory = self._with_memory(settings, room, common, memory_bytes)
        own = {}
        for position, model in enumerate(models if setting.with_own else ()):
            step = f"{setting.name}, own chip of {model}"
            limit_s = left_s() / (len(models) - position)
            own[model] = self._searched(own_settings(settings, model), room / model, step, limit_s)
        return SettingFindings(
            name=setting.name,
            common=common,
            own=own,
            comparison=comparison,
            with_published_memory=with_published_memory,
        )

    def _searched(self, settings: SearchSettings, folder: Path, step: str, limit_s: float) -> SearchResult:
        """The recorded answer if it is proven; else the search, from the beginning or where it was left."""
        is_there = is_run(folder)
        kept = _kept(settings, folder) if is_there else None
        if kept is not None and (kept.status in PROVEN or limit_s <= 0.0):
            return kept
        self._on_step(step, None)
        folder.parent.mkdir(parents=True, exist_ok=True)
        return run_search(
            settings,
            folder=folder,
            resume=is_there,
            num_workers=self._num_workers,
            time_limit_s=limit_s,
            on_progress=lambda progress: self._on_step(step, progress),
        )

    def _compared(
        self, setting: PaperSetting, settings: SearchSettings, room: Path, common: SearchResult
    ) -> Comparison:
        """TPUv4 and the common chip on one yardstick; kept as long as the common chip is the same."""
        path, estimator = room / "comparison.json", versions_of(settings).estimator
        if path.exists():
            kept_by, kept = _kept_record(Comparison, path, "comparison")
            winner = kept.baselines[-1].answer if kept.baselines else None
            is_same = kept_by == estimator and kept.settings == settings
            if is_same and winner is not None and winner.chip == common.chip:
                return kept

        def show(step: str, progress: SearchProgress | None) -> None:
            self._on_step(f"{setting.name}, {step}", progress)

        run = RecordedRun(folder=room, settings=settings, result=common)
        found = compare_baselines(
            settings, budget=max(setting.num_tried, 1), runs=[run], searching=setting.num_tried > 0, on_step=show
        )
        write_whole(path, json_text({"estimator": estimator, "comparison": to_json(found)}), _KEPT)
        return found

    def _with_memory(
        self, settings: SearchSettings, room: Path, common: SearchResult, memory_bytes: int
    ) -> ChipAnswer | None:
        """The common chip with less memory, if a plan of it takes more and sizes are free of everything else."""
        takes_more = any(plan.hbm_bytes > memory_bytes for plan in common.plans)
        if common.chip is None or not takes_more or not settings.scenario.space.hbm_bytes_options:
            return None
        chip = replace(common.chip, hbm_bytes=memory_bytes)
        path, estimator = room / "memory.json", versions_of(settings).estimator
        if path.exists():
            kept_by, kept = _kept_record(ChipAnswer, path, "answer")
            if kept_by == estimator and kept.chip == chip:
                return kept
        self._on_step(f"{room.name}, common chip with less memory", None)
        found = Yardstick(Preparation(settings)).with_searched_plans(chip)
        write_whole(path, json_text({"estimator": estimator, "answer": to_json(found)}), _KEPT)
        return found


def _kept_record(kind: type[RecordT], path: Path, name: str) -> tuple[str, RecordT]:
    """What made a record that an earlier call left, and the record; ``FileError`` if it is none any more."""
    document = read_mapping(path)
    try:
        return str(document.get("estimator")), from_json(kind, document.get(name))
    except FileError as error:
        raise FileError(f"{path}: {error}; remove it, and it is worked out again") from None


def _kept(settings: SearchSettings, folder: Path) -> SearchResult | None:
    """What a folder holds of this search; ``RunError`` if it holds another one."""
    with RunStore.read(folder) as store:
        info, result = store.info(), store.result()
    now = versions_of(settings)
    is_same = (info.versions.estimator, info.versions.input_digests) == (now.estimator, now.input_digests)
    if info.settings != settings or not is_same:
        raise RunError(f"{folder}: holds a search of other settings or models; remove it, or name another folder")
    return result


def total_search_s(findings: Sequence[SettingFindings]) -> float:
    """Of all searches and baselines."""
    return math.fsum(
        sum(one.search_s for one in (found.common, *found.own.values()))
        + sum(one.search_s for one in found.comparison.baselines[:-1])
        for found in findings
    )
