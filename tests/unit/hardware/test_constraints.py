"""Constraints are read term by term, and never as code."""

import pytest

from rephaze.errors import SpecError
from rephaze.hardware.constraints import parse_constraint
from rephaze.types.space import Comparison


@pytest.mark.parametrize("comparison", list(Comparison))
def test_every_sign_is_read_as_itself(comparison):
    found = parse_constraint(f"num_macs{comparison}5")
    assert found.comparison is comparison
    assert (found.left_fields, found.right_fields, found.right_factor) == (("num_macs",), (), 5.0)


def test_fields_and_numbers_of_a_product_are_told_apart():
    text = " 2 * num_vector_cores*1.5 * vector_lanes  >=  tensor_width * 1e3 "
    found = parse_constraint(text)
    assert found.text == text
    assert (found.left_fields, found.left_factor) == (("num_vector_cores", "vector_lanes"), 3.0)
    assert (found.right_fields, found.right_factor) == (("tensor_width",), 1000.0)


@pytest.mark.parametrize("text", ["", "num_macs", "num_macs = 5", "num_macs != 5", "1 < num_macs < 2"])
def test_what_compares_no_two_products_is_refused_with_the_signs(text):
    with pytest.raises(SpecError, match=r"must compare two products .* one of <=, <, >=, >, ==; for example"):
        parse_constraint(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("num_mac <= 5", "'num_mac' is neither a number nor a chip field; did you mean 'num_macs'"),
        ("num_macs * <= 5", "'' is neither"),
        ("num_macs + 1 <= 5", r"'num_macs \+ 1' is neither"),
        ("name <= 5", "'name' is neither"),
        ("take <= 5", "'take' is neither"),
        ("__class__ <= 5", "'__class__' is neither"),
    ],
)
def test_a_term_that_is_neither_number_nor_field_is_named(text, said):
    with pytest.raises(SpecError, match=said):
        parse_constraint(text)
