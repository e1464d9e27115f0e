"""Estimate models by name."""

import pytest

from rephaze.errors import SpecError
from rephaze.estimate.estimate_model import DEFAULT, ESTIMATE_MODELS, PAPER, Tiling, named_estimate_model


def test_models_are_found_by_their_names():
    assert named_estimate_model("default") is DEFAULT
    assert named_estimate_model("paper") is PAPER
    assert set(ESTIMATE_MODELS) == {"default", "paper"}


def test_an_unknown_name_is_refused_with_the_choices():
    with pytest.raises(SpecError, match=r"cost_model.*papers.*default.*paper"):
        named_estimate_model("papers")


def test_what_tells_the_models_apart():
    assert (DEFAULT.tiling, DEFAULT.has_memory_terms, DEFAULT.has_network_latency) == (Tiling.PADDED, True, True)
    assert (PAPER.tiling, PAPER.has_memory_terms, PAPER.has_network_latency) == (Tiling.DIVISORS, False, False)
