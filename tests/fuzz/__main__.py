"""``python -m tests.fuzz``: fresh seeds for so long, or so many cases of one; exit code 1 if it found any."""

import argparse
import secrets
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.campaign import Tally, run_cases
from tests.fuzz.recorded import record_run

CASES_A_SEED = 500


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--cases", type=int, default=0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--first", type=int, default=0, help="number of the first case of the seed")
    parser.add_argument("--all", action="store_true", help="print every finding, not one of each kind")
    asked = parser.parse_args()
    until = time.monotonic() + 60 * asked.minutes if asked.minutes else float("inf")
    kinds: dict[str, int] = {}
    num_cases, slowest_s = 0, 0.0
    with tempfile.TemporaryDirectory(prefix="rephaze-fuzz-run-") as folder:
        run = record_run(Path(folder))
        while time.monotonic() < until and (not asked.cases or num_cases < asked.cases):
            seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed
            # In lots, so that what is found is told while the rest is tried.
            first = asked.first + (num_cases if asked.seed is not None else 0)
            left = asked.cases - num_cases if asked.cases else CASES_A_SEED
            found: Tally = run_cases(seed, min(left, CASES_A_SEED), run=run, until=until, first=first)
            num_cases, slowest_s = num_cases + found.num_cases, max(slowest_s, found.slowest_s)
            for one in found.findings:
                kinds[one.kind] = kinds.get(one.kind, 0) + 1
                if kinds[one.kind] == 1 or asked.all:
                    print(one, flush=True)
            print(
                f"seed {seed}: {found.num_cases} cases from {first}, "
                f"exit codes { ({int(code): number for code, number in sorted(found.codes.items())}) }",
                flush=True,
            )
    for kind, count in sorted(kinds.items(), key=lambda item: -item[1]):
        print(f"{count:6} {kind}")
    findings = f"{sum(kinds.values())} findings of {len(kinds)} kinds"
    print(f"{num_cases:,} cases, {findings}, slowest {slowest_s:.1f} s of a processor")
    return bool(kinds)


if __name__ == "__main__":
    sys.exit(main())
