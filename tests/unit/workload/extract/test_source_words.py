"""Errors of libraries in words that say what is not supported."""

import pytest

from rephaze.workload.extract.source import in_words


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            RuntimeError("expected scalar type torch.float32 but found torch.bfloat16"),
            "it mixes float32 and bfloat16 numbers, which only autocast allows; give --dtype float32",
        ),
        (RuntimeError("Unsupported dtype BFloat16"), "give --dtype float32"),
        (
            ImportError("TimmBackbone requires the timm library but it was not found"),
            "it needs the library timm, which is not installed; pip install timm",
        ),
        (AttributeError("'NoneType' object has no attribute 'get'"), "it needs an input or a setting"),
        (KeyError(2), "its code and its config or inputs do not fit each other (at 2)"),
        (StopIteration(), "(at one more item)"),
        (ValueError("codebook_pixel_value are required"), "codebook_pixel_value are required"),
        (ValueError("two\nlines"), "two lines"),
        (RuntimeError(), "it gives no reason"),
    ],
)
def test_what_a_library_raises_is_told_in_words(error, said):
    assert said in in_words(error)
    assert "Error" not in in_words(error)
    assert "\n" not in in_words(error)
