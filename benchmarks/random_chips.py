"""Are the layers of a model proven on any chip, not only on those a search looks at?

Draws designs of the ``default`` space, for each a degree of tensor parallelism and a microbatch size, schedules
every pass of the model there with the work a search gives it, and counts what stays unproven::

    python benchmarks/random_chips.py t5-large --chips 500
"""

from __future__ import annotations

import argparse
import random
import time

from rephaze.search.evaluator import SpaceEvaluator
from rephaze.search.settings import resolve_settings
from rephaze.types.latency import IMPOSSIBLE_CYCLES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--chips", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    evaluator = SpaceEvaluator(resolve_settings((options.model,)))
    (work,) = evaluator.works
    rng = random.Random(options.seed)
    num_passes, gaps, num_chips_open = 0, [], 0
    began = time.process_time()
    for _ in range(options.chips):
        solver = evaluator.solver(rng.randrange(evaluator.census.num_designs))
        cut, microbatch = rng.choice(work.pairs)
        found = [
            solver.pass_times(work, cut, microbatch, kind, k)
            for kind in range(len(work.passes(cut)))
            for k in (0, 1)  # forward, backward
        ]
        found = [times for times in found if times.cycles < IMPOSSIBLE_CYCLES]
        open_ = [1 - times.bound_cycles / times.cycles for times in found if times.bound_cycles < times.cycles]
        num_passes += len(found)
        gaps += open_
        num_chips_open += bool(open_)
    print(
        f"{options.model} on {options.chips} chips: {num_passes} passes, {len(gaps)} unproven, on {num_chips_open}"
        f" chips; largest gap {max(gaps, default=0.0):.2%}; {time.process_time() - began:.0f} processor seconds"
    )


if __name__ == "__main__":
    main()
