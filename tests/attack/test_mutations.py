"""Does the attack bite? Each known defect is put back, and the small budget must find it."""

import pytest

from tests.attack.campaign import small_budget
from tests.attack.findings import Tally
from tests.attack.mutants import MUTANTS
from tests.kits.long_hunt import seldom

EVERY_TIME = {
    "unproven called optimal", "area floor grows with the limit", "one counted twice", "fastest mapping only",
    "device time x 0.97", "schedules and plans x 0.97", "full: device time x 0.97", "full: family ignored",
    "full: replays without energy", "full: unproven called optimal", "boxes: corner short by one",
    "boxes: tie rule ignored", "boxes: dropped counted as solved", "full: cuts left out", "full: room left empty",
    "boxes: rules asked beyond what fits", "boxes: half closed by the other", "boxes: slab recorded whole",
}  # fmt: skip
"""Those soon found, of every kind; all with ``make attack-mutations``."""


@pytest.mark.parametrize(
    "mutant", seldom(MUTANTS, lambda one: one.name in EVERY_TIME), ids=[one.name for one in MUTANTS]
)
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


def test_every_run_puts_back_a_defect_of_each_kind():
    found = {mutant.name: mutant for mutant in MUTANTS}
    assert found.keys() >= EVERY_TIME
    kinds = {kind for name in EVERY_TIME for kind in found[name].kinds}
    assert kinds >= {kind for mutant in MUTANTS for kind in mutant.kinds}
