"""The attack on the proofs with fixed seeds; `make attack` goes on with fresh ones."""

import pytest

from tests.attack.campaign import small_budget
from tests.attack.findings import Tally
from tests.attack.sieves import SIEVES

ATTACKS = small_budget()
MOST_SHOWN = 3


@pytest.mark.parametrize("name", ATTACKS)
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
