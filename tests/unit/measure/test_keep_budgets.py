"""Bytes a layer keeps at each position of its list."""

import numpy as np
import pytest

from rephaze.measure.keep_budgets import NUM_POSITIONS, keep_budgets
from rephaze.workload.passes.fuse import fuse_graph
from rephaze.workload.passes.keep_sets import keep_sets
from rephaze.workload.zoo import load_model


@pytest.mark.parametrize("model", ["gpt2-xl", "llama2-7b"])
@pytest.mark.parametrize("microbatch", [1, 8])
def test_lists_run_from_everything_to_the_inputs(model, microbatch):
    graph = fuse_graph(load_model(model))
    for kind in graph.layer_types:
        sets = keep_sets(kind)
        budget_k = keep_budgets(sets, microbatch)
        assert len(budget_k) == NUM_POSITIONS
        assert budget_k[0] == sets.full_bytes.at(microbatch)
        assert budget_k[-1] == min(sets.full_bytes.at(microbatch), sets.least_bytes.at(microbatch))
        assert (np.diff(budget_k) <= 0).all()
