"""A model's operators on a chip, through the door; and GEMM problem files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rephaze.api.chips import as_chip
from rephaze.api.models import MAX_COUNT, as_kernels
from rephaze.api.present import Block, Shown
from rephaze.api.problem_files import BadProblem, answer_all
from rephaze.api.spaces import as_scenario
from rephaze.types.checks import check_count
from rephaze.types.chip import Chip
from rephaze.types.graph import ModelGraph
from rephaze.types.operator_estimate import OperatorEstimate
from rephaze.types.scenario import Scenario


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Estimate(Shown):
    """Time and energy of every operator of a model on a chip, each on all cores of its engine."""

    model: str
    chip: Chip
    microbatch: int
    tp: int
    operators: tuple[OperatorEstimate, ...]

    @property
    def total_s(self) -> float:
        """Of a microbatch, forward and backward, one operator after the other."""
        return sum(one.time_s * one.num_times for one in self.operators)

    @property
    def energy_per_sample_j(self) -> float:
        """Of all operators."""
        return sum(one.energy_j * one.num_times for one in self.operators) / self.microbatch

    @property
    def num_flops(self) -> float:
        """Done by the arrays for a microbatch."""
        return sum(one.num_flops * one.num_times for one in self.operators)

    @property
    def num_model_flops(self) -> int:
        """By the usual convention, which counts all of a causal square."""
        return sum(one.num_model_flops * one.num_times for one in self.operators)

    @property
    def bound_shares(self) -> dict[str, float]:
        """The part of the time that each resource binds, largest first."""
        found: dict[str, float] = {}
        for one in self.operators:
            found[one.bound_by] = found.get(one.bound_by, 0.0) + one.time_share
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def write_roofline(self, path: str | Path) -> Path:
        """Write the roofline as a page that opens without a network, and return its path."""
        from rephaze.report.roofline import write_roofline

        title = f"{self.model} on {self.chip.name}, microbatch {self.microbatch}"
        return write_roofline(Path(path), title, self.chip, self.operators)

    def blocks(self) -> Sequence[Block]:
        """Headline and operators."""
        from rephaze.api.views import estimate_blocks

        return estimate_blocks(self)


def estimate_model(
    model: str | Path | ModelGraph,
    chip: str | Path | Chip,
    *,
    microbatch: int = 1,
    tp: int = 1,
    attention: str = "fused",
    cost_model: str = "default",
    scenario: str | Path | Scenario = "default",
) -> Estimate:
    """Time, energy and what binds of every operator of a model on a chip.

    Example:
        >>> import rephaze
        >>> found = rephaze.estimate_model("gpt2-xl", "tpuv4", microbatch=4)
        >>> found.total_s > 0 and next(iter(found.bound_shares))
        'array'

    Args:
        model: A name of ``list_models``, a graph file, or a graph.
        chip: A name of ``list_chips``, a chip file, or a chip.
        microbatch: Samples at once.
        tp: Tensor-parallel degree; a graph that was loaded at another one keeps it.
        attention: For models that ship: ``fused`` or ``eager``.
        cost_model: ``default`` or ``paper``.
        scenario: Whose network the collectives run over.
    """
    check_count("microbatch", microbatch, at_most=MAX_COUNT)
    check_count("tp", tp, at_most=MAX_COUNT)
    setting = as_scenario(scenario)
    from rephaze.hardware.derating import chip_at

    chosen = chip_at(as_chip(chip), setting)
    graph = as_kernels(model, tp, attention)
    from rephaze.measure.operators import estimate_operators

    found = estimate_operators(graph, chosen, microbatch, setting.cluster, cost_model)
    return Estimate(model=graph.name, chip=chosen, microbatch=microbatch, tp=graph.tp, operators=tuple(found))


@dataclass(frozen=True, kw_only=True, slots=True)
class GemmAnswer:
    """The best mapping of one GEMM, or why there is none."""

    fields: dict[str, Any]

    @property
    def status(self) -> str:
        """``optimal`` or ``infeasible``."""
        return str(self.fields["status"])

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return self.fields


def map_gemms(paths: Sequence[str | Path]) -> Iterator[tuple[str, GemmAnswer | BadProblem]]:
    """The best mapping of every GEMM in problem files (``rephaze.gemm-problem/1``), each with its label."""
    from rephaze.estimate.problem_file import answer_gemm_problem

    return answer_all(paths, lambda _label, data: GemmAnswer(fields=answer_gemm_problem(data)))
