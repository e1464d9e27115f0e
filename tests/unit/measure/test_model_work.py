"""A model made ready for a search: what is refused."""

from dataclasses import replace

import pytest

from rephaze.errors import SpecError
from rephaze.hardware.scenarios import load_scenario
from rephaze.measure.model_work import ModelWork, model_works
from rephaze.measure.placement_memo import PlacementMemo
from rephaze.measure.units import Memory
from rephaze.recent import Recent
from rephaze.types.stopping import UNSTOPPED


@pytest.mark.parametrize("name", ["coarse", "paper", "default"])
def test_microbatches_that_are_all_larger_than_the_batch_are_refused_in_one_line(name):
    scenario = load_scenario(name)
    training = replace(scenario.training, global_batch=3, microbatches=(4, 8))
    with pytest.raises(SpecError, match=r"microbatches is \[4, 8\]: .* no larger than the global batch of 3"):
        ModelWork("bert-large", replace(scenario, training=training))


def test_placers_of_all_models_together_are_as_many_as_the_memo_keeps():
    """One that is forgotten is made anew and says the same."""
    names, scenario = ("bert-large", "opt-350m"), load_scenario("default")
    works = model_works(names, scenario, UNSTOPPED, [None, None])
    assert works[0]._memo is works[1]._memo
    memories = [Memory(gib << 30, 1e12) for gib in (16, 32, 48)]
    few = ModelWork("bert-large", scenario, memo=PlacementMemo(placers=Recent(2)))
    first = few.full_placer(few.units[0], memories[0])
    assert few.full_placer(few.units[0], memories[0]) is first
    for memory in memories[1:]:
        few.full_placer(few.units[0], memory)
    assert len(few._memo.placers) <= 2
    again = few.full_placer(few.units[0], memories[0])
    assert again is not first
    assert again.problem == first.problem
    assert works[0].full_placer(works[0].units[0], memories[0]) is not works[1].full_placer(
        works[1].units[0], memories[0]
    )
