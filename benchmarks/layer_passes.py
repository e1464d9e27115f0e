"""How many passes of a model's layers are proven, on known chips and on random designs, and in what time?

Draws for each chip some of the cuts and microbatch sizes that a search may ask for and schedules every pass with
the work a search gives it, or with the hundredth it gives at first::

    python benchmarks/layer_passes.py mixtral-8x7b deepseek-v3 --random 20 --pairs 4
    python benchmarks/layer_passes.py mixtral-8x7b --hurried
"""

from __future__ import annotations

import argparse
import random
import time

from rephaze.hardware.presets import preset_chip
from rephaze.measure.chip_solver import ChipSolver
from rephaze.schedule.parts import HURRIED_WORK, SEARCH_WORK
from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.settings import resolve_settings
from rephaze.types.latency import IMPOSSIBLE_CYCLES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--chips", nargs="*", default=["h100", "tpuv4"], help="presets")
    parser.add_argument("--random", type=int, default=20, help="designs of the default space")
    parser.add_argument("--pairs", type=int, default=4, help="cuts and microbatch sizes of each chip")
    parser.add_argument("--hurried", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for model in options.models:
        evaluator = SpaceEvaluator(resolve_settings((model,)))
        (work,) = evaluator.works
        rng = random.Random(options.seed)
        chips = [preset_chip(name) for name in options.chips]
        chips += [
            evaluator.census.chips.chip(rng.randrange(evaluator.census.num_designs)) for _ in range(options.random)
        ]
        num_passes, gaps, spent_s = 0, [], 0.0
        for chip in chips:
            solver = ChipSolver(
                chip,
                evaluator.settings.scenario,
                schedule_work=HURRIED_WORK if options.hurried else SEARCH_WORK,
            )
            for cut, microbatch in rng.sample(work.pairs, min(options.pairs, len(work.pairs))):
                for kind, passes in enumerate(work.passes(cut)):
                    for direction in (0, 1):
                        table = solver.pass_table(work, cut, microbatch, kind, direction)
                        began = time.process_time()
                        found = solver.schedule(passes[direction], table)
                        spent_s += time.process_time() - began
                        if found.makespan_cycles >= IMPOSSIBLE_CYCLES:
                            continue
                        num_passes += 1
                        if found.bound_cycles < found.makespan_cycles:
                            gaps.append(1 - found.bound_cycles / found.makespan_cycles)
        print(
            f"{model} on {len(chips)} chips: {num_passes} passes, {len(gaps)} unproven"
            f" ({1 - len(gaps) / max(num_passes, 1):.1%} proven), {sum(gap > 0.01 for gap in gaps)} above 1 %;"
            f" largest gap {max(gaps, default=0.0):.2%}; {spent_s:.1f} processor seconds",
            flush=True,
        )


if __name__ == "__main__":
    main()
