"""Times of the schedule room: `pytest benchmarks/bench_schedule.py`; percentiles are in the extra columns.

Blocks are transformer layers, forward and backward with weight gradients, on chips drawn over the whole grid
of core counts and widths; durations follow a roofline with HBM shares. Percentiles are of processor time,
which other work on the machine disturbs less.
"""

import time

import numpy as np
import pytest

from rephaze.schedule.bounds import lower_bounds
from rephaze.schedule.structure import compile_structure
from rephaze.schedule.warmup import compile_kernels
from rephaze.types.latency import Engine, ModeBounds
from rephaze.types.schedule import Exclusion
from tests.kits.latency_schedules import schedule_on_chip, serial_makespans

T, V, F, L, N = Engine.TENSOR, Engine.VECTOR, Engine.FUSED, Engine.LINK, Engine.NONE
all_times: list[float] = []
SEQ, HIDDEN, HEADS = 2048, 4096, 32


def _block(gated: bool, tp: int):
    """(name, engine, macs or elements, bytes, inputs) of a decoder block's forward pass."""
    inner = 11008 if gated else 4 * HIDDEN
    gemm = SEQ * HIDDEN * HIDDEN // tp
    act = SEQ * HIDDEN
    scores = HEADS // tp * SEQ * SEQ
    return [
        ("in", N, 0, 0, []),
        ("ln1", V, 5 * act, 4 * act, ["in"]),
        *((x, T, gemm, 2 * (2 * act + HIDDEN * HIDDEN // tp), ["ln1"]) for x in "qkv"),
        *((f"{x}_rope", V, 4 * act // tp, 4 * act // tp, [x]) for x in "qk"),
        ("qk", F, SEQ * SEQ * HIDDEN // tp, 2 * scores, ["q_rope", "k_rope"]),
        ("softmax", V, 6 * scores, 4 * scores, ["qk"]),
        ("av", T, SEQ * SEQ * HIDDEN // tp, 2 * scores, ["softmax", "v"]),
        ("o", F, gemm, 2 * (2 * act + HIDDEN * HIDDEN // tp), ["av"]),
        *([("reduce1", L, 4 * act, 0, ["o"])] if tp > 1 else []),
        ("res1", V, act, 6 * act, ["in", "reduce1" if tp > 1 else "o"]),
        ("ln2", V, 5 * act, 4 * act, ["res1"]),
        ("up", T, SEQ * HIDDEN * inner // tp, 2 * HIDDEN * inner // tp, ["ln2"]),
        *([("gate", F, SEQ * HIDDEN * inner // tp, 2 * HIDDEN * inner // tp, ["ln2"])] if gated else []),
        ("mul", V, 2 * SEQ * inner // tp, 6 * SEQ * inner // tp, ["up", *(["gate"] if gated else [])]),
        ("down", F, SEQ * HIDDEN * inner // tp, 2 * HIDDEN * inner // tp, ["mul"]),
        *([("reduce2", L, 4 * act, 0, ["down"])] if tp > 1 else []),
        ("res2", V, act, 6 * act, ["res1", "reduce2" if tp > 1 else "down"]),
    ]


def _backward(rows):
    """The same block backwards: an input gradient per op, a weight gradient per GEMM with a weight."""
    users = {name: [] for name, *_ in rows}
    for name, _, _, _, inputs in rows:
        for source in inputs:
            users[source].append(name)
    back = []
    for name, engine, work, size, _ in reversed(rows):
        grads = [f"d_{user}" for user in users[name]]
        back.append((f"d_{name}", engine, work, size, grads))
        if engine in (T, F) and name not in ("qk", "av"):
            back.append((f"w_{name}", T, work, size, grads))
    return back


def _graph(rows):
    place = {name: o for o, (name, *_) in enumerate(rows)}
    edges = [(place[source], place[name]) for name, _, _, _, inputs in rows for source in inputs]
    return compile_structure([row[1] for row in rows], edges)


def _table(rows, num_tensor, num_vector, width):
    """Durations by roofline: 1,050 cycles a microsecond, 1.2 TB/s HBM, 50 GB/s link."""
    work = np.array([row[2] for row in rows], dtype=float)[:, None]
    size = np.array([row[3] for row in rows], dtype=float)[:, None]
    engines = [row[1] for row in rows]
    gemm = np.array([engine in (T, F) for engine in engines])[:, None]
    link = np.array([engine is L for engine in engines])[:, None]
    free = np.array([engine is N for engine in engines])[:, None]
    memory = size / 1143.0
    cycles, shares = [], []
    for tensor, vector in ((1, 1), (num_tensor, num_vector)):
        compute = np.where(gemm, work / (tensor * width * width), work / (vector * width)) + 200
        compute = np.where(link, work / 48.0, compute)
        total = np.where(free, 0, np.ceil(np.maximum(compute, memory)))
        cycles.append(np.broadcast_to(total, (len(rows), len(width))).astype(np.int64).copy())
        shares.append(np.where(total > 0, np.minimum(memory / np.maximum(total, 1), 1.0), 0.0))
    # With half of a bandwidth what it binds takes twice as long.
    twice = [np.where(share > 0.5, 2 * own, own) for share, own in zip(shares, cycles, strict=True)]
    uses_o = (shares[0] > 0).any(axis=1)[:, None]
    return ModeBounds(
        all_cores_m=np.array([False, True, False, True]),
        cycles_moc=np.stack([*cycles, *twice]),
        hbm_share_om=uses_o * np.array([1.0, 1.0, 0.5, 0.5]),
        buffer_share_om=np.zeros((len(rows), 4)),
    )


def _chips(count):
    rng = np.random.default_rng(5)
    return 2 ** rng.integers(0, 9, count), 2 ** rng.integers(0, 9, count), 2 ** rng.integers(3, 9, count)


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    compile_kernels()


@pytest.mark.parametrize("exclusion", list(Exclusion))
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("tp", [1, 4], ids=["tp1", "tp4"])
def test_blocks(benchmark, exclusion, backward, tp):
    tensor, vector, width = _chips(60)
    cases = []
    for gated in (False, True):
        rows = _backward(_block(gated, tp)) if backward else _block(gated, tp)
        cases.append((_graph(rows), _table(rows, tensor, vector, width)))
    times = []

    def solve_all():
        proven = 0
        for structure, table in cases:
            for c in range(len(tensor)):
                began = time.process_time()
                found = schedule_on_chip(
                    structure,
                    table,
                    c,
                    num_tensor_cores=int(tensor[c]),
                    num_vector_cores=int(vector[c]),
                    exclusion=exclusion,
                )
                times.append(time.process_time() - began)
                proven += found.status == "optimal"
        return proven

    proven = benchmark.pedantic(solve_all, rounds=1, warmup_rounds=0)
    all_times.extend(times)
    benchmark.extra_info.update(
        median_ms=round(1e3 * float(np.median(times)), 3),
        p95_ms=round(1e3 * float(np.percentile(times, 95)), 3),
        proven=f"{proven} of {len(times)}",
    )
    print(benchmark.extra_info)


def test_blocks_of_all_kinds_together(benchmark):
    assert all_times, "run with the tests above"
    summary = benchmark.pedantic(lambda: np.percentile(all_times, [50, 95]), rounds=1)
    benchmark.extra_info.update(
        median_ms=round(1e3 * float(summary[0]), 3),
        p95_ms=round(1e3 * float(summary[1]), 3),
        num_blocks=len(all_times),
    )
    print(benchmark.extra_info)


def test_bounds_for_the_whole_grid(benchmark):
    tensor, vector, width = _chips(29_360)
    rows = _backward(_block(gated=True, tp=4))
    structure, table = _graph(rows), _table(rows, tensor, vector, width)
    bound = benchmark(
        lower_bounds,
        structure,
        table,
        num_tensor_cores_c=tensor,
        num_vector_cores_c=vector,
        exclusion=Exclusion.ENGINE,
    )
    assert (bound <= serial_makespans(structure, table)).all()
