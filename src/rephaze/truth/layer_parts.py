"""Parts of layers as operators of a table: products, moved bytes, collectives, and what is kept of them."""

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


class PartWriter:
    """Writes parts of a run's layers into a table of operators, each as far as its pass, or a replay, runs it."""

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

    # Pieces

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
        self.table.moves.append((layer.segments[WEIGHT], self.traits.summed_bytes * n * k * count, False))
        if bits < 16:
            # Compiled code scales weights anew in every pass: read for their largest, read again, written.
            weights = 5 * n * k * count if self.machine.is_tpu else 0.0
            self._move(layer, FORWARD, 4 * m * k * count + weights, piece=name)
            self._move(layer, INPUT, 4 * m * n * count + weights)
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
            # The weights' gradient wants what was gathered: once more, unless a compiled replay has just done so.
            again = 1 - self._replayed_share(piece) if self.machine.is_tpu else 1.0
            self._tp(layer, INPUT, 0.5 + 0.5 * again)
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
            steps = float(ep > inner)
            if self.traits.is_ethernet and not self.traits.sends_once:
                steps = float(ep - inner)  # each device outside is sent to in turn
            row = (inner_bytes, 1.0, outer_bytes, steps, self.traits.is_ep_overlapped)
            self._send(layer, FORWARD, row, "moe", fills=self.traits.sends_once)
            self._send(layer, INPUT, row, "", fills=self.traits.sends_once)
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
        # Side by side neither part's last product is needed for a gradient of the block.
        last = ("ffn_out", "attention_out") if self.shape.is_parallel else ("ffn_out",)
        if plan.recompute == "full":
            return float(not (self.traits.drops_last and piece in (*last, "residual")))
        if plan.recompute == "policy":
            return float(piece not in plan.kept and not (self.traits.drops_last and piece in last))
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

    def _send(
        self, layer: LayerOps, which: int, row: tuple[float, ...], piece: str, *, fills: bool = False
    ) -> None:
        for at, share in self._rows(layer, which, piece):
            self.table.sends.append((at, *(share * value for value in row[:4]), row[4], self.tp_axes, fills))
