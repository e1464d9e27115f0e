"""How a model is cut over the chips of a replica: tensor, sequence, context and expert parallelism."""

from __future__ import annotations

from dataclasses import dataclass

from rephaze.types.graph import ContextForm


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphCut:
    """Degrees of parallelism inside a replica; whether a model allows them is for the cutting to say."""

    tp: int = 1
    """Chips that share heads, columns and rows."""
    sp: bool = False
    """What tensor parallelism leaves whole is divided along the sequence (sequence parallelism)."""
    cp: int = 1
    """Chips that share the tokens of a sample (context parallelism)."""
    context_form: ContextForm = ContextForm.NONE
    """How attention meets the keys of other chips; left out at cp > 1: a ring."""
    ep: int = 1
    """Groups of chips over which a mixture's experts are dealt out (expert parallelism)."""
    etp: int | None = None
    """Chips that share each expert. None: tp at ep = 1, where experts are cut like any MLP, else 1."""
    imbalance_factor: float = 1.0
    """Tokens of the busiest chip's experts over the average at ep > 1; 1 is forced balance."""
