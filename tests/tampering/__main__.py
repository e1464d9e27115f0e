"""``python -m tests.tampering``: tampers small runs in every way and writes the table into docs/verify.md."""

import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from tests.tampering.catching import NOTHING, caught_by, outcomes, quick
from tests.tampering.excused import excuse
from tests.tampering.runs import KINDS, make_run
from tests.tampering.ways import all_ways

PAGE = Path(__file__).parents[2] / "docs" / "verify.md"
BEGIN, END = "<!-- table: python -m tests.tampering -->", "<!-- end of table -->"
REFUSED = "SQLite itself"


def main() -> int:
    """Try everything, write the table; exit code 1 if something passes that may not."""
    caught = defaultdict(lambda: defaultdict(set))
    excuses, tally, wrong = {}, Counter(), []
    with tempfile.TemporaryDirectory() as scratch, quick():
        for kind in KINDS:
            run = make_run(kind, Path(scratch) / kind.name)
            assert caught_by(run) == NOTHING, kind
            ways = list(all_ways(run))
            for way in ways:
                found = outcomes(run, way, Path(scratch) / "copy")
                alone, forged = found or (REFUSED, REFUSED)
                tally[kind.name] += 1
                why = excuse(way) if forged == NOTHING else ""
                if alone == NOTHING or (forged == NOTHING and not why):
                    wrong.append(f"{kind.name}: {way}: {alone}, {forged}")
                place = (way.table, way.column)
                if why:
                    excuses[place] = why
                    tally["by digests alone"] += 1
                by = "digests alone" if why else _named(forged)
                caught[place][by].add(way.way)
            print(f"{kind.name}: {len(ways)} ways", flush=True)
    lines = [
        f"{sum(tally[kind.name] for kind in KINDS):,} changes to {len(KINDS)} runs "
        f"({', '.join(f'{kind.name}: {tally[kind.name]:,}' for kind in KINDS)}). With the digests left alone "
        f"{'not ' if wrong else ''}all are told. With the chain recomputed, {tally['by digests alone']:,} "
        "are not, each of a kind that the last column excuses.",
        "",
        "| table | column | told, though the chain was recomputed, by | told by digests alone |",
        "|---|---|---|---|",
    ]
    for (table, column), by in sorted(caught.items()):
        told = "; ".join(
            f"{name}: {', '.join(sorted(ways))}" for name, ways in sorted(by.items()) if name != "digests alone"
        )
        ways = ", ".join(sorted(by.get("digests alone", ())))
        why = f"{ways}: {excuses[table, column]}" if ways else ""
        lines.append(f"| `{table}` | {column if column.startswith('(') else f'`{column}`'} | {told} | {why} |")
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{after}")
    print("\n".join(wrong) or "nothing passes that may not")
    return 1 if wrong else 0


def _named(check: str) -> str:
    """A check by its kind: those of a model without the model's name."""
    return f"a model's {check.rsplit(': ', 1)[1]}" if ": " in check else check


if __name__ == "__main__":
    sys.exit(main())
