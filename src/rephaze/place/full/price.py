"""The time and memory of a given plan, straight from the definitions of docs/plans.md, sections 3 and 4.

Written to be read beside the definitions: a check on the solver, and the report of its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rephaze.place.full.groups import Network, PlanGroups, groups_of
from rephaze.place.full.in_flight import kept_bytes
from rephaze.place.full.link import Passes, gathered_passes, hidden_before_compute, hidden_behind_compute
from rephaze.types.full import (
    DeviceMemory,
    FullGraph,
    FullPlan,
    FullPrice,
    FullProblem,
    FullStage,
    FullTime,
    PipelineSchedule,
    Sharding,
)


def price_full_plan(problem: FullProblem, graph: FullGraph, plan: FullPlan) -> FullPrice:
    """The plan with its time and memory, whether or not it fits; it must be legal."""
    pricer = _Pricer(problem, graph, plan)
    return FullPrice(
        plan=plan,
        time=pricer.time(),
        stage_load_s=tuple(passes.load_s for passes in pricer.passes),
        devices=tuple(pricer.memory(device) for device in pricer.devices),
        device_memory_bytes=problem.device_memory_bytes,
        num_cluster_devices=problem.cluster.num_devices,
    )


def full_plan_time(problem: FullProblem, graph: FullGraph, plan: FullPlan) -> FullTime:
    """The plan's time alone."""
    return _Pricer(problem, graph, plan).time()


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer of a stage: what it holds there, and its times at the stage's point of ``keep``."""

    position: int
    param_bytes: float
    """With a copy of tied weights, if it is the first there to need one."""
    expert_param_bytes: float
    forward_s: float
    input_backward_s: float
    weight_backward_s: float
    replay_s: float
    kept_bytes: float
    full_bytes: float
    working_bytes: float

    @property
    def backward_s(self) -> float:
        return self.input_backward_s + self.weight_backward_s


@dataclass(frozen=True, slots=True)
class _Device:
    """One device of a pipeline: its number, its chunks (one, unless interleaved)."""

    number: int
    chunks: tuple[int, ...]
    layers: tuple[_Layer, ...]
    """Of all chunks, in the file's order."""


class _Pricer:
    def __init__(self, problem: FullProblem, graph: FullGraph, plan: FullPlan) -> None:
        self.problem, self.graph, self.plan = problem, graph, plan
        self.network = Network(problem.cluster, plan.num_devices)
        self.groups: PlanGroups = groups_of(plan)
        self.count = -(-problem.num_microbatches(graph) // plan.dp)
        self.gradient_ratio = problem.precision.gradient_bytes / problem.precision.weight_bytes
        self.copied = self._copied_weights()
        self.stages = [self._layers(number, stage) for number, stage in enumerate(plan.stages)]
        self.passes = [self._passes(number) for number in range(len(plan.stages))]
        self.devices = [self._device(number) for number in range(plan.pp)]

    def _copied_weights(self) -> dict[tuple[int, int], float]:
        """Bytes of tied weights that layers hold a copy of, by (stage, layer)."""
        device_of = {v: at % self.plan.pp for at, stage in enumerate(self.plan.stages) for v in stage.layers}
        stage_of = {v: at for at, stage in enumerate(self.plan.stages) for v in stage.layers}
        copied: dict[tuple[int, int], float] = {}
        for tied in self.graph.tied:
            seen = {device_of[tied.layers[0]]}
            for v in sorted(tied.layers):
                if device_of[v] not in seen:
                    seen.add(device_of[v])
                    copied[stage_of[v], v] = copied.get((stage_of[v], v), 0.0) + tied.param_bytes
        return copied

    def _layers(self, number: int, stage: FullStage) -> tuple[_Layer, ...]:
        found = []
        for v in stage.layers:
            layer = self.graph.layers[v]
            point = layer.keep[min(stage.keep, len(layer.keep) - 1)]
            weight_backward_s = layer.weight_backward_s or 0.0
            found.append(
                _Layer(
                    position=v,
                    param_bytes=layer.param_bytes + self.copied.get((number, v), 0.0),
                    expert_param_bytes=layer.expert_param_bytes,
                    forward_s=layer.forward_s,
                    input_backward_s=layer.backward_s - weight_backward_s,
                    weight_backward_s=weight_backward_s,
                    replay_s=point.replay_s,
                    kept_bytes=point.kept_bytes,
                    full_bytes=layer.keep[0].kept_bytes,
                    working_bytes=layer.working_bytes,
                )
            )
        return tuple(found)

    def _device(self, number: int) -> _Device:
        chunks = tuple(range(number, len(self.stages), self.plan.pp))
        layers = sorted((layer for at in chunks for layer in self.stages[at]), key=lambda layer: layer.position)
        return _Device(number, chunks, tuple(layers))

    # Passes

    def _passes(self, number: int) -> Passes:
        layers = self.stages[number]
        inside = {layer.position for layer in layers}
        comes_s, returns_s = self._message_s(inside, entering=True), self._message_s(inside, entering=False)
        if not self.plan.is_gathering:
            return Passes(
                forward_s=comes_s + sum(layer.forward_s for layer in layers),
                backward_s=returns_s + sum(layer.replay_s + layer.backward_s for layer in layers),
                tail_s=0.0,
                input_backward_s=returns_s + sum(layer.replay_s + layer.input_backward_s for layer in layers),
            )
        found = gathered_passes(
            [layer.forward_s for layer in layers],
            [layer.replay_s + layer.backward_s for layer in layers],
            [self._gather_s(layer) for layer in layers],
            [self._scatter_s(layer) for layer in layers],
        )
        return Passes(
            forward_s=comes_s + found.forward_s,
            backward_s=returns_s + found.backward_s,
            tail_s=found.tail_s,
            input_backward_s=0.0,
        )

    def _message_s(self, inside: set[int], *, entering: bool) -> float:
        """One message with all that comes into a stage, or with the gradients of all that left it."""
        largest: dict[int, float] = {}
        for link in self.graph.links:
            crosses = link.dst in inside and link.src not in inside
            if not entering:
                crosses = link.src in inside and link.dst not in inside
            if crosses:
                largest[link.src] = max(largest.get(link.src, 0.0), link.payload_bytes)
        return self.network.message_s(sum(largest.values()), self.groups.stages)

    # Collectives of a layer

    def _gather_s(self, layer: _Layer) -> float:
        """All-gather of its weights over the shard group; of its experts' over all their replicas."""
        network, groups = self.network, self.groups
        own_s = network.reduce_scatter_s(layer.param_bytes, groups.shards)
        return own_s + network.reduce_scatter_s(layer.expert_param_bytes, groups.expert_replicas)

    def _scatter_s(self, layer: _Layer) -> float:
        """Reduce-scatter of its gradients over the shard group; of its experts' over all their replicas."""
        network, groups, ratio = self.network, self.groups, self.gradient_ratio
        own_s = network.reduce_scatter_s(ratio * layer.param_bytes, groups.shards)
        return own_s + network.reduce_scatter_s(ratio * layer.expert_param_bytes, groups.expert_replicas)

    def _copies_s(self, layer: _Layer) -> float:
        """All-reduce of a shard's gradients over its copies; experts have none."""
        shard_bytes = self.gradient_ratio * layer.param_bytes / self.plan.shard_group
        return self.network.all_reduce_s(shard_bytes, self.groups.copies)

    def _sync_s(self, layer: _Layer) -> float:
        """What sums the layer's gradients once a batch."""
        if self.plan.sharding is not Sharding.NONE:
            return self._scatter_s(layer) + self._copies_s(layer)
        network, groups, ratio = self.network, self.groups, self.gradient_ratio
        own_s = network.all_reduce_s(ratio * layer.param_bytes, groups.gradients)
        return own_s + network.all_reduce_s(ratio * layer.expert_param_bytes, groups.expert_replicas)

    # Time

    def time(self) -> FullTime:
        sync = [self._device_sync_s(device) for device in self.devices]
        regather = [self._device_regather_s(device) for device in self.devices]
        sync_s, regather_s = max(sync), max(regather)
        if self.plan.schedule is not PipelineSchedule.ONE_F_ONE_B:
            # Devices that are not the slowest have time to spare for both.
            own = [self._device_own_s(device) for device in self.devices]
            spare = [max(own) - mine for mine in own]
            late = [s + g - free for s, g, free in zip(sync, regather, spare, strict=True)]
            sync_s, regather_s = max(0.0, *late), 0.0
        return FullTime(
            pipe_s=self._pipe_s(),
            sync_s=sync_s,
            tied_s=self._tied_s(),
            step_s=max(self._device_step_s(device) for device in self.devices),
            regather_s=regather_s,
        )

    def _device_own_s(self, device: _Device) -> float:
        return sum(self.passes[at].load_s + self.passes[at].tail_s for at in device.chunks)

    def _pipe_s(self) -> float:
        passes, count, pp = self.passes, self.count, self.plan.pp
        if self.plan.schedule is PipelineSchedule.ONE_F_ONE_B:
            slowest_s = max(one.load_s + one.tail_s for one in passes)
            return sum(one.load_s for one in passes) + (count - 1) * slowest_s
        if self.plan.schedule is PipelineSchedule.INTERLEAVED:
            slowest_s = max(self._device_own_s(device) for device in self.devices)
            return count * slowest_s + (pp - 1) * max(one.load_s for one in passes)
        slowest_s = max(one.load_s for one in passes)
        input_s = max(one.input_backward_s for one in passes)
        ahead_s = max(one.forward_s + one.input_backward_s for one in passes)
        forward_s = max(one.forward_s for one in passes)
        steady = min(pp - 1, count - 1)
        return count * slowest_s + max(
            (pp - 1) * ahead_s - steady * (slowest_s - ahead_s),
            (pp - 1 - steady) * ahead_s + steady * input_s,
            (pp - 1) * forward_s + (pp - 1 - steady) * input_s,
        )

    def _device_sync_s(self, device: _Device) -> float:
        if self.plan.is_gathering:
            tail_s = 0.0
            if self.plan.schedule is not PipelineSchedule.INTERLEAVED:
                tail_s = self.passes[device.number].tail_s
            return tail_s + sum(self._copies_s(layer) for layer in device.layers)
        each_s = [self._sync_s(layer) for layer in device.layers]
        if not self.problem.options.overlap:
            return sum(each_s)
        if self.plan.schedule is PipelineSchedule.ZERO_BUBBLE:
            compute_s = [layer.weight_backward_s for layer in device.layers]
        else:
            compute_s = [layer.replay_s + layer.backward_s for layer in device.layers]
        return hidden_behind_compute(compute_s[::-1], each_s[::-1])

    def _device_regather_s(self, device: _Device) -> float:
        if self.plan.sharding is Sharding.NONE or self.plan.is_gathering:
            return 0.0
        each_s = [self._gather_s(layer) for layer in device.layers]
        if not self.problem.options.overlap:
            return sum(each_s)
        return hidden_before_compute([layer.forward_s for layer in device.layers], each_s)

    def _device_step_s(self, device: _Device) -> float:
        if not self.problem.hbm_bytes_per_s:
            return 0.0
        is_sharded = self.plan.sharding is not Sharding.NONE
        precision = self.problem.precision
        state_bytes = self._held_bytes(device.layers, is_sharded=is_sharded)
        return state_bytes / precision.weight_bytes * precision.step_bytes / self.problem.hbm_bytes_per_s

    def _tied_s(self) -> float:
        """Each copy sends its gradients to the owner."""
        ratio, total_s = self.gradient_ratio, 0.0
        device_of = {v: at % self.plan.pp for at, stage in enumerate(self.plan.stages) for v in stage.layers}
        for tied in self.graph.tied:
            holders = {device_of[v] for v in tied.layers} - {device_of[tied.layers[0]]}
            total_s += len(holders) * self.network.message_s(ratio * tied.param_bytes, self.groups.stages)
        return total_s

    # Memory

    def _held_bytes(self, layers: Sequence[_Layer], *, is_sharded: bool) -> float:
        """Of the layers' parameters, if they are sharded or not."""
        own = sum(layer.param_bytes for layer in layers)
        experts = sum(layer.expert_param_bytes for layer in layers)
        if not is_sharded:
            return own + experts
        return own / self.plan.shard_group + experts / self.groups.num_expert_replicas

    def memory(self, device: _Device) -> DeviceMemory:
        """What one device of a pipeline holds."""
        precision, sharding, layers = self.problem.precision, self.plan.sharding, device.layers
        weights = self._held_bytes(layers, is_sharded=sharding is Sharding.WEIGHTS)
        if sharding is Sharding.WEIGHTS:
            weights += self._gathered_bytes(device)
        is_cut = sharding in (Sharding.GRADIENTS, Sharding.WEIGHTS)
        gradients = self._held_bytes(layers, is_sharded=is_cut)
        if is_cut:
            gradients += max(layer.param_bytes + layer.expert_param_bytes for layer in layers)
        state = self._held_bytes(layers, is_sharded=sharding is not Sharding.NONE)
        return DeviceMemory(
            weights_bytes=weights,
            gradients_bytes=self.gradient_ratio * gradients,
            state_bytes=precision.state_bytes / precision.weight_bytes * state,
            kept_bytes=kept_bytes(
                self.plan,
                self.count,
                device.number,
                [sum(layer.kept_bytes for layer in self.stages[at]) for at in device.chunks],
            ),
            replay_bytes=max(layer.full_bytes - layer.kept_bytes for layer in layers),
            working_bytes=max(layer.working_bytes for layer in layers),
        )

    def _gathered_bytes(self, device: _Device) -> float:
        """Whole weights there at once: two neighbours, or all where they are kept."""
        if not self.plan.reshard:
            return self._held_bytes(device.layers, is_sharded=False)
        largest = 0.0
        for at in device.chunks:
            sizes = [layer.param_bytes + layer.expert_param_bytes for layer in self.stages[at]]
            pairs = [a + b for a, b in pairwise(sizes)] or sizes
            largest = max(largest, *pairs)
        return largest
