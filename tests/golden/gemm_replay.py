"""Slow, simple evaluators of GEMM mappings, written apart from the mapper, and brute force over all of them.

Padded mappings: explicit lists of tiles, added up one by one. Divisor mappings: the paper's cost function as
published. Neither shares code with the searches they check.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import ceil, inf, isfinite, prod

FLOWS = {
    "right stays": ("k", "n", "m"),
    "left stays": ("k", "m", "n"),
    "output stays": ("m", "n", "k"),
    "output stays, transposed": ("n", "m", "k"),
}
LACKS = {"right": "m", "left": "n", "output": "k"}
TENSOR = {dim: tensor for tensor, dim in LACKS.items()}


@dataclass
class Core:
    """A core shape in plain numbers."""

    cores: int
    width: int
    depth: int
    scratchpad: float
    buffer: float
    scratchpad_rate: float
    buffer_rate: float
    hbm_rate: float
    multicast: int


def cuts(length: int, pieces: int, unit: int = 1) -> list[int]:
    """Lengths of the pieces a length falls into, each as many whole units as the first needs."""
    units = ceil(length / unit)
    size = ceil(units / pieces) * unit
    out = []
    while length > 0:
        out.append(min(size, length))
        length -= out[-1]
    return out


def padded_terms(
    batch: int, dims: dict[str, int], core: Core, mapping: dict, side_bytes: float = 0.0
) -> dict[str, float]:
    """Cycles of each level for a padded mapping; infinite if it does not fit.

    ``side_bytes`` cross HBM and global buffer once, beside the product's own matrices.
    """
    rows_dim, columns_dim, stream = FLOWS[mapping["flow"]]
    split = mapping["cores"]
    assert split["batch"] * split["m"] * split["n"] <= core.cores
    own = {"m": ceil(dims["m"] / split["m"]), "n": ceil(dims["n"] / split["n"]), "k": dims["k"]}
    own_batch = ceil(batch / split["batch"])
    step = {rows_dim: mapping["array"]["rows"], columns_dim: mapping["array"]["columns"], stream: 1}
    assert step[rows_dim] <= core.width
    assert step[columns_dim] <= core.depth
    passes = {d: ceil(own[d] / step[d]) for d in "mnk"}
    rounds, blocks = mapping["scratchpad_rounds"], mapping["global_buffer_blocks"]
    near, far = LACKS[mapping["kept_tensor"]["scratchpad"]], LACKS[mapping["kept_tensor"]["global_buffer"]]
    others = [d for d in "mnk" if d != near]
    nowhere = dict.fromkeys(("compute", "scratchpad", "global_buffer", "hbm"), inf)
    if any(rounds[d] > passes[d] for d in "mnk"):
        return nowhere

    # Does it fit? An input element takes 2 B twice, an output element 4 B.
    tile = {d: cuts(own[d], rounds[d], step[d])[0] for d in "mnk"}
    if 4 * (tile["m"] * tile["k"] + tile["k"] * tile["n"] + tile["m"] * tile["n"]) > core.scratchpad:
        return nowhere
    passing = near == far and all(blocks[d] == rounds[d] for d in others)
    edge = {d: ceil(dims[d] / blocks[d]) for d in "mnk"}
    if passing:
        held_words = edge[near] * (edge[others[0]] + edge[others[1]])
    else:
        held_words = edge["m"] * edge["k"] + edge["k"] * edge["n"] + edge["m"] * edge["n"]
        if any(blocks[d] > rounds[d] for d in "mnk"):
            return nowhere
    if 4 * held_words * split["batch"] > core.buffer:
        return nowhere

    again = 1 if passing else blocks[near]
    one_pass = all(rounds[d] == passes[d] for d in others)
    loads = again if near == stream and one_pass else rounds[stream]
    array_passes = own_batch * passes[rows_dim] * passes[columns_dim]
    compute = array_passes * max(own[stream], loads * step[rows_dim]) + step[rows_dim] + step[columns_dim]

    sizes = {"right": own["k"] * own["n"], "left": own["m"] * own["k"], "output": own["m"] * own["n"]}
    scratchpad = 0
    for tensor, size in sizes.items():
        lacking = LACKS[tensor]
        times = loads if lacking == stream else passes[lacking]
        scratchpad += size * (4 * (2 * times - 1) if tensor == "output" else 2 * times)

    def moved(times: dict[str, int], reads: dict[str, int]) -> int:
        whole = {"right": ("k", "n"), "left": ("m", "k"), "output": ("m", "n")}
        total = 0
        for tensor, (one, two) in whole.items():
            elements = sum(a * b for a in cuts(dims[one], 3) for b in cuts(dims[two], 2))
            if tensor == "output":
                total += elements * (8 * (times[tensor] - 1) + 2)
            else:
                total += elements * 2 * times[tensor] * reads[tensor]
        return batch * total

    multicast = {"right": ceil(split["m"] / core.multicast), "left": ceil(split["n"] / core.multicast)}
    middle = moved({t: again if LACKS[t] == near else rounds[LACKS[t]] for t in LACKS}, multicast)
    outer = moved({t: 1 if LACKS[t] == far else blocks[LACKS[t]] for t in LACKS}, {"right": 1, "left": 1})
    return {
        "compute": float(compute),
        "scratchpad": own_batch * scratchpad / core.scratchpad_rate,
        "global_buffer": (middle + side_bytes) / core.buffer_rate,
        "hbm": (outer + side_bytes) / core.hbm_rate,
    }


def brute_force_cycles(batch: int, dims: dict[str, int], core: Core, side_bytes: float = 0.0) -> float:
    """Least cycles over every flow, split, part of the array, tile, block and order."""
    best = inf
    splits = [
        (b, m, n)
        for b, m, n in product(range(1, batch + 1), range(1, dims["m"] + 1), range(1, dims["n"] + 1))
        if b * m * n <= core.cores
    ]
    for flow, (rows_dim, columns_dim, stream) in FLOWS.items():
        for b, m, n in splits:
            own = {"m": ceil(dims["m"] / m), "n": ceil(dims["n"] / n), "k": dims["k"]}
            arrays = {
                (
                    ceil(own[rows_dim] / ceil(own[rows_dim] / w)),
                    ceil(own[columns_dim] / ceil(own[columns_dim] / d)),
                )
                for w in range(1, core.width + 1)
                for d in range(1, core.depth + 1)
            }
            for rows, columns in arrays:
                step = {rows_dim: rows, columns_dim: columns, stream: 1}
                passes = [ceil(own[d] / step[d]) for d in "mnk"]
                for rounds in product(*(range(1, p + 1) for p in passes)):
                    for blocks in product(*(range(1, dims[d] + 1) for d in "mnk")):
                        for near, far in product(LACKS, LACKS):
                            mapping = {
                                "flow": flow,
                                "cores": {"batch": b, "m": m, "n": n},
                                "array": {"rows": rows, "columns": columns},
                                "scratchpad_rounds": dict(zip("mnk", rounds, strict=True)),
                                "global_buffer_blocks": dict(zip("mnk", blocks, strict=True)),
                                "kept_tensor": {"scratchpad": near, "global_buffer": far},
                            }
                            terms = padded_terms(batch, dims, core, mapping, side_bytes)
                            best = min(best, max(terms.values()))
    return best


@dataclass
class PaperCore:
    """A core shape as the paper's cost function takes it."""

    array: tuple[int, int]
    grid: tuple[int, int]
    scratchpad: float
    buffer: float
    register_pj: float
    scratchpad_pj: float
    buffer_pj: float
    dram_pj: float


def paper_cost(dims: dict[str, int], core: PaperCore, mapping: dict) -> tuple[float, float]:
    """Cycles and pJ of a divisor mapping, straight from the published cost function."""
    names = (
        "register_tile",
        "array_unroll",
        "scratchpad_loops",
        "core_unroll",
        "global_buffer_loops",
        "dram_loops",
    )
    factors = [mapping[name] for name in names]
    assert all(prod(f[d] for f in factors) == dims[d] for d in "nck")
    register, unroll, loops_1, spread, loops_2, loops_3 = factors

    def times(*many: dict[str, int]) -> dict[str, int]:
        return {d: prod(f[d] for f in many) for d in "nck"}

    def areas(t: dict[str, int]) -> list[int]:
        return [t["n"] * t["c"], t["c"] * t["k"], t["n"] * t["k"]]

    scratchpad = times(register, unroll, loops_1)
    buffer = times(scratchpad, spread, loops_2)
    fits = (
        sum(areas(register)) <= 32
        and max(areas(scratchpad)) <= core.scratchpad
        and sum(areas(buffer)) <= core.buffer
        and on_grid(prod(unroll.values()), core.array)
        and on_grid(prod(spread.values()), core.grid)
    )
    if not fits:
        return inf, inf
    macs = prod(dims.values())
    outputs = dims["n"] * dims["k"]
    reuse_dim = {"input": "k", "weight": "n", "output": "c"}
    kept = mapping["kept_tensor"]
    ones = dict.fromkeys("nck", 1)
    latency = macs / (prod(unroll.values()) * prod(spread.values()))
    energy = (2.2 + core.register_pj) * macs + core.scratchpad_pj * (
        macs / unroll["k"] + (2 * macs - outputs) / unroll["c"]
    )
    levels = (
        ("array", register, unroll, loops_1, 64),
        ("scratchpad", scratchpad, spread, loops_2, 256),
        ("global_buffer", buffer, ones, loops_3, 128),
    )
    low_pj = (core.register_pj, core.scratchpad_pj, core.buffer_pj)
    high_pj = (core.scratchpad_pj, core.buffer_pj, core.dram_pj)
    for level, (name, tile, spatial, loops, rate) in enumerate(levels):
        fills, above = {}, {}
        for tensor, dim in reuse_dim.items():
            reuse = loops[dim] if kept[name] == tensor else 1
            fills[tensor] = macs / (tile[dim] * reuse)
            above[tensor] = fills[tensor] / spatial[dim]
        reads = above["input"] + above["weight"] + above["output"] - outputs
        latency = max(latency, max(reads, above["output"]) / rate)
        if level == 0:
            energy += low_pj[0] * fills["weight"] + high_pj[0] * above["weight"]
        else:
            energy += low_pj[level] * (sum(fills.values()) - outputs)
            energy += high_pj[level] * (reads + above["output"])
    return latency, energy


def on_grid(total: int, sides: tuple[int, int]) -> bool:
    """Whether so many units factor into the two sides of a grid."""
    return any(total % x == 0 and total // x <= sides[1] for x in range(1, sides[0] + 1))


def chains(value: int, links: int) -> list[tuple[int, ...]]:
    """All ways to write ``value`` as an ordered product of ``links`` whole numbers."""
    if links == 1:
        return [(value,)]
    return [
        (first, *rest)
        for first in range(1, value + 1)
        if value % first == 0
        for rest in chains(value // first, links - 1)
    ]


def brute_force_energy_delay(dims: dict[str, int], core: PaperCore) -> float:
    """Least energy-delay product over every divisor mapping and every order."""
    names = (
        "register_tile",
        "array_unroll",
        "scratchpad_loops",
        "core_unroll",
        "global_buffer_loops",
        "dram_loops",
    )
    best = inf
    tensors = ("input", "weight", "output")
    for n, c, k in product(chains(dims["n"], 6), chains(dims["c"], 6), chains(dims["k"], 6)):
        factors = {name: {"n": n[j], "c": c[j], "k": k[j]} for j, name in enumerate(names)}
        for kept in product(tensors, repeat=3):
            mapping = {
                **factors,
                "kept_tensor": dict(zip(("array", "scratchpad", "global_buffer"), kept, strict=True)),
            }
            cycles, energy = paper_cost(dims, core, mapping)
            if not isfinite(cycles):
                break
            best = min(best, cycles * energy)
    return best
