"""The operators of a layer of a run, after tensor, context and expert parallelism have cut it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rephaze.truth.machines import Machine
from rephaze.truth.op_table import OpTable
from rephaze.truth.records import ModelShape, RunPlan
from rephaze.truth.traits import Traits

ELEMENT = 2.0
FORWARD, INPUT, WEIGHT, REPLAY = range(4)
HALF_REPLAYED = {"norm": 1.0, "residual": 1.0, "rope": 1.0, "act": 1.0, "attention_out": 1.0, "ffn_in": 0.5}
"""Every second product is kept (queries, values, the first of a gated pair, the last) and attention; keys, the
product after attention, the second of the pair and all that is not a product are computed again."""


@dataclass(slots=True)
class LayerOps:
    """A kind of layer: where its passes are in the table, its weights, what it keeps."""

    segments: list[int]
    param_elements: float = 0.0
    expert_elements: float = 0.0
    full_bytes: float = 0.0
    """Kept between the passes if nothing is computed again."""
    kept_bytes: float = 0.0
    """With the run's recomputation."""
    working_bytes: float = 0.0
    has_replay: bool = False
    pieces: list[str] = field(default_factory=list)


class LayerWriter:
    """Writes a run's layers into a table of operators."""

    def __init__(
        self,
        table: OpTable,
        shape: ModelShape,
        plan: RunPlan,
        machine: Machine,
        traits: Traits,
        bits: int,
        is_fused: bool,
    ) -> None:
        self.table, self.shape, self.plan, self.machine = table, shape, plan, machine
        self.traits, self.bits, self.is_fused = traits, bits, is_fused
        self.microbatch = plan.microbatch or 1
        self.tokens = self.microbatch * shape.seq / plan.cp
        self.spread_tokens = self.tokens / (plan.tp if plan.sp or machine.is_tpu else 1)
        self.tp_axes = machine.axes_of(plan.tp, plan.num_devices // plan.num_slices)

    # Layers

    def embedding(self) -> LayerOps:
        """Looks up tokens."""
        shape, plan = self.shape, self.plan
        layer = self._layer(num_ops=3)
        moved = ELEMENT * 2 * self.tokens * shape.hidden
        self._move(layer, FORWARD, moved)
        self._move(layer, WEIGHT, 2 * moved)
        if plan.tp > 1:
            self._tp(layer, FORWARD, 1)
        layer.param_elements = shape.vocab * shape.hidden / plan.tp
        layer.full_bytes = layer.kept_bytes = 8 * self.tokens
        return layer

    def head(self) -> LayerOps:
        """The last norm, logits and loss."""
        shape, plan = self.shape, self.plan
        layer = self._layer(num_ops=8)
        m, n, k = self.tokens, shape.vocab / plan.tp, shape.hidden
        self._linear(layer, m, n, k, bits=16, name="head")
        self._move(layer, FORWARD, 10 * m * n)
        self._move(layer, INPUT, 6 * m * n)
        if plan.tp > 1:
            self._tp(layer, FORWARD, 1 if plan.sp else 0.1)
            self._tp(layer, INPUT, 1)
        layer.param_elements = shape.hidden + (0 if shape.is_tied else shape.vocab * shape.hidden / plan.tp)
        layer.full_bytes = layer.kept_bytes = ELEMENT * 2 * self.spread_tokens * k
        layer.working_bytes = self.traits.logit_bytes * m * n
        return layer

    def block(self, *, is_mixture: bool, is_windowed: bool) -> LayerOps:
        """A block: attention, then a feed-forward part or a mixture."""
        eager = self.traits.is_eager
        num_ops = 40 if eager else 14
        if is_mixture and self.shape.experts:
            num_ops += 80
        by_rank = 0
        if self.traits.starts_by_rank and self.plan.tp > 1:
            by_rank = self.plan.tp
        is_waiting = is_mixture and self.traits.waits_for_routing
        layer = self._layer(num_ops=num_ops, by_rank=by_rank, is_waiting=is_waiting)
        self._attention(layer, is_windowed=is_windowed)
        if is_mixture:
            self._mixture(layer)
        else:
            self._feed_forward(layer, self.shape.ffn, "ffn")
        if self.plan.recompute in ("full", "half"):
            layer.kept_bytes += ELEMENT * self.spread_tokens * self.shape.hidden
        if self.plan.recompute == "half":
            layer.kept_bytes += ELEMENT * self.spread_tokens * self.shape.hidden  # what the last product gave
        return layer

    # Parts of a block

    def _attention(self, layer: LayerOps, *, is_windowed: bool) -> None:
        shape, plan = self.shape, self.plan
        h, tp, n = shape.hidden, plan.tp, self.tokens
        self._norm(layer)
        latent = shape.latent
        if latent is None:
            q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
            shared_kv = max(kv / tp, shape.head_dim)
            width = q / tp + 2 * shared_kv
            self._gather(layer, "qkv")
            self._linear(layer, n, width, h, name="qkv")
            self._keep(layer, "qkv", ELEMENT * n * width)
            if shape.is_gated:
                turned = ELEMENT * n * (q / tp + shared_kv)
                self._vector(layer, "rope", 2 * turned, 2 * turned)
                if self.traits.is_eager:
                    self._keep(layer, "rope", turned)
            out, key_dim, value_dim = q / tp, shape.head_dim, shape.head_dim
        else:
            key_dim, value_dim = latent.nope_dim + latent.rope_dim, latent.value_dim
            heads = shape.heads / tp
            self._gather(layer, "qkv")
            if latent.q_rank:
                self._linear(layer, n, latent.q_rank, h, name="qkv")
                self._linear(layer, n, heads * key_dim, latent.q_rank, name="qkv")
            else:
                self._linear(layer, n, heads * key_dim, h, name="qkv")
            self._linear(layer, n, latent.kv_rank + latent.rope_dim, h, name="qkv")
            self._linear(layer, n, heads * (latent.nope_dim + value_dim), latent.kv_rank, name="qkv")
            kept = latent.q_rank + latent.kv_rank + heads * (2 * key_dim + value_dim)
            self._keep(layer, "qkv", ELEMENT * n * kept)
            moved = 3 * ELEMENT * n * heads * 2 * key_dim
            self._vector(layer, "rope", moved, moved)
            out, shared_kv = heads * value_dim, heads * key_dim
        self._core(layer, key_dim, value_dim, is_windowed=is_windowed)
        self._keep(layer, "attention", ELEMENT * n * out)
        if plan.cp > 1:
            whole = 2 * ELEMENT * n * plan.cp * shared_kv
            self._ring(layer, whole)
        self._linear(layer, n, h, out, name="attention_out")
        self._scatter(layer, "attention_out")
        self._residual(layer)

    def _core(self, layer: LayerOps, key_dim: float, value_dim: float, *, is_windowed: bool) -> None:
        shape, plan = self.shape, self.plan
        s, heads = shape.seq, shape.heads / plan.tp
        if not self.is_fused:
            count = self.microbatch * heads / plan.cp
            for name, (m, n, k) in (("score", (s, s, key_dim)), ("mix", (s, value_dim, s))):
                self._product(layer, FORWARD, m, n, k, count, 16, piece="attention")
                self._product(layer, INPUT, m, k, n, count, 16)
                self._product(layer, INPUT, n, k, m, count, 16)
                del name
            square = count * s * s
            self._vector(layer, "attention", 9 * square, 11 * square)
            self._keep(layer, "attention", 5 * square)
            return
        reach = s / 2 * shape.packed_share if shape.is_causal else s
        if is_windowed and shape.window < s:
            reach = shape.window * (1 - shape.window / (2 * s))
        flops = 2.0 * self.microbatch * s * reach * heads * (key_dim + value_dim) / plan.cp
        if plan.cp > 1 and not self.traits.is_cp_balanced:
            flops *= 2 - 1 / plan.cp
        keys = min(s / plan.cp, shape.window) if is_windowed else s / plan.cp
        self._attend(layer, FORWARD, flops, keys, piece="attention")
        self._attend(layer, INPUT, 2.5 * flops, keys)

    def _feed_forward(self, layer: LayerOps, ffn: float, name: str) -> None:
        shape, plan = self.shape, self.plan
        width, n = ffn / plan.tp, self.tokens
        if not shape.is_parallel:
            self._norm(layer)
            self._gather(layer, name + "_in")
        self._linear(layer, n, (2 if shape.is_gated else 1) * width, shape.hidden, name=name + "_in")
        self._keep(layer, name + "_in", ELEMENT * n * (2 if shape.is_gated else 1) * width)
        self._activation(layer, n * width)
        self._linear(layer, n, shape.hidden, width, name=name + "_out")
        if not shape.is_parallel:
            self._scatter(layer, name + "_out")
        self._residual(layer)

    def _mixture(self, layer: LayerOps) -> None:
        shape, plan, experts = self.shape, self.plan, self.shape.experts
        assert experts is not None
        self._norm(layer)
        n = self.tokens / (plan.tp if plan.sp and not self.machine.is_tpu else 1)
        h, e = shape.hidden, ELEMENT
        routed = n * experts.num_active * experts.capacity_factor
        self._linear(layer, n, experts.num_experts, h, bits=16, name="moe", is_param=True)
        self._vector(layer, "moe", 4 * e * routed * h, 4 * e * routed * h)
        for _ in range(2):
            self._exchange(layer, e * routed * h, e * n * h)
        local = experts.num_experts / plan.ep
        per_expert = max(
            1.0, routed * plan.ep * (plan.etp if not self.machine.is_tpu else 1) / experts.num_experts
        )
        width = experts.ffn / plan.etp
        is_grouped = local > 1 and self.traits.is_dropless
        gate = 2 if shape.is_gated else 1
        self._linear(layer, per_expert, gate * width, h, name="moe", count=local, is_grouped=is_grouped)
        self._activation(layer, per_expert * local * width, piece="moe")
        self._linear(layer, per_expert, h, width, name="moe", count=local, is_grouped=is_grouped)
        self._keep(layer, "moe", e * per_expert * local * (2 * h + gate * width))
        layer.expert_elements += local * (gate + 1) * h * width
        layer.param_elements -= local * (gate + 1) * h * width
        if experts.shared_ffn:
            self._feed_forward(layer, experts.shared_ffn, "shared")
        else:
            self._residual(layer)

    # Pieces

    def _norm(self, layer: LayerOps) -> None:
        moved = ELEMENT * self.spread_tokens * self.shape.hidden
        self._vector(layer, "norm", 2 * moved, 4 * moved)
        layer.param_elements += self.shape.hidden
        self._keep(layer, "norm", 2 * moved)

    def _residual(self, layer: LayerOps) -> None:
        moved = ELEMENT * self.spread_tokens * self.shape.hidden
        self._vector(layer, "residual", 3 * moved, 2 * moved)
        if not self.shape.is_gated and self.traits.has_dropout:
            self._keep(layer, "residual", self.spread_tokens * self.shape.hidden)

    def _activation(self, layer: LayerOps, elements: float, piece: str = "act") -> None:
        gated = self.shape.is_gated
        self._vector(
            layer, piece, ELEMENT * (3 if gated else 2) * elements, ELEMENT * (5 if gated else 3) * elements
        )
        self._keep(layer, piece, ELEMENT * elements)

    def _linear(
        self,
        layer: LayerOps,
        m: float,
        n: float,
        k: float,
        *,
        name: str,
        bits: int | None = None,
        count: float = 1.0,
        is_grouped: bool = False,
        is_param: bool = True,
    ) -> None:
        bits = self.bits if bits is None else bits
        self._product(layer, FORWARD, m, n, k, count, bits, is_grouped=is_grouped, piece=name)
        self._product(layer, INPUT, m, k, n, count, bits, is_grouped=is_grouped)
        # Integers on TPUs: gradients of weights stay at 16 bits (the library's default).
        self._product(
            layer,
            WEIGHT,
            n,
            k,
            m,
            count,
            16 if self.traits.keeps_weight_gradients else bits,
            is_grouped=is_grouped,
        )
        if bits < 16:
            self._move(layer, FORWARD, 4 * m * k * count)
            self._move(layer, INPUT, 4 * m * n * count)
        if is_param:
            layer.param_elements += n * k * count

    def _vector(self, layer: LayerOps, piece: str, forward_bytes: float, backward_bytes: float) -> None:
        self._move(layer, FORWARD, forward_bytes, piece=piece)
        self._move(layer, INPUT, backward_bytes)

    def _keep(self, layer: LayerOps, piece: str, num_bytes: float) -> None:
        layer.full_bytes += num_bytes
        layer.kept_bytes += (1 - self._replayed_share(piece)) * num_bytes

    # Collectives

    def _gather(self, layer: LayerOps, piece: str) -> None:
        """Before a product that is cut by columns."""
        if self.plan.tp == 1:
            return
        if self.plan.sp or self.machine.is_tpu:
            self._tp(layer, FORWARD, 0.5, piece=piece)
            self._tp(layer, INPUT, 1.0)
        else:
            self._tp(layer, INPUT, 1.0)

    def _scatter(self, layer: LayerOps, piece: str) -> None:
        """After a product that is cut by rows."""
        if self.plan.tp == 1:
            return
        if self.plan.sp or self.machine.is_tpu:
            self._tp(layer, FORWARD, 0.5, piece=piece)
            self._tp(layer, INPUT, 0.5)
        else:
            self._tp(layer, FORWARD, 1.0, piece=piece)

    def _tp(self, layer: LayerOps, which: int, share: float, piece: str = "") -> None:
        """So many all-reduces of the activations over tensor parallelism."""
        tp = self.plan.tp
        num_bytes = share * 2 * ELEMENT * self.tokens * self.shape.hidden
        node = self._node()
        inner = min(tp, node)
        outer = tp // inner
        inner_bytes = (inner - 1) / inner * num_bytes
        outer_bytes = (outer - 1) / outer * num_bytes / inner if outer > 1 else 0.0
        overlapped = self.traits.is_tp_overlapped and (self.plan.sp or self.machine.is_tpu)
        steps = 2 * share * (tp - 1 if self.traits.is_ethernet else 1) if outer > 1 else 0.0
        row = (inner_bytes, 2 * share, outer_bytes, steps, overlapped)
        self._send(layer, which, row, piece)

    def _ring(self, layer: LayerOps, whole_bytes: float) -> None:
        cp, tp = self.plan.cp, self.plan.tp
        crosses = tp * cp > self._node()
        sent = (cp - 1) / cp * whole_bytes
        row = (0.0, 0.0, sent, cp - 1.0, True) if crosses else (sent, cp - 1.0, 0.0, 0.0, True)
        self._send(layer, FORWARD, row, "attention")
        self._send(layer, INPUT, (*(2 * value for value in row[:4]), True), "")

    def _exchange(self, layer: LayerOps, routed_bytes: float, token_bytes: float) -> None:
        """All-to-all over the experts' devices; where an expert is cut, what comes is gathered over its parts."""
        plan, node = self.plan, self._node()
        ep, etp = plan.ep, 1 if self.machine.is_tpu else plan.etp
        if ep > 1:
            inner = max(1, min(ep, node // etp))
            outer_bytes = routed_bytes * (1 - inner / ep)
            inner_bytes = routed_bytes * (1 - 1 / inner)
            if self.traits.sends_once:
                # A token that several experts of a device or node want is sent there once.
                active = self.shape.experts.num_active if self.shape.experts else 1
                nodes = max(1, ep // inner)
                inner_bytes = min(inner_bytes, token_bytes * (inner - 1) * (1 - (1 - 1 / ep) ** active) * nodes)
                outer_bytes = min(outer_bytes, token_bytes * (nodes - 1) * (1 - (1 - 1 / nodes) ** active))
            row = (inner_bytes, 1.0, outer_bytes, float(ep > inner), self.traits.is_ep_overlapped)
            self._send(layer, FORWARD, row, "moe")
            self._send(layer, INPUT, row, "")
        if etp > 1:
            row = ((etp - 1) * routed_bytes, 1.0, 0.0, 0.0, False)
            self._send(layer, FORWARD, row, "moe")
            self._send(layer, INPUT, row, "")

    def _node(self) -> int:
        return self.machine.node_devices or 1 << 30

    # Rows

    def _layer(self, num_ops: float, by_rank: int = 0, *, is_waiting: bool = False) -> LayerOps:
        eager = self.traits.is_eager
        shares = (1.0, 1.2, 0.4, 0.0)
        segments = [
            self.table.segment(
                self.machine, share * num_ops, share * by_rank, is_eager=eager, is_waiting=is_waiting
            )
            for share in shares
        ]
        return LayerOps(segments=segments)

    def _replayed_share(self, piece: str) -> float:
        """Of an operator and what it leaves, the part that is computed again instead of kept."""
        plan = self.plan
        if plan.recompute == "full":
            return float(not (self.traits.drops_last and piece in ("ffn_out", "residual")))
        if plan.recompute == "policy":
            return float(piece not in plan.kept and not (piece == "ffn_out" and self.traits.drops_last))
        if plan.recompute == "attention":
            return float(piece == "attention" and not self.is_fused)
        if plan.recompute == "modules":
            return float(piece in plan.kept)
        if plan.recompute == "half":
            return HALF_REPLAYED.get(piece, self._keys_share() if piece == "qkv" else 0.0)
        return 0.0

    def _keys_share(self) -> float:
        """Of the product that makes queries, keys and values: the keys' part."""
        return self.shape.kv_heads / (self.shape.heads + 2 * self.shape.kv_heads)

    def _rows(self, layer: LayerOps, which: int, piece: str) -> list[tuple[int, float]]:
        """Segments an operator belongs to, each with the part of it that runs there."""
        found = [(layer.segments[which], 1.0)]
        share = self._replayed_share(piece) if which == FORWARD and piece else 0.0
        if share > 0:
            found.append((layer.segments[REPLAY], share))
            layer.has_replay = True
        return found

    def _product(
        self,
        layer: LayerOps,
        which: int,
        m: float,
        n: float,
        k: float,
        count: float,
        bits: int,
        *,
        is_grouped: bool = False,
        piece: str = "",
    ) -> None:
        for at, share in self._rows(layer, which, piece):
            self.table.products.append((at, m, share * n, k, count, bits, is_grouped))

    def _attend(self, layer: LayerOps, which: int, flops: float, keys: float, piece: str = "") -> None:
        for at, share in self._rows(layer, which, piece):
            self.table.attention.append((at, share * flops, self.traits.attention_kind, keys))

    def _move(self, layer: LayerOps, which: int, num_bytes: float, piece: str = "") -> None:
        for at, share in self._rows(layer, which, piece):
            self.table.moves.append((at, share * num_bytes, self.traits.is_eager))

    def _send(self, layer: LayerOps, which: int, row: tuple[float, ...], piece: str) -> None:
        for at, share in self._rows(layer, which, piece):
            self.table.sends.append((at, *(share * value for value in row[:4]), row[4], self.tp_axes))
