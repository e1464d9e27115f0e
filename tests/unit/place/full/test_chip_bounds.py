"""Bounds for many chips know what memory makes a plan replay, also where one device does all of one microbatch.

Searches keep the layouts of hundreds of them: little is kept of each.
"""

from dataclasses import replace

import numpy as np
import pytest

from rephaze.place.full.chip_bounds import FullChipBounds, LeastReplays
from rephaze.place.full.chip_layouts import ITEM, LAYOUT, LINKS
from rephaze.place.full.line_items import DP, PP
from rephaze.place.full.solver import FullPlacer
from rephaze.place.full.warmup import NUM_LAYERS, _small_problem
from rephaze.types.cluster import Cluster, NetworkLevel

ALONE = Cluster(num_devices=1, levels=(NetworkLevel(num_devices=1, bytes_per_s=1.0, latency_s=0.0),))
REPLAYS = LeastReplays(of_type=0, ratio_tk=np.array([[0.0, 0.5 / 3.0]]))


def bound_and_best(memory_bytes, num_samples):
    problem = replace(_small_problem(), cluster=ALONE, global_batch=num_samples, device_memory_bytes=memory_bytes)
    bounds = FullChipBounds(problem, [0] * NUM_LAYERS, np.array([[2.0, 1.0]]))
    forward_s_ct, backward_s_ct = np.ones((1, 1)), np.full((1, 1), 2.0)
    (bound_s,) = bounds.batch_s(forward_s_ct, backward_s_ct, backward_s_ct / 2, REPLAYS)
    return bound_s, FullPlacer(problem).solve().best


@pytest.mark.parametrize("num_samples", [1, 2, 5])
def test_a_device_alone_replays_what_it_cannot_keep(num_samples):
    state_bytes = NUM_LAYERS * 4.0 * 9.0
    all_kept_s, best = bound_and_best(1e6, num_samples)
    assert all_kept_s == pytest.approx(best.batch_s, rel=1e-6)
    replayed_s, best = bound_and_best(state_bytes + NUM_LAYERS * 1.0 + 1.5, num_samples)
    assert replayed_s > all_kept_s * 1.1
    assert best.batch_s * 0.99 < replayed_s <= best.batch_s


def test_items_and_transfers_of_layouts_are_kept_once():
    bounds = FullChipBounds(_small_problem(), [0] * NUM_LAYERS)
    assert bounds.num_layouts > len(bounds._layouts._item_iq) > 10
    classes = bounds._layouts.classes()
    assert classes.row_nq.nbytes <= 40 * bounds.num_layouts
    assert len(np.unique(classes.link_lq, axis=0)) == len(classes.link_lq) < bounds.num_layouts / 2
    assert set(classes.row_nq[:, LINKS]) == set(range(len(classes.link_lq)))
    rows = [(*classes.item_iq[row[ITEM]].tolist(), *row[LAYOUT:].tolist()) for row in classes.row_nq]
    assert len(set(rows)) == bounds.num_layouts
    for (pp, count), first, end in zip(
        zip(classes.pp_m, classes.count_m, strict=True), classes.first_n_m[:-1], classes.first_n_m[1:], strict=True
    ):
        assert {row[PP] for row in rows[first:end]} <= {pp}
        assert {-(-_small_problem().global_batch // row[DP]) for row in rows[first:end]} <= {count}
