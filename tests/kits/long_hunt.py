"""What `make test` leaves to `make test-slow`: further cases of a kind, further random examples.

What is left out depends on this switch alone, never on a clock.
"""

import os

import pytest

IS_LONG = bool(os.environ.get("REPHAZE_TEST_LONG"))
"""Set by `make test-slow`."""


def examples(few, many):
    """How many random cases to draw: few in every test run, many in the long hunt."""
    return many if IS_LONG else few


def seldom(cases, is_kept):
    """The cases as parameters, those marked ``slow`` that are not kept for every test run.

    Args:
        cases: Values or tuples of values.
        is_kept: Whether every test run has the case, by case.
    """
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)), marks=() if is_kept(case) else pytest.mark.slow
        )
        for case in cases
    ]
