"""The operators of a layer of a run, after tensor, context and expert parallelism have cut it."""

from __future__ import annotations

from rephaze.truth.layer_parts import ELEMENT, FORWARD, INPUT, WEIGHT, LayerOps, PartWriter


class LayerWriter(PartWriter):
    """Writes a run's layers into a table of operators."""

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
            num_ops += 40 if self.traits.sends_once else 80
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
        if self.traits.kept_share < 1:  # beside what attention itself needs
            self._keep(layer, "attention", ELEMENT * self.traits.kept_share * n * out)
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
        self._keep(layer, "moe", e * per_expert * local * ((1 + self.traits.kept_share) * h + gate * width))
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
        self._keep(layer, "norm", moved + self.traits.kept_share * moved)

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
        self._keep(layer, piece, ELEMENT * self.traits.kept_share * elements)
