"""``python -m tests.attack --minutes 60 --seed N``: the large budget. Exit code 1 if anything was found."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path

from tests.attack.campaign import SHARES, large_budget, small_budget
from tests.attack.findings import Tally


def main() -> int:
    """Attack until time is up, print each finding when it is made, end with what was tried."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to go on")
    parser.add_argument("--seed", type=int, default=None, help="of the draws; a fresh one unless given")
    parser.add_argument("--only", choices=tuple(SHARES), help="cost model full, searches by boxes, or the rest")
    parser.add_argument("--small", action="store_true", help="the fixed seeds of the tests, once")
    parser.add_argument("--summary", type=Path, default=Path("attack-summary.txt"), help="where the end goes")
    asked = parser.parse_args()
    seed = asked.seed if asked.seed is not None else time.time_ns() % 2**31
    began = time.perf_counter()
    until = began + 60 * asked.minutes
    tally = Tally()
    print(f"seed {seed}", flush=True)
    attacks = iter(small_budget().items()) if asked.small else large_budget(seed, until, asked.only)
    for name, attack in attacks:
        if time.perf_counter() > until:
            break
        before, start, start_cpu = len(tally.findings), time.perf_counter(), time.process_time()
        try:
            attack(tally)
        except Exception:  # noqa: BLE001 - a crash refutes as much as a wrong number does
            tally.add("crash", name, traceback.format_exc(limit=-3), f"python -m tests.attack --seed {seed}")
        took_s, cpu_s = time.perf_counter() - start, time.process_time() - start_cpu
        print(f"{name}: {took_s:.1f} s ({cpu_s:.1f} s of a core)", flush=True)
        for finding in tally.findings[before:]:
            print(f"FOUND {finding}\n", flush=True)
    minutes = (time.perf_counter() - began) / 60
    kinds: dict[str, int] = {}
    for finding in tally.findings:
        kinds[f"{finding.kind} ({finding.claim})"] = kinds.get(f"{finding.kind} ({finding.claim})", 0) + 1
    lines = [f"seed {seed}, {minutes:.0f} minutes: {tally.line}"]
    lines += [f"  {count:,} x {kind}" for kind, count in sorted(kinds.items())]
    print("\n".join(lines))
    asked.summary.write_text("\n".join(lines) + "\n")
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())
