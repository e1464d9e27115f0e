"""The energy of a pass is that of its operators' fastest modes."""

import numpy as np

from rephaze.types.latency import Engine, ModeTable


def table(cycles_om, energy_j_om):
    cycles, energy_j = np.array(cycles_om, dtype=np.int64), np.array(energy_j_om, dtype=np.float64)
    return ModeTable(
        op_names=tuple(f"op{i}" for i in range(len(cycles))),
        engines=(Engine.TENSOR,) * len(cycles),
        all_cores_m=np.arange(cycles.shape[1]) > 0,
        cycles_om=cycles,
        energy_j_om=energy_j,
        hbm_share_om=np.zeros(cycles.shape),
        buffer_share_om=np.zeros(cycles.shape),
    )


def test_a_slower_mode_of_less_energy_does_not_count():
    assert table([[20, 10]], [[1.0, 4.0]]).energy_j == 4.0


def test_of_modes_as_fast_the_one_of_least_energy_counts():
    assert table([[10, 10, 11]], [[4.0, 3.0, 1.0]]).energy_j == 3.0


def test_operators_are_decided_one_by_one_and_added():
    assert table([[20, 10], [5, 7], [0, 0]], [[1.0, 4.0], [0.5, 8.0], [0.25, 0.25]]).energy_j == 4.75


def test_no_operator_takes_no_energy():
    assert table(np.zeros((0, 2)), np.zeros((0, 2))).energy_j == 0.0
