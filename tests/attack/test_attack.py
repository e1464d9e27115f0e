"""The attack on the proofs with fixed seeds; `make attack` goes on with fresh ones."""

import pytest

from tests.attack.campaign import small_budget
from tests.attack.findings import Tally
from tests.attack.sieves import SIEVES
from tests.kits.long_hunt import seldom

ATTACKS = small_budget()
LONG = (
    *("boxes: units", "boxes: 3 ", "boxes: 4 ", "boxes: 5 ", "boxes: 8 "),
    *("search: 4 ", "search: 20 ", "search: 30 ", "search: 34 ", "search: 35 ", "search: 43 ", "search: 47 "),
    *("full: 5 ", "full: 7 ", "full: 13 ", "full: 21 ", "full move: memory"),
)
"""First words of those that take longest and have others of their kind."""
MOST_SHOWN = 3


@pytest.mark.parametrize("name", seldom(ATTACKS, lambda name: not name.startswith(LONG)))
def test_nothing_is_refuted(name):
    tally = Tally()
    ATTACKS[name](tally)
    shown = "\n\n".join(str(finding) for finding in tally.findings[:MOST_SHOWN])
    assert not tally.findings, f"{len(tally.findings)} findings\n{shown}"
    # An attack that asked nothing refutes nothing.
    assert tally.num_bounds + tally.num_moves > 0


def test_the_sieves_are_those_of_the_search():
    from rephaze.search.certificate import BOUNDS, RETIRED

    assert tuple(name for name in BOUNDS if name != RETIRED) == SIEVES
