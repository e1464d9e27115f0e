"""A run with everything decided that it does not state, its layers written as operators."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rephaze.truth.layer_ops import LayerWriter
from rephaze.truth.layer_parts import LayerOps
from rephaze.truth.machines import Machine, find_machine
from rephaze.truth.op_table import OpTable
from rephaze.truth.records import MeasuredRun, ModelShape, RunPlan
from rephaze.truth.traits import Traits, traits_of


@dataclass(slots=True)
class Variant:
    """A run with everything decided, and its layers in a table of operators."""

    run: MeasuredRun
    plan: RunPlan
    machine: Machine
    traits: Traits
    embedding: LayerOps
    head: LayerOps
    kinds: list[LayerOps]
    blocks: list[int]
    """Kind of each block."""
    stages: list[list[int]]
    """Blocks of each stage or chunk."""
    chunks: int

    @property
    def segments(self) -> list[int]:
        """All passes of all its layers."""
        return [at for layer in (self.embedding, self.head, *self.kinds) for at in layer.segments]


def write_variants(run: MeasuredRun, table: OpTable) -> list[Variant]:
    """All ways to fill in what the run does not state, in a table; none where no machine is known."""
    machine = find_machine(run.chip, run.facts.get("network") or "")
    if machine is None:
        raise LookupError(f"no data of chip {run.chip}")
    if machine.is_tpu and run.plan.num_devices == 2 * int(float(run.facts.get("gpus", 0) or 0)):
        machine = machine.halved()
    plans = _decided(run)
    num_blocks = run.shape.num_blocks + run.shape.num_extra_blocks
    if num_blocks + 2 < run.plan.pp * (plans[0].chunks or 1):
        raise LookupError(f"{run.plan.pp * (plans[0].chunks or 1)} stages or chunks for {num_blocks} blocks")
    return [_variant(run, plan, machine, table) for plan in plans]


def _decided(run: MeasuredRun) -> list[RunPlan]:
    plan = run.plan
    per_replica = max(1, run.global_batch // plan.dp)
    sizes = [plan.microbatch] if plan.microbatch else [b for b in (1, 2, 4, 8) if per_replica % b == 0]
    found = []
    for size in sizes:
        count = max(1, per_replica // size)
        chunks = [plan.chunks] if plan.chunks else [1]
        if not plan.chunks and count % plan.pp == 0:
            blocks = run.shape.num_blocks
            most = (blocks + 2) // plan.pp
            chunks += [
                v for v in range(2, most + 1) if blocks % (plan.pp * v) == 0 or (blocks + 2) % (plan.pp * v) == 0
            ]
        found += [replace(plan, microbatch=size, chunks=v) for v in chunks]
    return found


def _variant(run: MeasuredRun, plan: RunPlan, machine: Machine, table: OpTable) -> Variant:
    traits = traits_of(run, machine)
    writer = LayerWriter(table, run.shape, plan, machine, traits, run.bits, run.is_fused)
    shape = run.shape
    total = shape.num_blocks + shape.num_extra_blocks
    dense = shape.experts.num_dense_blocks if shape.experts else total
    keys = []
    for at in range(total):
        if not shape.experts:
            is_mixture = False
        elif dense == shape.num_blocks // 2 and dense > 3:
            is_mixture = at % 2 == 1
        else:
            is_mixture = at >= dense
        is_windowed = at * shape.num_windowed_blocks // total != (at + 1) * shape.num_windowed_blocks // total
        is_replayed = plan.recompute != "alternate" or at % 2 == 0
        keys.append((is_mixture, is_windowed, is_replayed))
    names = sorted(set(keys))
    kinds = []
    for is_mixture, is_windowed, is_replayed in names:
        if plan.recompute == "alternate":
            writer.plan = replace(plan, recompute="full" if is_replayed else "none")
        kinds.append(writer.block(is_mixture=is_mixture, is_windowed=is_windowed))
    # Zero-bubble V has two chunks a device, but no stage before it waits for the second.
    chunks = 1 if plan.schedule.startswith("zb") else plan.chunks or 1
    return Variant(
        run=run,
        plan=plan,
        machine=machine,
        traits=traits,
        embedding=writer.embedding(),
        head=writer.head(),
        kinds=kinds,
        blocks=[names.index(key) for key in keys],
        stages=cut_by_work(shape, plan.pp) if traits.cuts_by_work else cut_blocks(total, plan.pp * chunks),
        chunks=chunks,
    )


def cut_blocks(num_blocks: int, num_stages: int) -> list[list[int]]:
    """Blocks of each stage: as even as may be, the last and then the first with fewer."""
    base, more = divmod(num_blocks, num_stages)
    sizes = [base] * num_stages
    order = [*range(1, num_stages - 1), 0, num_stages - 1]
    for at in order[:more]:
        sizes[at] += 1
    cut, start = [], 0
    for size in sizes:
        cut.append(list(range(start, start + size)))
        start += size
    return cut


def cut_by_work(shape: ModelShape, num_stages: int) -> list[list[int]]:
    """Blocks of each stage where a stage ends once its share of all weights, the head's among them, is reached."""
    block = shape.hidden * (4 * shape.heads * shape.head_dim + 3 * shape.ffn)
    head = shape.vocab * shape.hidden
    share = (shape.num_blocks * block + head) / num_stages
    cut: list[list[int]] = [[]]
    for at in range(shape.num_blocks):
        cut[-1].append(at)
        if (at + 1) * block > len(cut) * share and len(cut) < num_stages:
            cut.append([])
    return cut
