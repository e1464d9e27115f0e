"""``python -m tests.soak --minutes 60 --seed N``: disturbs searches; exit code 1 if one differs for it."""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.soak.episodes import EPISODES
from tests.soak.searches import METHODS, Search

WEIGHTS = {"killed": 5, "two writers": 1, "full disk": 2, "read-only": 1, "dask": 2}


def main() -> int:
    """One story after the other, in a random order; the last lines go to a file."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to go on")
    parser.add_argument("--seed", type=int, default=None, help="of the draws; a fresh one unless given")
    parser.add_argument("--summary", type=Path, default=Path("soak-summary.txt"), help="where the end goes")
    asked = parser.parse_args()
    seed = asked.seed if asked.seed is not None else time.time_ns() % 2**31
    began = time.monotonic()
    stories: Counter[str] = Counter()
    events: Counter[str] = Counter()
    differences: list[str] = []
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        searches = [Search(method, Path(scratch)) for method in METHODS]
        for search in searches:
            search.prepare()
            print(
                f"{search.method}, undisturbed: {search.took_s:.1f} s, {search.answer['objective']!r}", flush=True
            )
        draw = random.Random(seed)
        while time.monotonic() - began < 60 * asked.minutes:
            name = draw.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
            search = draw.choice(searches)
            run = Path(scratch) / f"run-{sum(stories.values())}"
            start = time.monotonic()
            try:
                done = EPISODES[name](search, run, draw)
            except AssertionError as error:  # also of a cluster that does not come up: the hour goes on
                differences.append(f"{search.method}, {name}: {error}")
                done = [f"DIFFERENCE: {error}"]
            stories[f"{search.method}, {name}"] += 1
            events.update(one.split(" after ")[0].split(":")[0] for one in done)
            print(f"{search.method}, {name}, {time.monotonic() - start:.0f} s: {'; '.join(done)}", flush=True)
            shutil.rmtree(run, ignore_errors=True)
    minutes = (time.monotonic() - began) / 60
    lines = [
        f"seed {seed}, {minutes:.0f} minutes: {sum(stories.values())} stories, {len(differences)} differences"
    ]
    lines += [f"  {number} x {name}" for name, number in sorted(stories.items())]
    kinds = Counter()
    for name, number in events.items():
        kinds["disk" if name.startswith("disk") else "size limit" if name.startswith("files") else name] += number
    lines += ["events: " + ", ".join(f"{number} x {name}" for name, number in sorted(kinds.items()))]
    lines += differences
    print("\n".join(lines))
    asked.summary.write_text("\n".join(lines) + "\n")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
