"""A model made ready for a search: what is refused."""

from dataclasses import replace

import pytest

from rephaze.errors import SpecError
from rephaze.hardware.scenarios import load_scenario
from rephaze.measure.model_work import ModelWork


@pytest.mark.parametrize("name", ["coarse", "paper", "default"])
def test_microbatches_that_are_all_larger_than_the_batch_are_refused_in_one_line(name):
    scenario = load_scenario(name)
    training = replace(scenario.training, global_batch=3, microbatches=(4, 8))
    with pytest.raises(SpecError, match=r"microbatches is \[4, 8\]: .* no larger than the global batch of 3"):
        ModelWork("bert-large", replace(scenario, training=training))
