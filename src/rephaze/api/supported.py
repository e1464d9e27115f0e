"""What is covered for a model or a chip: yes, no, or with which limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rephaze.api.present import Block, Shown, TextTable
from rephaze.errors import SpecError
from rephaze.types.checks import did_you_mean
from rephaze.types.files import is_file
from rephaze.types.graph import AttentionKind

if TYPE_CHECKING:
    from rephaze.api.chips import KnownChip
    from rephaze.types.chip import Chip
    from rephaze.types.graph import ModelGraph

YES, NO, LIMITED = "yes", "no", "limited"
UNCALIBRATED = "times of place, estimate and search are those of the data sheet: most are too low (docs/plans.md)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """One thing that is covered or not."""

    what: str
    answer: str
    """``yes``, ``no`` or ``limited``."""
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Support(Shown):
    """What is covered for a model or a chip."""

    name: str
    kind: str
    """``model`` or ``chip``."""
    coverage: tuple[Coverage, ...]

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @property
    def headline(self) -> str:
        """What it is about."""
        return f"{self.kind} {self.name}"

    @property
    def table(self) -> TextTable:
        """One row for each thing."""
        rows = tuple((one.what, one.answer, one.detail) for one in self.coverage)
        headings = ("what", "covered", "how far")
        return TextTable(headings=headings, rows=rows, left=frozenset(headings))

    def blocks(self) -> Sequence[Block]:
        """Headline and one row each."""
        return [self.headline, self.table]


def support(name: str | Path) -> Support:
    """What rephaze covers for a model or a chip: extraction, plan options, calibration, exports.

    Example:
        >>> import rephaze
        >>> covered = {one.what: one.answer for one in rephaze.support("t5-large").coverage}
        >>> covered["graph"], covered["expert parallelism"], covered["stage map exported"]
        ('yes', 'no', 'no')

    Args:
        name: A name of ``list_models`` or ``list_chips``, a graph file or a chip file.
    """
    from rephaze.api.chips import known_chips, load_chip
    from rephaze.api.models import list_models
    from rephaze.errors import RephazeError
    from rephaze.workload.zoo import load_model

    known = {one.name: one for one in known_chips()}
    text = str(name)
    if text.lower() in known:
        return _known_chip(known[text.lower()])
    if text in list_models() or text.endswith(".gz"):
        return _model(text, load_model(text), is_shipped=text in list_models())
    if not is_file(Path(text)):
        rule = "is neither a model, nor a chip, nor a file"
        near = did_you_mean(text.lower(), [*list_models(), *known])
        raise SpecError("MODEL|CHIP", text, rule, near or "rephaze models and rephaze chips list those there are")
    try:
        return _chip(text, load_chip(text))
    except RephazeError as not_a_chip:
        if text.endswith(".toml"):
            raise
        try:
            return _model(text, load_model(text), is_shipped=False)
        except RephazeError as not_a_model:
            raise SpecError(
                "MODEL|CHIP", text, f"is neither a graph file ({not_a_model}) nor a chip file ({not_a_chip})"
            ) from None


def _model(name: str, graph: ModelGraph, *, is_shipped: bool) -> Support:
    from rephaze.launch.line import layer_line

    kinds = list(graph.layer_type_of)
    is_block_l = [kinds.count(kind) > 1 for kind in kinds]
    is_line = layer_line(is_block_l, [1] * len(kinds)) is not None
    is_fused = graph.attention == AttentionKind.FUSED
    came = "ships with rephaze" if is_shipped else "read from the file"
    rows = [
        Coverage(
            what="graph",
            answer=YES if graph.is_training else LIMITED,
            detail=f"{came}: {len(kinds)} layers of {len(graph.layer_types)} types, {graph.attention} attention, "
            f"{graph.seq_len} tokens" + ("" if graph.is_training else "; no backward pass"),
        ),
        Coverage(
            what="tensor parallelism",
            answer=YES if len(graph.legal_tp) > 1 else NO,
            detail=f"legal tp: {', '.join(map(str, graph.legal_tp))}; with and without sp",
        ),
        Coverage(
            what="context parallelism",
            answer=YES if is_fused and len(graph.legal_cp) > 1 else NO,
            detail=f"legal cp: {_some(graph.legal_cp)}; ring, gather or Ulysses by layer"
            if is_fused
            else "attention is recorded operator by operator: extract it fused",
        ),
        Coverage(
            what="expert parallelism",
            answer=YES if graph.num_experts else NO,
            detail=f"legal ep: {_some(graph.legal_ep)} of {graph.num_experts} experts; balanced routing"
            if graph.num_experts
            else "it has no experts",
        ),
        Coverage(
            what="pipelines",
            answer=YES if is_line else LIMITED,
            detail="any cut, 1F1B, interleaved and zero-bubble, proven"
            if is_line
            else "its layers are no line of equal blocks: exact cuts over sets of layers, which take longer",
        ),
        Coverage(what="sharding", answer=YES, detail="optimizer state, gradients, weights (FSDP); HSDP groups"),
        Coverage(
            what="calibration",
            answer=LIMITED,
            detail=f"by chip, not by model: rephaze validate predicts measured runs; {UNCALIBRATED}",
        ),
    ]
    rows.append(
        Coverage(
            what="launch settings",
            answer=LIMITED,
            detail="megatron, torchtitan, deepspeed, maxtext, nemo; what one cannot be told is said in its file",
        )
    )
    rows.append(
        Coverage(
            what="stage map exported",
            answer=YES if is_line else NO,
            detail="megatron, nemo, torchtitan; equal stages to deepspeed and maxtext"
            if is_line
            else "frameworks take lines of blocks",
        )
    )
    rows.append(
        Coverage(what="traces", answer=YES, detail="perfetto, chrome-trace: pipeline and cores of the chip")
    )
    return Support(name=name, kind="model", coverage=tuple(rows))


def _some(values: Sequence[int]) -> str:
    return ", ".join(map(str, values[:8])) + (", ..." if len(values) > 8 else "")


def _known_chip(known: KnownChip) -> Support:
    grades = sorted({one.grade for one in known.values.values()})
    told = (
        f"{len(known.values)} values of grades {', '.join(grades)}; rephaze chips {known.name} shows every source"
    )
    if known.chip is None:
        lacking = ", ".join(known.blanks)
        row = Coverage(what="chip", answer=NO, detail=f"no source gives {lacking}: write a chip file with base")
        return Support(name=known.name, kind="chip", coverage=(row,))
    has_placeholder = "P" in grades
    row = Coverage(what="values", answer=LIMITED if has_placeholder else YES, detail=told)
    return _chip(known.name, known.chip, row)


def _chip(name: str, chip: Chip, values: Coverage | None = None) -> Support:
    first = values or Coverage(what="values", answer=YES, detail=f"as the file says: {chip.in_words}")
    rows = (
        first,
        Coverage(
            what="times of operators", answer=YES, detail="products mapped, vector operators, HBM, collectives"
        ),
        Coverage(what="schedules and plans", answer=YES, detail="estimate, schedule, place, judge"),
        Coverage(what="area", answer=LIMITED, detail="no control logic, no host interface"),
        Coverage(what="energy and cost", answer=LIMITED, detail="rephaze bill: every item with its grade"),
        _calibration(name),
        Coverage(
            what="export to timeloop",
            answer=LIMITED,
            detail="tensor cores and memories; vector cores are left out",
        ),
        Coverage(
            what="export to accelforge",
            answer=LIMITED,
            detail="with areas and energies; vector cores as one unit, no links",
        ),
    )
    return Support(name=name, kind="chip", coverage=rows)


def _calibration(name: str) -> Coverage:
    """Whether runs were measured on such a chip."""
    from rephaze.truth.machines import load_machines

    families = [
        machine.family
        for machine in load_machines().values()
        if name.lower() in [chip.lower() for chip in machine.chips]
    ]
    if not families:
        return Coverage(what="calibration", answer=NO, detail=f"no measured runs of it; {UNCALIBRATED}")
    told = f"constants of family {families[0]}, which rephaze validate uses; {UNCALIBRATED}"
    return Coverage(what="calibration", answer=LIMITED, detail=told)
