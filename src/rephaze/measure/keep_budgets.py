"""How many bytes a layer keeps at each position of its list, the same on every chip.

What is worth keeping depends on the times of a chip, but lists of different bytes could not be compared: a bound
from shorter times would say nothing of another list. So bytes are fixed by a machine of reference, at the points
of its front, and a chip fills in the least it must replay within each. Lists of all layer types have one length,
so that one position for a whole stage asks about the same of all its layers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rephaze.measure.keep_points import pareto_points
from rephaze.types.graph import Op
from rephaze.workload.passes.keep_sets import KeepSets

Floats = NDArray[np.float64]

NUM_POSITIONS = 16
REFERENCE_FLOPS_PER_S = 275e12
REFERENCE_BYTES_PER_S = 1.2e12
"""TPUv4's figures (the preset has their source): only the ratio matters, and only to where points lie."""


def keep_budgets(sets: KeepSets, microbatch: int) -> Floats:
    """Bytes at each position, falling from everything to the layer's inputs; one where nothing can be dropped."""
    op_s_n = np.array([reference_s(op, microbatch) for op in sets.ops])
    kept_bytes, _, _ = pareto_points(sets, op_s_n, float(op_s_n.sum()), microbatch, max_points=NUM_POSITIONS)
    at_k = np.rint(np.linspace(0, len(kept_bytes) - 1, NUM_POSITIONS)).astype(np.int64)
    found: Floats = kept_bytes[at_k].astype(np.float64)
    return found


def reference_s(op: Op, microbatch: int) -> float:
    """What an operator takes on the machine of reference, memory and multipliers alone."""
    moved = op.input_bytes.at(microbatch) + op.output_bytes.at(microbatch)
    return max(op.num_flops.at(microbatch) / REFERENCE_FLOPS_PER_S, moved / REFERENCE_BYTES_PER_S)
