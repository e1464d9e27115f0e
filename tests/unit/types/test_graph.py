from rephaze.types.graph import ZERO, Affine


def test_sizes_add_and_multiply_as_lines():
    size = Affine(3, 5) + Affine(1, 2).times(4)
    assert size == Affine(7, 13)
    assert [size.at(b) for b in (0, 1, 8)] == [7, 20, 111]
    assert ZERO.at(1000) == 0
