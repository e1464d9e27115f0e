"""The folder that is served: its runs by name, and no path that leads out of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from rephaze.api.runs import Run, open_run
from rephaze.errors import RephazeError, SpecError

REPORT_NAME = "report.html"
_NEW_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRow:
    """One run in the list."""

    name: str
    models: str
    scenario: str
    objective: str
    status: str
    value: float | None
    gap: float | None
    updated_at: str
    chip: str = ""
    plans: str = ""
    area_um2: float = 0.0


class RunFolder:
    """Runs are folders right below this one."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        if not self.root.is_dir():
            raise SpecError("FOLDER", str(root), "is no folder", "make it, or name another")

    def path(self, name: str) -> Path:
        """The folder of a run; ``SpecError`` if the name leads anywhere else, by dots, slashes or links."""
        found = (self.root / name).resolve() if name and "\0" not in name else self.root
        if found.parent != self.root or found.name != name:
            raise SpecError("run", name, "is no run of this folder")
        return found

    def new_path(self, name: str) -> Path:
        """The folder of a run to come."""
        if not _NEW_NAME.fullmatch(name):
            raise SpecError(
                "name", name, "must be letters, digits, dots, dashes, 64 at most", "for example gpt2-xl-1"
            )
        found = self.path(name)
        if found.exists():
            raise SpecError("name", name, "is there already", "choose another")
        return found

    def run(self, name: str) -> Run:
        """A recorded run; ``RephazeError`` if there is none of this name."""
        return open_run(self.path(name))

    def rows(self, words: str = "") -> list[RunRow]:
        """Every run that has all these words in its name, models, scenario or status; the latest first."""
        found = []
        for path in self.root.iterdir():
            try:
                row = self.row(path.name) if path.is_dir() else None
            except (RephazeError, OSError):
                continue  # something else lies here
            if row is not None:
                text = f"{row.name} {row.models} {row.scenario} {row.status}".lower()
                if all(word in text for word in words.lower().split()):
                    found.append(row)
        return sorted(found, key=lambda row: row.updated_at, reverse=True)

    def row(self, name: str) -> RunRow:
        """One run at a glance."""
        run = self.run(name)
        info, result = run.info, run.result
        has_answer = result is not None and result.chip is not None
        facts: dict[str, Any] = {}
        if result is not None and result.chip is not None:
            plans = (f"{one.model}: tp {one.tp}, dp {one.dp}, pp {one.pp}" for one in result.plans)
            facts = {"chip": result.chip.in_words, "plans": "; ".join(plans), "area_um2": result.area_um2}
        return RunRow(
            name=name,
            models=", ".join(info.settings.models),
            scenario=info.settings.scenario.name,
            objective=str(info.settings.objective),
            status="no answer yet" if result is None else str(result.status),
            value=result.objective if result is not None and has_answer else None,
            gap=result.gap if result is not None and has_answer else None,
            updated_at=info.updated_at,
            **facts,
        )

    def progress(self, name: str) -> dict[str, Any]:
        """How best and bound moved, as plain data; infinities as null."""
        run = self.run(name)
        points = [
            [one.elapsed_s, *(value if isfinite(value) else None for value in (one.objective, one.bound))]
            for one in run.incumbents
        ]
        result = run.result
        return {"points": points, "status": "no answer yet" if result is None else str(result.status)}
