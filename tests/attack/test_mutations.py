"""Does the attack bite? Each known defect is put back, and the small budget must find it."""

import pytest

from tests.attack.campaign import small_budget
from tests.attack.findings import Tally
from tests.attack.mutants import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_defect_is_found(mutant, monkeypatch):
    attacks = small_budget()
    # Where it is likeliest first: one finding is enough.
    order = dict.fromkeys(name for start in mutant.attacks for name in attacks if name.startswith(start))
    mutant.plant(monkeypatch)
    for name in order:
        tally = Tally()
        attacks[name](tally)
        if any(item.kind in mutant.kinds and mutant.claim in item.claim for item in tally.findings):
            return
    pytest.fail(f"none of {len(order)} attacks found it")
