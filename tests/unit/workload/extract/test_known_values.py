"""Values beside a run on the meta device: known where they follow from constants, refused where from weights."""

import pytest

from rephaze.errors import UnsupportedError
from rephaze.workload.extract.known_values import KnownValues, watching

torch = pytest.importorskip("torch")


@pytest.fixture
def known():
    return KnownValues()


def given(known, values):
    tensor = torch.empty(len(values), dtype=torch.long, device="meta")
    known.give(tensor, torch.tensor(values))
    return tensor


def test_numbers_that_follow_from_constants_are_answered(known):
    tokens = given(known, [3, 7, 7, 1])
    with watching(known):
        assert (tokens == 7).sum().item() == 2
        assert (tokens + torch.arange(4, device="meta")).tolist() == [3, 8, 9, 4]
        assert (tokens == 7).nonzero().shape == (2, 1)


def test_a_mask_of_known_values_chooses_as_many_rows(known):
    tokens = given(known, [3, 7, 7, 1])
    features = torch.empty(4, 5, device="meta")
    with watching(known):
        assert features[tokens == 7].shape == (2, 5)
        assert torch.masked_select(features, (tokens == 7)[:, None]).shape == (10,)


def test_writing_through_a_view_is_seen_and_unknown_numbers_are_forgotten(known):
    tokens = given(known, [0, 0, 0])
    with watching(known):
        tokens[1:] = 5
        assert tokens.tolist() == [0, 5, 5]
        tokens.copy_(torch.empty(3, dtype=torch.long, device="meta"))
        assert known.of(tokens) is None


def test_what_follows_from_weights_is_not_made_up(known):
    weight = torch.empty(4, device="meta")
    with watching(known):
        with pytest.raises(UnsupportedError, match="follows from weights"):
            weight.sum().item()
        with pytest.raises(UnsupportedError, match="follows from the weights"):
            _ = weight[weight > 0]


def test_an_image_is_not_blank_however_large_it_is(known):
    image = torch.empty(2, 3, 4096, 4096, device="meta")
    known.give_even(image, 1.0)
    with watching(known):
        assert (image == 0.0).sum(dim=(1, 2, 3)).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
def test_grouped_products_are_of_any_type_of_numbers(known, dtype):
    numbers = getattr(torch, dtype)
    tokens, weights = (torch.empty(*shape, dtype=numbers, device="meta") for shape in ((16, 32), (4, 32, 64)))
    ends = torch.empty(4, dtype=torch.int32, device="meta")
    with watching(known):
        made = torch._grouped_mm(tokens, weights, offs=ends)
    assert (made.shape, made.dtype) == ((16, 64), numbers)
