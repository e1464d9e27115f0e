"""A recorded run, through the door: its answer, page, verification, trade-offs and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rephaze.api.present import Block, Shown
from rephaze.api.search_results import BestDesign, Exploration, Tradeoffs, Verification, shown_as
from rephaze.errors import MissingExtraError, SpecError
from rephaze.types.checks import check_choice
from rephaze.types.launch import ExportTarget
from rephaze.types.run_record import Incumbent, RunInfo
from rephaze.types.search import SearchSettings
from rephaze.types.stopping import UNSTOPPED, StopSignal

if TYPE_CHECKING:
    import pandas as pd

    from rephaze.api.exports import Exported
    from rephaze.study.settle_budgets import BudgetProgress as BudgetProgress
    from rephaze.study.settle_budgets import OnBudget as OnBudget


def open_run(folder: str | Path) -> Run:
    """The run that a search recorded in a folder; it may still go on.

    Example:
        >>> import rephaze
        >>> space = {"num_tensor_cores": [8], "tensor_width": [128], "tensor_depth": [128], "num_hbm_stacks": [2]}
        >>> few = {"space": space, "training": {"microbatches": [1], "tp_degrees": [1]}}
        >>> _ = rephaze.explore("vit-large", scenario="coarse", changes=few, store="vit-run")
        >>> run = rephaze.open_run("vit-run")
        >>> run.best.chip.num_tensor_cores, run.result.status.value, run.export("designs.csv", table="designs")
        (8, 'optimal', 119)

    Args:
        folder: What ``explore`` was given as ``store``, or ``rephaze search`` as ``--out``.

    Raises:
        RunError: The folder holds no run.
    """
    from rephaze.store.run_store import RunStore

    with RunStore.read(Path(folder)):
        return Run(folder=Path(folder))


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Run(Shown):
    """A run in a folder. Everything is read when asked for, so that a search that goes on shows its latest."""

    folder: Path

    @property
    def info(self) -> RunInfo:
        """Settings, versions and when it ran."""
        from rephaze.store.run_store import RunStore

        with RunStore.read(self.folder) as store:
            return store.info()

    @property
    def settings(self) -> SearchSettings:
        """What is searched."""
        return self.info.settings

    @property
    def result(self) -> Exploration | None:
        """The answer with its certificate; None while there is none."""
        from rephaze.store.run_store import RunStore

        with RunStore.read(self.folder) as store:
            found = store.result()
            return None if found is None else shown_as(Exploration, found, settings=store.info().settings)

    @property
    def incumbents(self) -> tuple[Incumbent, ...]:
        """How the best answer and the bound moved, also while the search goes on."""
        from rephaze.store.run_store import RunStore

        with RunStore.read(self.folder) as store:
            return tuple(store.incumbents())

    @property
    def best(self) -> BestDesign | None:
        """The winning chip with its plans; None while there is no answer, or if nothing fits."""
        found = self.result
        if found is None or found.chip is None or found.design is None:
            return None
        return BestDesign(
            design=found.design,
            chip=found.chip,
            area_um2=found.area_um2,
            objective=found.objective,
            plans=found.plans,
        )

    def report(
        self,
        out: str | Path | None = None,
        *,
        known_chips_s: float = 0.0,
        stop: StopSignal = UNSTOPPED,
        on_step: Callable[[str], None] = lambda _doing: None,
    ) -> Path:
        """Write the run as one page that opens without a network, and return its path.

        Args:
            out: The page; None: ``report.html`` in the run's folder.
            known_chips_s: Time for measuring known chips that the run does not hold yet; it holds them then.
            stop: When the page must do with what is there.
            on_step: Told what is being done, where that takes time.
        """
        from rephaze.api.run_report import write_report

        return write_report(self.folder, None if out is None else Path(out), known_chips_s, stop, on_step)

    def verify(
        self,
        sample: int = 3,
        *,
        digest: str | None = None,
        on_step: Callable[[str], None] = lambda _doing: None,
    ) -> Verification:
        """Every claim of the run, derived again by slow, independent evaluators.

        Args:
            sample: Dropped designs to solve exactly, for each bound.
            digest: The run's last digest, or how it began, as it was noted elsewhere: no change at all passes it.
            on_step: Told what is being checked.
        """
        from rephaze.verify.run_check import verify_run

        checks = verify_run(self.folder, sample=sample, digest=digest, on_progress=on_step)
        return Verification(checks=tuple(checks))

    def pareto(
        self,
        *,
        coarse: bool = False,
        solve: bool = False,
        num_workers: int = 1,
        on_progress: OnBudget = lambda _progress: None,
    ) -> Tradeoffs:
        """The designs that nothing beats in throughput, area, energy and cost, and the best chip per area budget.

        Args:
            coarse: Prove rows by the cheapest bound only: quicker, fewer proven.
            solve: Solve designs until the best of every budget is proven; nothing is recorded.
            num_workers: Processes that solve.
            on_progress: Told how far that is.
        """
        from rephaze.store.run_store import RunStore
        from rephaze.study.pareto import front_of_run

        with RunStore.read(self.folder, whole=True) as store:
            front = front_of_run(
                store, finer=not coarse, solve=solve, num_workers=num_workers, on_progress=on_progress
            )
        return shown_as(Tradeoffs, front)

    def export(self, out: str | Path, *, table: str = "evaluations", file_format: str | None = None) -> int:
        """Write one table of the run to a CSV or Parquet file, and return its number of rows.

        Args:
            out: File to write; replaced if it is there.
            table: ``evaluations``, ``plans``, ``stages``, ``bounds``, ``designs``, ``boxes``, ``systems``
                or ``incumbents``.
            file_format: ``csv`` or ``parquet`` (extra ``[parquet]``); None: by the ending of the file's name.
        """
        from rephaze.store.export import FileFormat, export_table
        from rephaze.store.run_store import RunStore
        from rephaze.store.tables import TableName

        check_choice("table", table, list(TableName))
        chosen = FileFormat(export_format(Path(out), file_format))
        with RunStore.read(self.folder, whole=True) as store:
            return export_table(store, TableName(table), Path(out), chosen)

    def export_plan(self, to: str, out: str | Path | None = None, *, model: str | None = None) -> Exported:
        """The winner's plan as settings of a framework or as a trace, its chip, or the run as JSON.

        Args:
            to: As in ``rephaze.export_plan``, but for tables, which ``export`` writes.
            out: File to write; None: only give what would be written.
            model: Whose plan, where the run has several models.
        """
        from rephaze.api.run_exports import export_run
        from rephaze.store.run_store import RunStore

        check_choice("to", to, [str(one) for one in ExportTarget if not one.is_table])
        with RunStore.read(self.folder, whole=True):
            pass  # settings made from damaged or edited rows would be wrong ones
        found = export_run(self, ExportTarget(to), model)
        if out is not None:
            found.write(out)
        return found

    def to_dataframe(self, table: str = "evaluations") -> pd.DataFrame:
        """One table of the run as a pandas data frame (extra ``[dataframe]``); columns carry their units.

        Args:
            table: As in ``export``.
        """
        from rephaze.store.run_store import RunStore
        from rephaze.store.tables import TableName, flat_table

        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError(
                "data frames need pandas: pip install 'rephaze[dataframe]', or export as csv"
            ) from None
        check_choice("table", table, list(TableName))
        # Of pandas' types these can say that a cell is missing.
        kinds = {bool: "boolean", int: "Int64", float: "float64", str: "string"}
        with RunStore.read(self.folder, whole=True) as store:
            found = flat_table(store, TableName(table))
            rows = list(found.rows)
        columns = {
            column.name: pd.Series([row[k] for row in rows], dtype=kinds[column.kind])
            for k, column in enumerate(found.columns)
        }
        return pd.DataFrame(columns)

    def blocks(self) -> Sequence[Block]:
        """Where it is, what it searches and its answer."""
        from rephaze.api.search_views import run_blocks

        return run_blocks(self)


def export_format(out: Path, file_format: str | None = None) -> str:
    """The format to write a table in: as asked, or by the ending of the file's name."""
    from rephaze.store.export import FileFormat

    if file_format is not None:
        check_choice("file_format", file_format, list(FileFormat))
        return file_format
    ending = out.suffix.removeprefix(".").lower()
    if ending not in list(FileFormat):
        raise SpecError("out", str(out), "ends in neither .csv nor .parquet", "add --format csv or parquet")
    return ending
