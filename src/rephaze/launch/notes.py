"""What every launch file says about itself: the plan in a line, and what the framework cannot be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

from rephaze.types.full import DeviceOrder, PipelineSchedule, Sharding
from rephaze.types.launch import LaunchPlan, PlanSettings, Recomputing, Unsaid


@dataclass(slots=True)
class Notes:
    """What is not said, as it is found."""

    found: list[Unsaid] = field(default_factory=list)

    def cannot(self, name: str, text: str) -> None:
        """A setting that does not read back."""
        self.found.append(Unsaid(field=name, text=text))

    def know(self, text: str) -> None:
        """Something to know that is not about a setting."""
        self.found.append(Unsaid(field="", text=text))


def common_notes(launch: LaunchPlan, framework: str) -> Notes:
    """What no framework can be told: ragged batches, idle devices, stages that are no pieces of a line."""
    notes, own = Notes(), launch.settings
    samples = own.dp * own.microbatch
    if own.global_batch % samples:
        text = (
            f"the batch is {own.global_batch} samples, no multiple of dp x microbatch, {samples}: "
            f"{whole_batch(own)} is written"
        )
        notes.cannot("global_batch", text)
    if own.num_devices < launch.num_cluster_devices:
        notes.know(f"{own.num_devices} of the cluster's {launch.num_cluster_devices} devices are used")
    if own.stages is None and own.pp > 1:
        notes.cannot(
            "stages",
            f"the model is no line of equal blocks: {framework} has to be told its {own.pp} stages by hand",
        )
    return notes


def note_recompute(notes: Notes, launch: LaunchPlan, written: str) -> None:
    """Say so if the plan keeps some activations: frameworks have no such list of operators."""
    if launch.settings.recompute is Recomputing.SOME:
        notes.cannot("recompute", f"the plan keeps part of the activations, chosen by operator; {written}")


def note_zero_bubble(notes: Notes, launch: LaunchPlan, framework: str) -> None:
    """Say so if the schedule is zero-bubble: nearest to it, frameworks can be told 1F1B over the same stages."""
    if launch.settings.schedule is not PipelineSchedule.ZERO_BUBBLE:
        return
    factor = launch.one_f_one_b_factor
    cost = "" if factor is None else f", {factor - 1:+.1%} in batch time"
    text = (
        f"{framework} has no zero-bubble schedule (H1): the nearest plan it can be told is written, 1F1B over the "
        f"same stages, which needs no more memory{cost}; plans.schedule of a scenario leaves zero-bubble out"
    )
    notes.cannot("schedule", text)


def note_order(notes: Notes, own: PlanSettings, framework: str) -> None:
    """Say so if replicas are outermost, where a framework always puts stages."""
    if own.order is DeviceOrder.DP_OUTER:
        notes.cannot("order", f"{framework} puts stages outermost: the plan has replicas there (order dp-outer)")


def whole_batch(own: PlanSettings) -> int:
    """The global batch, filled up to whole microbatches of all replicas."""
    return own.num_microbatches * own.dp * own.microbatch


def nodes_of(launch: LaunchPlan) -> tuple[int, int]:
    """Nodes, and processes a node, that make up the devices in use."""
    per_node = gcd(launch.num_node_devices, launch.settings.num_devices)
    return launch.settings.num_devices // per_node, per_node


def heading(launch: LaunchPlan, notes: Notes, sources: tuple[str, ...]) -> list[str]:
    """Lines for the top of the file, each without a line break: names may hold anything."""
    own = launch.settings
    cut = "" if own.sharding is Sharding.NONE else f", {own.sharding} sharded over {own.shard_group}"
    lines = [
        f"rephaze: {one_line(launch.model)}, tp {own.tp} cp {own.cp} ep {own.ep} pp {own.pp} dp {own.dp}, "
        f"microbatch {own.microbatch}, {own.schedule}{cut}; {own.num_devices} devices"
    ]
    lines += [
        f"not said: {one_line(note.text)}" if note.field else f"note: {one_line(note.text)}"
        for note in notes.found
    ]
    return lines + [f"settings as in {source}" for source in sources]


def one_line(text: str) -> str:
    """The text without what would end a comment or command a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
