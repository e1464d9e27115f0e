"""Random tests draw the same examples in every CI run, and new ones on every developer's machine."""

import os

import pytest
from hypothesis import settings

# No test is about how fast a machine is: the first example of some loads what all others need.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_addoption(parser):
    parser.addoption(
        "--regen-golden",
        action="store_true",
        help="record the results of whole searches anew, then compare",
    )


def pytest_configure(config):
    if config.getoption("--regen-golden") and os.environ.get("PYTEST_XDIST_WORKER"):
        raise pytest.UsageError("--regen-golden writes one file: not with -n")


@pytest.fixture(scope="module")
def shared_memos():
    """Searches of a module share chips and operators: mapping and scheduling each once keeps the tests quick."""
    from rephaze.measure.pass_solver import Memos
    from rephaze.search import evaluator

    memos = Memos()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluator, "Memos", lambda: memos)
        yield
