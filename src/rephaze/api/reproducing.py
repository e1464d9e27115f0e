"""Published claims beside our figures, through the door."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rephaze.api.present import Block, Shown, TextTable
from rephaze.types.checks import check_choice
from rephaze.types.output_files import MARKDOWN_PAGE, check_folder, check_output, write_whole
from rephaze.types.reproduction import PaperReproduction

if TYPE_CHECKING:
    from rephaze.study.comparison import OnStep as OnStep

PAPER_TIME_LIMIT_S = 1560.0
"""For everything behind the paper's claims: half an hour with two processes, and room for what cannot be cut."""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ReproducedPaper(Shown):
    """The paper's claims in every setting, and the page that tells of them."""

    found: PaperReproduction
    page: Path

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "source": self.found.claims.source,
            "page": str(self.page),
            "search_s": self.found.search_s,
            "settings": [
                {
                    "name": one.name,
                    "status": str(one.common.status),
                    "gap": one.common.gap if math.isfinite(one.common.gap) else None,
                    "chip": asdict(one.common.chip) if one.common.chip else None,
                    "area_um2": one.common.area_um2,
                    "samples_per_s": {plan.model: plan.samples_per_s for plan in one.common.plans},
                    "own_status": {model: str(result.status) for model, result in one.own.items()},
                    "claims": [asdict(check) for check in self.found.checks[one.name]],
                }
                for one in self.found.settings
            ],
        }

    def blocks(self) -> Sequence[Block]:
        """Every claim, setting by setting."""
        verdicts = {True: "holds", False: "does not hold", None: ""}
        rows = tuple(
            (one.name, check.claim, check.published, check.found, verdicts[check.holds])
            for one in self.found.settings
            for check in self.found.checks[one.name]
        )
        headings = ("setting", "claim", "published", "found", "")
        table = TextTable(headings=headings, rows=rows, left=frozenset(headings))
        return [f"the paper's claims; page in {self.page}", table]


def reproduce_paper(
    folder: str | Path,
    page: str | Path,
    *,
    models: Sequence[str] = (),
    settings: Sequence[str] = (),
    num_workers: int = 2,
    time_limit_s: float = PAPER_TIME_LIMIT_S,
    on_step: OnStep = lambda _step, _progress: None,
) -> ReproducedPaper:
    """The paper's claims beside what we find, written as a page.

    Args:
        folder: Where the searches are kept: what is proven there is not searched again, the rest goes on.
        page: Markdown file to write.
        models: Zoo names; the paper's nine unless given.
        settings: Names of settings: ``paper``, ``paper, mixed units``, ``default, gpt2-xl``, ``default``,
            ``calibrated, gpt2-xl``, ``calibrated``; all unless given.
        num_workers: Processes of each search.
        time_limit_s: For all settings together, each a part of what is left; searches it cuts have a gap.
        on_step: Told what begins, and how far a search is.
    """
    from rephaze.report.paper_page import paper_page
    from rephaze.study.paper_claims import reproduce_paper as reproduced
    from rephaze.study.paper_runs import PAPER_SETTINGS
    from rephaze.workload.zoo import ZOO_NAMES

    for name in models:
        check_choice("model", name, ZOO_NAMES)
    for name in settings:
        check_choice("setting", name, [one.name for one in PAPER_SETTINGS])
    check_output(Path(page), MARKDOWN_PAGE)
    check_folder(Path(folder))
    found = reproduced(
        Path(folder),
        models=models,
        settings=[one for one in PAPER_SETTINGS if one.name in settings or not settings],
        num_workers=num_workers,
        time_limit_s=time_limit_s,
        on_step=on_step,
    )
    write_whole(Path(page), paper_page(found), MARKDOWN_PAGE)
    return ReproducedPaper(found=found, page=Path(page))
