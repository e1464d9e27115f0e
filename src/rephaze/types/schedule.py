"""One layer's scheduling problem and its answer, in whole clock cycles."""

from __future__ import annotations

from collections.abc import Sequence
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


MOST_J = 1e24
"""Of an operator: sums of them stay finite."""
MAX_FURTHER = 6
"""Ways to run an operator beyond the two that every one has."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """One way to run an operator: on how many cores, how long, with which parts of the bandwidths."""

    mode: Mode
    cycles: int
    hbm_share: float = 0.0
    buffer_share: float = 0.0
    energy_j: float = 0.0


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
    further: tuple[Way, ...] = ()
    """Other ways to run it, such as slower ones that hold less bandwidth."""

    def __post_init__(self) -> None:
        self._check_further()
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
            check_number(f"op {self.name!r}: {mode}_j", getattr(self, f"{mode}_j"), at_most=MOST_J)

    def _check_further(self) -> None:
        if len(self.further) > MAX_FURTHER:
            rule = f"must list at most {MAX_FURTHER} further ways"
            raise SpecError(f"op {self.name!r}: further", len(self.further), rule)
        for at, way in enumerate(self.further):
            where = f"op {self.name!r}: further[{at}]"
            if way.cycles != IMPOSSIBLE_CYCLES:
                check_count(f"{where}.cycles", way.cycles, at_least=0, at_most=MAX_CYCLES)
            if self.engine is Engine.NONE and way.cycles != 0:
                raise SpecError(f"{where}.cycles", way.cycles, "must be 0 for core none")
            check_number(f"{where}.hbm_share", way.hbm_share, at_most=1.0)
            check_number(f"{where}.buffer_share", way.buffer_share, at_most=1.0)
            check_number(f"{where}.energy_j", way.energy_j, at_most=MOST_J)

    @property
    def ways(self) -> tuple[Way, ...]:
        """Every way to run it: on one core, on all, then the further ones."""
        one = Way(
            mode=Mode.ONE_CORE,
            cycles=self.one_core_cycles,
            hbm_share=self.one_core_hbm_share,
            buffer_share=self.one_core_buffer_share,
            energy_j=self.one_core_j,
        )
        every = Way(
            mode=Mode.ALL_CORES,
            cycles=self.all_cores_cycles,
            hbm_share=self.all_cores_hbm_share,
            buffer_share=self.all_cores_buffer_share,
            energy_j=self.all_cores_j,
        )
        return (one, every, *self.further)

    @property
    def is_possible(self) -> bool:
        """Whether at least one way can run."""
        return min(way.cycles for way in self.ways) < IMPOSSIBLE_CYCLES


def operator_of(name: str, engine: Engine, ways: Sequence[Way]) -> ScheduleOp:
    """The operator with these ways to run: on one core, on all, then further ones."""
    one, every, *further = ways
    return ScheduleOp(
        name=name,
        engine=engine,
        one_core_cycles=one.cycles,
        all_cores_cycles=every.cycles,
        one_core_hbm_share=one.hbm_share,
        all_cores_hbm_share=every.hbm_share,
        one_core_buffer_share=one.buffer_share,
        all_cores_buffer_share=every.buffer_share,
        one_core_j=one.energy_j,
        all_cores_j=every.energy_j,
        further=tuple(further),
    )


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
    further: int | None = None
    """Which of the operator's further ways; None for the mode itself."""

    def way_of(self, op: ScheduleOp) -> Way:
        """How that operator runs."""
        if self.further is not None:
            return op.further[self.further]
        return op.ways[list(Mode).index(self.mode)]


def scheduled(op: ScheduleOp, start_cycles: int, way: int) -> ScheduledOp:
    """The operator begun then, in that of its ways."""
    further = way - len(Mode)
    return ScheduledOp(
        op=op.name,
        start_cycles=start_cycles,
        mode=op.ways[way].mode,
        further=further if further >= 0 else None,
    )


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
