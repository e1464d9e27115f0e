"""One layer's scheduling problem and its answer, in whole clock cycles."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rephaze.errors import SpecError
from rephaze.types.checks import check_count, check_number
from rephaze.types.latency import IMPOSSIBLE_CYCLES, Engine

MAX_CYCLES = 2**48
"""Longest operator a problem may hold: sums over thousands of operators still fit 64 bits."""


class Mode(StrEnum):
    """How an operator runs."""

    ONE_CORE = "one_core"
    ALL_CORES = "all_cores"


class Exclusion(StrEnum):
    """What an all-cores operator keeps from running beside it."""

    CHIP = "chip"
    """Everything (the paper's rule)."""
    ENGINE = "engine"
    """Other users of its own engine: not the other engine, nor the link."""


class ScheduleStatus(StrEnum):
    """What is known about a schedule."""

    OPTIMAL = "optimal"
    """Its makespan equals a proven lower bound."""
    FEASIBLE = "feasible"
    """Valid, with a lower bound below it."""
    INFEASIBLE = "infeasible"
    """Some operator can run in no mode."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleOp:
    """One operator: its engine and, for each mode, duration, bandwidth shares and energy.

    A mode of ``IMPOSSIBLE_CYCLES`` cannot be chosen. Shares are the parts of the chip's bandwidth the
    operator needs while it runs.
    """

    name: str
    engine: Engine
    one_core_cycles: int
    all_cores_cycles: int
    one_core_hbm_share: float = 0.0
    all_cores_hbm_share: float = 0.0
    one_core_buffer_share: float = 0.0
    all_cores_buffer_share: float = 0.0
    one_core_j: float = 0.0
    all_cores_j: float = 0.0

    def __post_init__(self) -> None:
        for mode in Mode:
            field = f"{mode}_cycles"
            cycles = getattr(self, field)
            if cycles != IMPOSSIBLE_CYCLES:
                check_count(f"op {self.name!r}: {field}", cycles, at_least=0, at_most=MAX_CYCLES)
            if self.engine is Engine.NONE and cycles != 0:
                raise SpecError(
                    f"op {self.name!r}: {field}",
                    cycles,
                    "must be 0 for core none",
                    "a view takes no time; name the engine it runs on if it does",
                )
            for resource in ("hbm", "buffer"):
                share = f"{mode}_{resource}_share"
                check_number(f"op {self.name!r}: {share}", getattr(self, share), at_most=1.0)
            check_number(f"op {self.name!r}: {mode}_j", getattr(self, f"{mode}_j"))

    @property
    def is_possible(self) -> bool:
        """Whether at least one mode can run."""
        return min(self.one_core_cycles, self.all_cores_cycles) < IMPOSSIBLE_CYCLES


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleProblem:
    """The operators of one layer in one direction, what precedes what, and the cores they share."""

    num_tensor_cores: int
    num_vector_cores: int
    ops: tuple[ScheduleOp, ...]
    edges: tuple[tuple[int, int], ...]
    """Pairs (producer, consumer) of positions in ``ops``, in any order; they must form no cycle."""
    all_cores_excludes: Exclusion = Exclusion.CHIP

    def __post_init__(self) -> None:
        check_count("num_tensor_cores", self.num_tensor_cores, at_most=2**20)
        check_count("num_vector_cores", self.num_vector_cores, at_most=2**20)
        seen: set[str] = set()
        for op in self.ops:
            if op.name in seen:
                raise SpecError("op name", op.name, "is used twice", "give every op a name of its own")
            seen.add(op.name)
        for edge in self.edges:
            for end in edge:
                if not 0 <= end < len(self.ops):
                    raise SpecError("edge", edge, f"must hold positions of the {len(self.ops)} ops")


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduledOp:
    """When and how one operator runs."""

    op: str
    start_cycles: int
    mode: Mode


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """An answer: a schedule if there is one, and what is proven about it."""

    status: ScheduleStatus
    makespan_cycles: int
    bound_cycles: int
    """No schedule is shorter than this."""
    starts: tuple[ScheduledOp, ...]
    solve_s: float
    reason: str = ""
    """Why nothing is feasible; empty otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PassSchedule:
    """One pass of one layer of a model, as a plan runs it on its chip."""

    model: str
    layer: str
    """Name of the layer type."""
    direction: str
    """``forward`` or ``backward``."""
    num_layers: int
    """How many layers of the model are of this type."""
    tp: int
    microbatch: int
    clock_hz: float
    problem: ScheduleProblem
    schedule: Schedule


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleUsage:
    """How a schedule uses the chip: shares of the cores held and of time the link is busy, and energy."""

    tensor_peak_utilization: float
    tensor_mean_utilization: float
    vector_peak_utilization: float
    vector_mean_utilization: float
    link_mean_utilization: float
    energy_j: float
    """Of the operators in their chosen modes; leakage is not in it."""
