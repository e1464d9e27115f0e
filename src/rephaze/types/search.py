"""What a search takes and gives: settings, evaluations of designs, the answer and its certificate."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum

from rephaze.types.added_later import ADDED_LATER
from rephaze.types.chip import Chip
from rephaze.types.full import DeviceOrder, FullPlan, FullStage, PipelineSchedule, Sharding
from rephaze.types.scenario import Scenario
from rephaze.types.system import ChosenSystem, ClusterBudget, SystemSpace


class Objective(StrEnum):
    """What is maximised."""

    THROUGHPUT = "throughput"
    """Samples a second of the whole cluster."""
    PER_AREA = "per-area"
    """... per square millimetre of all its chips."""
    PER_WATT = "per-watt"
    """... per watt drawn: samples per joule."""
    PER_USD = "per-usd"
    """... per US dollar of chips and memory."""


class Aggregate(StrEnum):
    """How several models' objectives become one."""

    GEOMEAN = "geomean"
    MEAN = "mean"
    WORST = "worst"


class SearchStatus(StrEnum):
    """How far an answer is proven."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    """Proven: no design of the space has a plan for every model."""
    UNKNOWN = "unknown"
    """Stopped before a plan was found: nothing is proven but the bound."""


class SearchMethod(StrEnum):
    """How a space is gone through."""

    AUTO = "auto"
    """By boxes where the space is large and its physics allows it, else as a list."""
    BOXES = "boxes"
    """By ranges of every field, none of which is enumerated."""
    LIST = "list"
    """Every design has a bound of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchSettings:
    """A search, fully resolved: two runs with equal settings give the same answer."""

    models: tuple[str, ...]
    """Zoo names or graph files."""
    weights: tuple[float, ...]
    """One a model, normalised by the aggregate."""
    scenario: Scenario
    objective: Objective
    aggregate: Aggregate
    seed: int
    exhaustive: bool
    """Solve every design exactly: to check the pruning on small spaces."""
    method: SearchMethod = field(default=SearchMethod.AUTO, metadata=ADDED_LATER)
    systems: SystemSpace = field(default_factory=SystemSpace, metadata=ADDED_LATER)
    """Systems to choose from; where no field has values the scenario's is the only one."""
    budget: ClusterBudget = field(default_factory=ClusterBudget, metadata=ADDED_LATER)
    """What the cluster may take."""

    @property
    def has_systems(self) -> bool:
        """Whether the system is part of the search: chosen, or held to a budget."""
        return self.systems != SystemSpace() or self.budget.is_limited


@dataclass(frozen=True, kw_only=True, slots=True)
class StagePlan:
    """One pipeline stage of a plan."""

    first_layer: str
    last_layer: str
    num_layers: int
    num_devices: int
    load_s: float
    memory_bytes: float
    recompute: str
    """A mode; under cost model ``full`` what is kept, in words."""
    keep: int = field(default=0, metadata=ADDED_LATER)
    """Under cost model ``full``: the position in its layers' lists of what to keep."""
    layers: tuple[int, ...] = field(default=(), metadata=ADDED_LATER)
    """Under cost model ``full``: positions of its layers in the model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelPlan:
    """How one model is trained on a cluster of one chip, at its best."""

    model: str
    samples_per_s: float
    batch_s: float
    tp: int
    dp: int
    pp: int
    microbatch: int
    recompute: str
    hbm_bytes: int
    """Memory a chip needs to have: the smallest option the plan fits."""
    energy_per_sample_j: float
    stages: tuple[StagePlan, ...]
    """Stage by stage; of an interleaved plan chunk by chunk."""
    sp: bool = field(default=False, metadata=ADDED_LATER)
    cp: int = field(default=1, metadata=ADDED_LATER)
    ep: int = field(default=1, metadata=ADDED_LATER)
    etp: int = field(default=1, metadata=ADDED_LATER)
    order: DeviceOrder = field(default=DeviceOrder.DP_OUTER, metadata=ADDED_LATER)
    sharding: Sharding = field(default=Sharding.NONE, metadata=ADDED_LATER)
    shard_group: int = field(default=1, metadata=ADDED_LATER)
    reshard: bool = field(default=False, metadata=ADDED_LATER)
    schedule: PipelineSchedule = field(default=PipelineSchedule.ONE_F_ONE_B, metadata=ADDED_LATER)
    chunks: int = field(default=1, metadata=ADDED_LATER)

    @property
    def choices(self) -> str:
        """What it chose beyond tp, dp, pp, microbatch and replay, in words; empty if nothing."""
        parts = ["sp"] if self.sp else []
        parts += [f"{name} {value}" for name, value in (("cp", self.cp), ("ep", self.ep)) if value > 1]
        if self.sharding is not Sharding.NONE:
            again = ", gathered for every pass" if self.reshard else ""
            parts.append(f"{self.sharding} sharded over {self.shard_group}{again}")
        if self.chunks > 1:
            parts.append(f"{self.schedule} with {self.chunks} chunks a device")
        elif self.schedule is not PipelineSchedule.ONE_F_ONE_B:
            parts.append(str(self.schedule))
        if self.order is not DeviceOrder.DP_OUTER and self.dp > 1 and self.pp > 1:
            parts.append(str(self.order))
        return ", ".join(parts)

    @property
    def full_plan(self) -> FullPlan:
        """Its decisions under cost model ``full``."""
        names = [one.name for one in fields(FullPlan) if one.name != "stages"]
        stages = tuple(FullStage(layers=stage.layers, keep=stage.keep) for stage in self.stages)
        return FullPlan(**{name: getattr(self, name) for name in names}, stages=stages)

    @property
    def num_devices(self) -> int:
        """In use; under cost models other than ``full`` layers that are not sharded leave some idle."""
        return self.dp * self.pp * self.tp * self.cp


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """What is known of one design after it was solved exactly, or dropped while it was being solved."""

    design: int
    """Position in the enumerated space."""
    is_exact: bool
    """False: dropped, since ``bound`` no longer beat the incumbent."""
    objective: float
    """The design's objective if exact, else minus infinity; minus infinity too if nothing fits."""
    bound: float
    """No plan of this design does better; equals ``objective`` if exact and every schedule was proven."""
    plans: tuple[ModelPlan, ...]
    """One a model if exact and feasible, else empty."""
    dropped_by: str = ""
    """The bound that dropped it, if one did."""
    reason: str = ""
    """Why nothing fits, if nothing does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsettled:
    """A design whose evaluation was cut by the clock: neither solved nor dropped, to be solved again."""

    design: int
    bound: float
    """No plan of this design does better."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Certificate:
    """The proof in numbers: every design of the space is accounted for once."""

    num_designs: int
    num_solved_exactly: int
    num_dropped_by_bound: dict[str, int]
    """Designs each bound removed, cheapest bound first: while they were being solved, or, of those never taken up,
    the first of their bounds below the answer."""
    num_infeasible: int
    num_within: dict[str, tuple[int, int]]
    """Designs within 0.1, 1 and 5 % of the best: at least, at most (unsolved ones count by bound).

    Before there is a best it may be any design that a bound does not call infeasible."""
    binding: str
    """What holds the winner back: area, power, or which field of the space is at its end."""
    designs_scope: str = ""
    """Over which designs the proof ranges: the limits of the space. Empty in runs of older versions."""
    plans_scope: str = ""
    """Over which plans: degrees, microbatch sizes, recompute modes, the model of a batch's time."""
    num_unproven: int | None = None
    """Designs solved that might beat the answer, had all their schedules been proven; None in older runs."""
    num_open: int | None = None
    """Designs a search that was stopped left undecided; None in runs recorded before they were counted."""
    num_boxes: dict[str, int] | None = field(default=None, metadata=ADDED_LATER)
    """Of a search by boxes: how many each bound or limit closed. ``num_designs`` and the counts that add up to
    it are then of grid points, and what limits leave out is among what was dropped. None of a search by list."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchResult:
    """The answer of a search."""

    status: SearchStatus
    objective: float
    bound: float
    gap: float
    """(bound - objective) / objective; 0 when optimal."""
    design: int | None
    chip: Chip | None
    area_um2: float
    plans: tuple[ModelPlan, ...]
    certificate: Certificate
    reason: str
    search_s: float
    system: ChosenSystem | None = field(default=None, metadata=ADDED_LATER)
    """Where the system is part of the search."""
