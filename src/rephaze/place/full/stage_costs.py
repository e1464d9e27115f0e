"""Times and memory of every candidate stage under one layout, at every point of ``keep``: compiled.

The same equations as ``price``, in the same order of sums, for all stages at once.

Axis letters: e = candidate stage, k = point of ``keep``, v = layer, t = tied weights, q = kind of maximum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rephaze.compiled import inner, kernel
from rephaze.place.full.cuts import Cuts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NUM_MAXIMA = 6
"""Most amounts of a stage of which a schedule takes the largest."""


class LayerArrays(NamedTuple):
    """One graph's layers and links."""

    forward_s_v: Floats
    backward_s_v: Floats
    weight_backward_s_v: Floats
    replay_s_vk: Floats
    kept_bytes_vk: Floats
    working_bytes_v: Floats
    param_bytes_v: Floats
    expert_bytes_v: Floats
    link_src: Ints
    link_dst: Ints
    link_bytes: Floats
    tied_tv: NDArray[np.bool_]
    tied_owner_t: Ints
    tied_bytes_t: Floats


class Rates(NamedTuple):
    """What a layout makes of bytes: seconds a byte and seconds a collective, and parts held."""

    message: tuple[float, float]
    shards: tuple[float, float]
    """Of a reduce-scatter over the shard group."""
    copies: tuple[float, float]
    """Of an all-reduce over the copies of a shard."""
    gradients: tuple[float, float]
    """Of an all-reduce over all replicas."""
    experts: tuple[float, float]
    """Of a reduce-scatter over an expert's replicas."""
    shard_group: int
    num_expert_replicas: int
    gradient_ratio: float
    state_ratio: float
    step_s_per_byte: float


class LayoutRules(NamedTuple):
    """What is on."""

    is_sharded: bool
    shards_gradients: bool
    shards_weights: bool
    reshard: bool
    overlap: bool
    is_zero_bubble: bool


class StageCosts(NamedTuple):
    """By stage and point: what adds up, what the largest counts of, and memory."""

    sum_s_ek: Floats
    """Load and exchange of tied weights under 1F1B; only the latter under zero-bubble."""
    most_s_ekq: Floats
    """1F1B: load with tail, sync, step, regather. Zero-bubble: load, input backward pass, forward and input
    backward pass, forward pass, load with sync and regather, step."""
    fixed_bytes_e: Floats
    kept_bytes_ek: Floats
    replay_bytes_ek: Floats
    working_bytes_e: Floats


@inner
def _take(pair: tuple[float, float], num_bytes: float) -> float:
    return num_bytes * pair[0] + pair[1] if num_bytes > 0 else 0.0


@kernel
def stage_costs(cuts: Cuts, layers: LayerArrays, rates: Rates, rules: LayoutRules) -> StageCosts:
    """Every candidate stage."""
    num_stages, num_points = len(cuts.start_e), layers.replay_s_vk.shape[1]
    num_layers, num_ties = len(layers.forward_s_v), len(layers.tied_owner_t)
    sum_s_ek = np.zeros((num_stages, num_points))
    most_s_ekq = np.zeros((num_stages, num_points, NUM_MAXIMA))
    fixed_bytes_e = np.zeros(num_stages)
    kept_bytes_ek = np.zeros((num_stages, num_points))
    replay_bytes_ek = np.zeros((num_stages, num_points))
    working_bytes_e = np.zeros(num_stages)
    inside = np.zeros(num_layers, dtype=np.bool_)
    copied_v = np.zeros(num_layers)
    enters_v = np.zeros(num_layers)
    leaves_v = np.zeros(num_layers)
    is_gathering = rules.shards_weights and rules.reshard
    for e in range(num_stages):
        members = cuts.layer_i[cuts.first_i_e[e] : cuts.first_i_e[e + 1]]
        size = len(members)
        for v in members:
            inside[v] = True
            copied_v[v] = 0.0
        tied_s = 0.0
        for t in range(num_ties):
            if inside[layers.tied_owner_t[t]]:
                continue
            for v in members:
                if layers.tied_tv[t, v]:
                    copied_v[v] += layers.tied_bytes_t[t]
                    tied_s += _take(rates.message, rates.gradient_ratio * layers.tied_bytes_t[t])
                    break
        for at in range(len(layers.link_src)):
            src, dst = layers.link_src[at], layers.link_dst[at]
            if inside[dst] and not inside[src]:
                enters_v[src] = max(enters_v[src], layers.link_bytes[at])
            elif inside[src] and not inside[dst]:
                leaves_v[src] = max(leaves_v[src], layers.link_bytes[at])
        comes, returns = 0.0, 0.0
        for v in range(num_layers):
            comes += enters_v[v]
            returns += leaves_v[v]
            enters_v[v] = 0.0
            leaves_v[v] = 0.0
        comes_s, returns_s = _take(rates.message, comes), _take(rates.message, returns)
        own, experts, largest, pair, before = 0.0, 0.0, 0.0, 0.0, -1.0
        gather = np.zeros(size)
        scatter = np.zeros(size)
        copies_s, sync_each = 0.0, np.zeros(size)
        for at in range(size):
            v = members[at]
            p, pe = layers.param_bytes_v[v] + copied_v[v], layers.expert_bytes_v[v]
            own += p
            experts += pe
            largest = max(largest, p + pe)
            pair = max(pair, before + p + pe if before >= 0 else (p + pe if size == 1 else 0.0))
            before = p + pe
            working_bytes_e[e] = max(working_bytes_e[e], layers.working_bytes_v[v])
            if rules.is_sharded:
                gather[at] = _take(rates.shards, p) + _take(rates.experts, pe)
                scatter[at] = _take(rates.shards, rates.gradient_ratio * p)
                scatter[at] += _take(rates.experts, rates.gradient_ratio * pe)
                copy = _take(rates.copies, rates.gradient_ratio * p / rates.shard_group)
                copies_s += copy
                sync_each[at] = scatter[at] + copy
            else:
                sync_each[at] = _take(rates.gradients, rates.gradient_ratio * p)
                sync_each[at] += 2 * _take(rates.experts, rates.gradient_ratio * pe)
        cut = own / rates.shard_group + experts / rates.num_expert_replicas
        weights = own + experts
        if rules.shards_weights:
            weights = cut + (pair if rules.reshard else own + experts)
        gradients = cut + largest if rules.shards_gradients else own + experts
        state = cut if rules.is_sharded else own + experts
        fixed_bytes_e[e] = weights + rates.gradient_ratio * gradients + rates.state_ratio * state
        step_s = state * rates.step_s_per_byte
        regather_s = 0.0
        if rules.is_sharded and not is_gathering:
            moved, computed = 0.0, 0.0
            for at in range(size):
                moved += gather[at]
                regather_s = max(regather_s, moved - computed) if rules.overlap else moved
                computed += layers.forward_s_v[members[at]]
        forward_s = 0.0
        link_free, issued = 0.0, 0.0
        for at in range(size):
            if is_gathering:
                link_free = max(issued, link_free) + gather[at]
                issued = max(forward_s, link_free)
                forward_s = issued + layers.forward_s_v[members[at]]
            else:
                forward_s += layers.forward_s_v[members[at]]
        for k in range(num_points):
            for v in members:
                kept_bytes_ek[e, k] += layers.kept_bytes_vk[v, k]
                lost = layers.kept_bytes_vk[v, 0] - layers.kept_bytes_vk[v, k]
                replay_bytes_ek[e, k] = max(replay_bytes_ek[e, k], lost)
            backward_s, input_s, tail_s, sync_s = 0.0, 0.0, 0.0, 0.0
            computed, sync_free = 0.0, 0.0
            link_free, issued, waiting, scattered_at = 0.0, 0.0, -1.0, 0.0
            for at in range(size - 1, -1, -1):
                v = members[at]
                compute = layers.replay_s_vk[v, k] + layers.backward_s_v[v]
                input_s += compute - layers.weight_backward_s_v[v]
                computed += layers.weight_backward_s_v[v] if rules.is_zero_bubble else compute
                sync_free = max(computed, sync_free) + sync_each[at]
                sync_s += sync_each[at]
                if not is_gathering:
                    backward_s += compute
                    continue
                link_free = max(issued, link_free) + gather[at]
                issued = max(backward_s, link_free)
                if waiting >= 0:
                    link_free = max(scattered_at, link_free) + waiting
                backward_s = issued + compute
                waiting, scattered_at = scatter[at], backward_s
            if is_gathering:
                tail_s = max(scattered_at, link_free) + waiting - backward_s
                sync_s = tail_s + copies_s
            elif rules.overlap:
                sync_s = sync_free - computed
            ahead_s = comes_s + forward_s
            load_s = ahead_s + returns_s + backward_s
            most = most_s_ekq[e, k]
            if rules.is_zero_bubble:
                sum_s_ek[e, k] = tied_s
                most[0], most[1], most[2] = load_s, returns_s + input_s, ahead_s + returns_s + input_s
                most[3], most[4], most[5] = ahead_s, load_s + sync_s + regather_s, step_s
            else:
                sum_s_ek[e, k] = load_s + tied_s
                most[0], most[1], most[2], most[3] = load_s + tail_s, sync_s, step_s, regather_s
        for v in members:
            inside[v] = False
    return StageCosts(sum_s_ek, most_s_ekq, fixed_bytes_e, kept_bytes_ek, replay_bytes_ek, working_bytes_e)
